"""One tile of one group's rows per program: tensor cores for 2-byte types, fp32 units for float32.

The grid is the maximum number of tiles for any `ends`: one for each BLOCK_M rows, and one more, partly empty, for
each group. The host therefore does not wait for `ends`; a program finds its group on the device. The kernel is
``gemm/triton_tiled.py``.
"""

import torch

from warpwise.gemm import triton_tiled
from warpwise.gemm.config import parsed

FLOAT32, HALVES = parsed("64x64x32_w4_s3", "128x128x64_w8_s3")


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> None:
    tile = FLOAT32 if a.dtype == torch.float32 else HALVES
    triton_tiled.launch(c, a, b, tile, ends=offsets.contiguous())
