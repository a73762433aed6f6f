"""The ladders of linear and of its activation's backward, slowest idea first. Launchers: `_launch`, `_backward`."""

from __future__ import annotations

import torch

from warpwise.ops._common import cdiv, is_hopper, make_rung, multiprocessors
from warpwise.ops.linear import _backward, _launch
from warpwise.ops.linear._launch import HERE
from warpwise.ops.linear.spec import KERNEL_DTYPES, fuses
from warpwise.ops.matmul.op import MATMUL

RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread an element, finished before it is written",
              _launch.thread_per_element, dtypes=KERNEL_DTYPES, limits=_launch.grid_of_elements, strided=True),
    make_rung(HERE, "k02_triton_pass", "matmul's fastest product, then one pass over it", _launch.product_and_pass,
              dtypes=(torch.float32,), limits=_launch.grid_of_pass, strided=True),
    make_rung(HERE, "k03_triton_tiled", "tiles in Triton, finished in registers, any strides", _launch.triton_tiled,
              dtypes=KERNEL_DTYPES, limits=_launch.grid_of_tiles, strided=True, configs=_launch.tiled_configs),
    make_rung(HERE, "k04_triton_copy_engine", "Hopper through Triton: boxes by the copy engine, programs that stay",
              _launch.triton_boxes, dtypes=(torch.float16, torch.bfloat16), limits=_launch.copy_engine, strided=True,
              configs=_launch.boxes_configs),
    make_rung(HERE, "k05_warpgroups", "Hopper by hand: sums finished by few instructions, stored under the next tile's products",
              _launch.warpgroups, dtypes=(torch.float16, torch.bfloat16), limits=_launch.warpgroup_products, strided=True,
              devices=("cuda",), configs=_launch.warpgroups_configs),
)  # fmt: skip

BACKWARD_RUNGS = (
    make_rung(HERE, "k01_backward_thread_per_column", "one thread a column, gradient and sum in one pass",
              _backward.thread_per_column, dtypes=KERNEL_DTYPES, limits=_backward.too_large),
    make_rung(HERE, "k02_backward_triton_strips", "strips of rows in Triton, partial sums added by a second kernel",
              _backward.triton_strips, dtypes=KERNEL_DTYPES, limits=_backward.too_large),
)  # fmt: skip

_LIMITS = {rung.name: rung.limits for rung in (*RUNGS, *BACKWARD_RUNGS)}


def default(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str | None,
    residual: torch.Tensor | None, row_scale: torch.Tensor | None, keep: bool,
) -> str | None:  # fmt: skip
    """For float32 the fastest product, if that is ours, and a pass if more than a bias follows; for 2-byte types Hopper's
    warpgroups where they have tiles enough, Triton's tiles on other GPUs; PyTorch for the rest, and where cuBLASLt does
    all of it in one kernel as fast."""
    rest = (bias, activation, residual, row_scale, keep)
    alone = activation is residual is row_scale is None
    if input.dtype not in KERNEL_DTYPES or (alone and not is_hopper(input)):
        return None
    m, n, k = _launch.sizes(input, weight)
    name = None if alone else "k03_triton_tiled"
    if input.dtype == torch.float32:
        theirs = input.is_cuda and MATMUL.choice(input.reshape(m, k), weight.t()).name is None
        theirs = theirs or (alone and bias is not None)  # which costs them nothing, and us a pass
        name = None if theirs else "k02_triton_pass"
    elif is_hopper(input) and not _launch.copy_engine(input, weight, *rest):
        tiles, full = cdiv(m, 128) * cdiv(n, 256), multiprocessors(input)
        enough = 4 * tiles >= 3 * full or m * n * k <= 2**30
        if alone or fuses(input, weight, *rest):
            enough = tiles >= 4 * full and activation != "gelu_tanh"
        name = "k05_warpgroups" if enough else None
    return None if name is None or _LIMITS[name](input, weight, *rest) else name


def default_backward(grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str) -> str | None:
    name = "k02_backward_triton_strips"
    wrong = grad_output.dtype not in KERNEL_DTYPES or _LIMITS[name](grad_output, preactivation, activation)
    return None if wrong else name
