"""One tile of C per program, in Triton: fp8 tensor cores where supported, k-tiles added in float32.

The kernel is ``gemm/triton_tiled.py``. Its ``max_num_imprecise_acc`` is the number of products that wgmma may
accumulate with its 13 bits after the binary point: one k-tile. On other devices Triton computes fp8 exactly by
conversion.
"""

import torch

from warpwise.gemm import triton_tiled
from warpwise.gemm.config import parsed
from warpwise.operation import cdiv, sm_count
from warpwise.ops.scaled_matmul._shared import contiguous_operands, contiguous_scales

LARGE, SMALL = parsed("128x128x128_w8_s4", "64x64x128_w4_s4")


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    left, right = contiguous_operands(a, b)
    fills = cdiv(a.shape[0], LARGE.m) * cdiv(b.shape[1], LARGE.n) >= sm_count(a)
    tile = LARGE if fills and not a.is_cpu else SMALL
    triton_tiled.launch(c, left, right.t(), tile, scales=contiguous_scales(scale_a, scale_b)[:2])
