"""The ladders of linear and of its activation's backward, slowest idea first. Launchers: `_launch`, `_backward`."""

from __future__ import annotations

import torch

from warpwise.ops._common import is_hopper, make_rung
from warpwise.ops.linear import _backward, _launch
from warpwise.ops.linear._launch import HERE
from warpwise.ops.linear.spec import KERNEL_DTYPES

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
    """PyTorch where a bias alone follows, which cuBLASLt adds itself; else for float32 the fastest product and a pass, for
    2-byte types boxes where a Hopper GPU can move them, or tiles."""
    if activation is residual is row_scale is None or input.dtype not in KERNEL_DTYPES:
        return None
    rest = (bias, activation, residual, row_scale, keep)
    if input.dtype == torch.float32:
        name = "k02_triton_pass"
    elif is_hopper(input) and not _launch.copy_engine(input, weight, *rest):
        name = "k04_triton_copy_engine"
    else:
        name = "k03_triton_tiled"
    return None if _LIMITS[name](input, weight, *rest) else name


def default_backward(grad_output: torch.Tensor, preactivation: torch.Tensor, activation: str) -> str | None:
    name = "k02_backward_triton_strips"
    wrong = grad_output.dtype not in KERNEL_DTYPES or _LIMITS[name](grad_output, preactivation, activation)
    return None if wrong else name
