"""The public function vector_add."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.vector_add.rungs import RUNGS, default
from warpwise.ops.vector_add.spec import SPEC

VECTOR_ADD = register(Op(SPEC, RUNGS, default))
_vector_add = VECTOR_ADD.call


def vector_add(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a + b``, all of shape (N,) and of dtype float16, bfloat16, float32 or float64; differentiable.

    ``rung`` names one kernel of the ladder. Raises ``TypeError`` or ``ValueError`` if the two differ in dtype, device
    or length, or are not vectors.
    """
    return _vector_add(a, b, rung)
