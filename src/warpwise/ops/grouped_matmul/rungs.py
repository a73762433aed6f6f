"""The two ladders of grouped_matmul, the product and the gradient of its matrices, slowest idea first."""

from __future__ import annotations

import torch

from warpwise.ops._common import make_rung
from warpwise.ops.grouped_matmul import _launch as launch
from warpwise.ops.grouped_matmul.spec import KERNEL_DTYPES
from warpwise.registry import Rung

TWO_BYTES = (torch.float16, torch.bfloat16)

RUNGS: tuple[Rung, ...] = (
    make_rung(launch.HERE, "k01_naive", "one thread an element, its group found by halves", launch.naive,
              dtypes=KERNEL_DTYPES, limits=launch.rows_limit, strided=True),
    make_rung(launch.HERE, "k02_triton_tiled", "tiles in Triton, any strides, the most programs that ends may need",
              launch.triton_tiled, dtypes=KERNEL_DTYPES, limits=launch.tiles_limit, strided=True),
    make_rung(launch.HERE, "k03_triton_descriptors", "boxes by the copy engine; groups, tiles and slices one loop",
              launch.triton_descriptors, dtypes=TWO_BYTES, limits=launch.descriptors_limits,
              configs=launch.descriptors_configs, strided=True),
)  # fmt: skip

BACKWARD_RUNGS: tuple[Rung, ...] = (
    make_rung(launch.HERE, "k01_backward_naive", "one thread an element, a sum down the group's rows",
              launch.backward_naive, dtypes=KERNEL_DTYPES, limits=launch.backward_rows_limit, strided=True),
    make_rung(launch.HERE, "k02_backward_triton_tiled", "tiles in Triton, any strides", launch.backward_triton_tiled,
              dtypes=KERNEL_DTYPES, limits=launch.backward_tiles_limit, strided=True),
    make_rung(launch.HERE, "k03_backward_triton_descriptors", "boxes by the copy engine, clipped where a group begins",
              launch.backward_triton_descriptors, dtypes=TWO_BYTES, limits=launch.backward_descriptors_limits,
              configs=launch.backward_descriptors_configs, strided=True),
    make_rung(launch.HERE, "k04_backward_deferred_stores", "Hopper: a tile leaves under the next one's products",
              launch.backward_deferred_stores, dtypes=TWO_BYTES, limits=launch.backward_deferred_limits,
              configs=launch.backward_deferred_configs, devices=("cuda",), strided=True),
)  # fmt: skip


def default(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """Descriptors where the copy engine can address 2-byte factors, tiles elsewhere; PyTorch for float64 and huge sizes."""
    if a.dtype not in KERNEL_DTYPES or launch.tiles_limit(a, b, offsets):
        return None
    boxes = a.dtype in TWO_BYTES and not launch.descriptors_limits(a, b, offsets)
    return "k03_triton_descriptors" if boxes else "k02_triton_tiled"


def default_backward(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """As ``default``, and on Hopper the kernel whose tiles leave under the next one's products."""
    if a.dtype not in KERNEL_DTYPES or launch.backward_tiles_limit(a, grad_output, offsets):
        return None
    if a.is_cuda and a.dtype in TWO_BYTES and not launch.backward_deferred_limits(a, grad_output, offsets):
        return "k04_backward_deferred_stores"
    boxes = a.dtype in TWO_BYTES and not launch.backward_descriptors_limits(a, grad_output, offsets)
    return "k03_backward_triton_descriptors" if boxes else "k02_backward_triton_tiled"
