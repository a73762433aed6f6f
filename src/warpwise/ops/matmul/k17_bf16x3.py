"""bf16x3: float32 on the tensor cores by splitting each operand into three bfloat16 terms; six of nine products.

A float32 has 24 bits of mantissa; a bfloat16 has 8 and the same exponent range. So x = high + middle + low exactly,
each term the leading bits of the remainder (truncated: rounding could overflow to infinity). Of the nine products,
low * low, middle * low and low * middle are below 2^-24 of the result and are omitted. The accumulation of the tensor
cores loses bits as the sum grows, so each k-tile is accumulated separately, smallest products first, and added to
float32 sums: ``dot_bf16x3`` in ``gemm/triton_tiled.py``.

Infinities cannot be split: infinity * 0 makes their row or column NaN.
"""

import torch

from warpwise.gemm import triton_tiled
from warpwise.gemm.config import GemmConfig
from warpwise.ops.matmul._triton import bf16x3_configs


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    triton_tiled.launch(c, a, b, GemmConfig.parse(config or bf16x3_configs(a, b)[0]), bf16x3=True)
