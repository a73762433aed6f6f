"""The ladder of linear, slowest idea first."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.gemm.fused import problem as fused
from warpwise.gemm.limits import is_hopper
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops.linear.forward import _shared, k01_thread_per_element
from warpwise.ops.linear.spec import KERNEL_DTYPES, fuses
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent

RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per element, the epilogue before its store",
              k01_thread_per_element.launch, dtypes=KERNEL_DTYPES, limits=_shared.grid_of_elements, strided=True),
    *fused.rungs(_shared.problem, _shared.operands, _shared.warpgroup_limits, MATMUL),
)  # fmt: skip

_LIMITS = {rung.name: rung.limits for rung in RUNGS}


def default(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    activation: str | None,
    residual: torch.Tensor | None,
    row_scale: torch.Tensor | None,
    return_preactivation: bool,
) -> str | None:
    """The rung for sizes that no table covers.

    float32 takes k02 where matmul chooses a rung, unless only a bias follows; 2-byte types take k05 on Hopper with
    enough tiles, and k06 on other GPUs; PyTorch computes the rest, and what cuBLASLt fuses into one kernel as fast.
    """
    rest = (bias, activation, residual, row_scale, return_preactivation)
    alone = activation is residual is row_scale is None
    if input.dtype not in KERNEL_DTYPES or (alone and not is_hopper(input)):
        return None
    m, n, k = _shared.sizes(input, weight)
    name = None if alone else "k06_cluster_split_k"
    if input.dtype == torch.float32:
        theirs = input.is_cuda and MATMUL.choice(input.reshape(m, k), weight.t()).name is None
        theirs = theirs or (alone and bias is not None)  # which cuBLASLt fuses, and k02 adds in a second kernel
        name = None if theirs else "k02_triton_pass"
    elif is_hopper(input) and not _shared.warpgroup_limits(input, weight, *rest):
        tiles, full = cdiv(m, 128) * cdiv(n, 256), sm_count(input)
        enough = 4 * tiles >= 3 * full or m * n * k <= 2**30
        if alone or fuses(input, weight, *rest):
            enough = tiles >= 4 * full and activation != "gelu_tanh"
        name = "k05_warpgroups" if enough else None
    return None if name is None or _LIMITS[name](input, weight, *rest) else name
