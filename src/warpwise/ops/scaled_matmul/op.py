"""The public function scaled_matmul."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.scaled_matmul.rungs import RUNGS, default
from warpwise.ops.scaled_matmul.spec import SPEC
from warpwise.ops.scaled_matmul.tables import TABLES

SCALED_MATMUL = register(Op(SPEC, RUNGS, default, TABLES))
_scaled_matmul = SCALED_MATMUL.call


def scaled_matmul(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor, *, rung: str | None = None
) -> torch.Tensor:
    """``(a * scale_a) @ (b * scale_b)`` for fp8 matrices a (M, K) and b (K, N): (M, N), bfloat16.

    a and b are float8_e4m3fn, one of them may be float8_e5m2. The scales are float32: one for each matrix, of shape ()
    or (1,), or one for each row of a, (M, 1), and for each column of b, (1, N). The fastest layout is a row-major a and
    a column-major b, such as a linear layer's transposed weight. Other layouts are copied first, and on Hopper also
    operands whose rows along K are not aligned to 16 bytes.

    Groups of at most 256 products are added in float32. Within a group, Hopper's tensor cores truncate products at
    2^-13 of the largest of 32 products. (``torch._scaled_mm`` without ``use_fast_accum`` has groups of 128.) An empty
    sum, K = 0, is 0. Not differentiable. Raises ``TypeError`` or ``ValueError`` for other dtypes, for shapes that do
    not match, and for tensors on several devices. ``rung`` names one rung, ``name@config`` one of its configurations.
    """
    output: torch.Tensor = _scaled_matmul(a, b, scale_a, scale_b, rung)
    return output
