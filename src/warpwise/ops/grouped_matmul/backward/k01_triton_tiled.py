"""One tile of one group's matrix per program, in Triton, which accumulates over the rows of the group.

All matrices have the same size, so the grid is known on the host; the number of k-tiles is read from ``ends``. Rows are
masked in both operands: a row of the next group may contain an infinity, and 0 times infinity is NaN. The kernel is
``gemm/triton_tiled.py``.
"""

import torch

from warpwise.gemm import triton_tiled
from warpwise.gemm.config import parsed

FLOAT32, HALVES = parsed("64x64x32_w4_s3", "128x128x64_w8_s3")


def launch(result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> None:
    tile = FLOAT32 if a.dtype == torch.float32 else HALVES
    triton_tiled.launch(result, a.t(), grad_output, tile, ends=offsets.contiguous())
