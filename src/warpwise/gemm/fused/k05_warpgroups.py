"""The launcher of k05."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpwise import cuda
from warpwise.gemm.epilogue import aligned_pairs, epilogue_launch
from warpwise.gemm.operands import flags

WARPGROUPS = cuda.load(Path(__file__).with_suffix(".cu"))
ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh")  # the kernel's numbers of them


def launch(problem: Any, config: str | None) -> None:
    """A source of one row is added as a bias."""
    a, b, result, kept, bias, scale, activation, source, alpha, beta = problem
    scaled = alpha is not None
    if source is not None and scaled and (source.stride(0) == 0 or source.shape[0] == 1):
        bias, source = source[0], None
    plan = epilogue_launch(a, b.t(), result, source, kept, config)
    template = f"{ACTIVATIONS.index(activation)}, {flags(source is not None, kept is not None, scaled)}"
    kernel = WARPGROUPS[f"gemm_warpgroups<{plan.parameters}, {template}>"]
    row = None if bias is None else aligned_pairs(bias)
    factors = (alpha, beta if beta is not None else 0.0) if scaled else (1.0, 1.0)
    kernel[plan.launch](*plan.maps, row, scale, *factors, *problem.sizes, *plan.tiles)
