"""The public function transpose."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.transpose.rungs import RUNGS, default
from warpwise.ops.transpose.spec import SPEC
from warpwise.registry import Op, register

TRANSPOSE = register(Op(SPEC, RUNGS, default))


def _backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    return transpose(grad)


_transpose = public(TRANSPOSE, "(Tensor input) -> Tensor", _backward)


def transpose(input: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """The transpose (N, M) of a matrix (M, N), as a new contiguous tensor, never a view; differentiable.

    ``input`` is of any dtype with elements of 1, 2, 4 or 8 bytes. Raises ``TypeError`` for another dtype and
    ``ValueError`` if it is not a matrix. ``rung`` asks for one kernel of the ladder by name.
    """
    return _transpose(input, rung=rung)
