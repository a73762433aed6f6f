"""The public function matrix_add."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.matrix_add.rungs import RUNGS, default
from warpwise.ops.matrix_add.spec import SPEC
from warpwise.registry import Op, register

MATRIX_ADD = register(Op(SPEC, RUNGS, default))


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    wants_a, wants_b = ctx.needs_input_grad[:2]
    return grad if wants_a else None, grad if wants_b else None


_matrix_add = public(MATRIX_ADD, "(Tensor a, Tensor b) -> Tensor", _backward)


def matrix_add(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a + b`` for matrices (M, N), float16, bfloat16, float32 or float64; the result is contiguous. Differentiable.

    Rows may have gaps between them (a view of some columns of a wider matrix) at no cost.
    Raises ``TypeError`` or ``ValueError`` if the two differ in dtype, device or shape, or are not matrices.
    ``rung`` asks for one kernel of the ladder by name.
    """
    return _matrix_add(a, b, rung=rung)
