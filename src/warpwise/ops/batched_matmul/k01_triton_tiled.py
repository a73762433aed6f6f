"""One tile of one matrix per program: tensor cores for 2-byte types, fp32 units for float32.

Operands are addressed by strides, so any layout is accepted. The kernel is ``gemm/triton_tiled.py``.
"""

import torch

from warpwise.gemm import triton_tiled
from warpwise.gemm.config import parsed
from warpwise.gemm.operands import Shape
from warpwise.operation import cdiv, sm_count

SMALL_FLOAT32, SMALL, LARGE = parsed("64x64x32_w4_s3", "64x64x64_w4_s4", "128x128x64_w8_s3")


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    batch, m, n, _ = Shape.of(a, b)
    fills = batch * cdiv(m, LARGE.m) * cdiv(n, LARGE.n) >= sm_count(a)
    triton_tiled.launch(c, a, b, SMALL_FLOAT32 if a.dtype == torch.float32 else LARGE if fills else SMALL)
