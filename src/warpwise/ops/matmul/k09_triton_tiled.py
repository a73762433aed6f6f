"""One tile of C per program, in Triton: tensor cores for 2-byte types, fp32 units at full precision for float32.

The kernel is ``gemm/triton_tiled.py``. Its grouped raster order keeps operands in L2: in row-major order each wave of
programs would read all of B.
"""

import torch

from warpwise.device.limits import shared_bytes
from warpwise.gemm import triton_tiled
from warpwise.gemm.config import parsed
from warpwise.operation import cdiv, sm_count

FLOAT32, SMALL, LARGE = parsed("64x64x32_w4_s3", "64x64x64_w4_s4", "128x256x64_w8_s3")


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    tile = SMALL if a.dtype != torch.float32 else FLOAT32
    if a.dtype != torch.float32 and cdiv(a.shape[0], LARGE.m) * cdiv(b.shape[1], LARGE.n) >= sm_count(a):
        tile = LARGE if shared_bytes(a) >= LARGE.ring_bytes(2, 0, 0) else SMALL
    triton_tiled.launch(c, a, b, tile)
