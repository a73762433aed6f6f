"""The ladder of addmm, slowest idea first."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.gemm.fused import problem as fused
from warpwise.gemm.limits import is_hopper
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops.addmm import _shared, k01_thread_per_element
from warpwise.ops.addmm.spec import KERNEL_DTYPES
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent

RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per element, which adds before it stores",
              k01_thread_per_element.launch, dtypes=KERNEL_DTYPES, limits=_shared.grid_of_elements, strided=True),
    *fused.rungs(_shared.problem, _shared.operands, _shared.warpgroup_limits, MATMUL),
)  # fmt: skip


def default(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> str | None:
    """The rung for sizes that no table covers: k05 for 2-byte types on Hopper with enough tiles, else PyTorch.

    A row as input needs more tiles, since cuBLASLt adds it in its own epilogue.
    """
    if not is_hopper(a) or a.dtype not in (torch.float16, torch.bfloat16):
        return None
    (m, k), n = a.shape, b.shape[1]
    tiles, full = cdiv(m, 128) * cdiv(n, 256), sm_count(a)
    whole = beta != 0 and input.shape == (m, n)
    enough = 4 * tiles >= 3 * full or m * n * k <= 2**30 if whole else tiles >= 4 * full
    return "k05_warpgroups" if enough and not _shared.warpgroup_limits(input, a, b, beta, alpha) else None
