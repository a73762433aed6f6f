"""The public function matrix_add."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.matrix_add.rungs import RUNGS, default
from warpwise.ops.matrix_add.spec import SPEC

MATRIX_ADD = register(Op(SPEC, RUNGS, default))
_matrix_add = MATRIX_ADD.call


def matrix_add(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a + b`` for matrices (M, N), float16, bfloat16, float32 or float64; the result is contiguous. Differentiable.

    A view of some columns of a wider matrix is read in place. ``rung`` names one kernel of the ladder. Raises
    ``TypeError`` or ``ValueError`` if the two differ in dtype, device or shape, or are not matrices.
    """
    return _matrix_add(a, b, rung)
