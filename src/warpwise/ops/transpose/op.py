"""The public function transpose."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.transpose.rungs import RUNGS, default
from warpwise.ops.transpose.spec import SPEC


def _backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"input": _transpose(grad)}


TRANSPOSE = register(Op(replace(SPEC, gradient=Gradient(_backward)), RUNGS, default))
_transpose = TRANSPOSE.call


def transpose(input: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """The transpose (N, M) of a matrix (M, N), as a new contiguous tensor, never a view; differentiable.

    ``input`` is float16, bfloat16, float32, float64, bool, uint8, int8, int16, int32, int64 or complex64. ``rung``
    names one kernel of the ladder. Raises ``TypeError`` for another dtype and ``ValueError`` if ``input`` is not a
    matrix.
    """
    return _transpose(input, rung)
