"""The public functions polynomial and polynomial_backward."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.polynomial.rungs import BACKWARD_RUNGS, RUNGS, backward_default, default
from warpwise.ops.polynomial.spec import BACKWARD, SPEC
from warpwise.registry import Op, register

POLYNOMIAL = register(Op(SPEC, RUNGS, default))
POLYNOMIAL_BACKWARD = register(Op(BACKWARD, BACKWARD_RUNGS, backward_default))


def _save(ctx: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
    return polynomial_backward(grad, *ctx.saved_tensors)


def _backward_backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Of grad · (2x + 1): the derivative by grad is 2x + 1, by x it is 2 · grad."""
    grad, input = ctx.saved_tensors
    wants_grad, wants_input = ctx.needs_input_grad[:2]
    return polynomial_backward(upstream, input) if wants_grad else None, 2 * grad * upstream if wants_input else None


_polynomial = public(POLYNOMIAL, "(Tensor input) -> Tensor", _backward, _save)
_polynomial_backward = public(POLYNOMIAL_BACKWARD, "(Tensor grad, Tensor input) -> Tensor", _backward_backward, _save)


def polynomial(input: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``input² + input + 1`` for a tensor of any shape, float16, bfloat16, float32 or float64; contiguous.

    Differentiable any number of times: the gradient is ``polynomial_backward``, a kernel of its own. 2-byte dtypes are
    computed in float32 and rounded once. Raises ``TypeError`` for another dtype. ``rung`` asks for one kernel by name.
    """
    return _polynomial(input, rung=rung)


def polynomial_backward(grad: torch.Tensor, input: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``grad * (2 * input + 1)`` for two tensors of one shape, dtype and device; differentiable any number of times.

    Raises ``TypeError`` or ``ValueError`` if they differ. ``rung`` asks for one kernel by name.
    """
    return _polynomial_backward(grad, input, rung=rung)
