"""The public functions polynomial and polynomial_backward."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.polynomial.backward.rungs import RUNGS as BACKWARD_RUNGS
from warpwise.ops.polynomial.backward.rungs import default as backward_default
from warpwise.ops.polynomial.forward.rungs import RUNGS, default
from warpwise.ops.polynomial.spec import BACKWARD, SPEC


def _double_backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """grad_input = g · (2x + 1): its derivative is 2x + 1 with respect to g, and 2g with respect to x."""
    return {
        "grad_output": _polynomial_backward(grad, saved.input) if saved.wants("grad_output") else None,
        "input": 2 * saved.grad_output * grad if saved.wants("input") else None,
    }


_DOUBLE_BACKWARD = Gradient(_double_backward, saves=("grad_output", "input"))
POLYNOMIAL_BACKWARD = register(Op(replace(BACKWARD, gradient=_DOUBLE_BACKWARD), BACKWARD_RUNGS, backward_default))
POLYNOMIAL = register(Op(replace(SPEC, gradient=Gradient(POLYNOMIAL_BACKWARD)), RUNGS, default))
_polynomial = POLYNOMIAL.call
_polynomial_backward = POLYNOMIAL_BACKWARD.call


def polynomial(input: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``input² + input + 1`` for a tensor of any shape, float16, bfloat16, float32 or float64; contiguous.

    Differentiable any number of times; the gradient is ``polynomial_backward``. 2-byte dtypes are computed in float32
    and rounded once. ``rung`` names one kernel of the ladder. Raises ``TypeError`` for another dtype.
    """
    return _polynomial(input, rung)


def polynomial_backward(grad_output: torch.Tensor, input: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``grad_output * (2 * input + 1)``, the gradient of ``polynomial``; differentiable any number of times.

    ``grad_output`` and ``input`` have the same shape, dtype and device. ``rung`` names one kernel of the ladder. Raises
    ``TypeError`` or ``ValueError`` if they differ.
    """
    return _polynomial_backward(grad_output, input, rung)
