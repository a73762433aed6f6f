"""The public function vector_add."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.vector_add.rungs import RUNGS, default
from warpwise.ops.vector_add.spec import SPEC
from warpwise.registry import Op, register

VECTOR_ADD = register(Op(SPEC, RUNGS, default))


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    wants_a, wants_b = ctx.needs_input_grad[:2]
    return grad if wants_a else None, grad if wants_b else None


_vector_add = public(VECTOR_ADD, "(Tensor a, Tensor b) -> Tensor", _backward)


def vector_add(a: torch.Tensor, b: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a + b``, all of shape (N,) and of dtype float16, bfloat16, float32 or float64; differentiable.

    Raises ``TypeError`` or ``ValueError`` if the two differ in dtype, device or length, or are not vectors.
    ``rung`` asks for one kernel of the ladder by name.
    """
    return _vector_add(a, b, rung=rung)
