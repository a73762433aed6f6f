"""The public functions cross_entropy and cross_entropy_backward."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.operation import Gradient, Op, register
from warpwise.ops.cross_entropy.backward import rungs as backward
from warpwise.ops.cross_entropy.forward import rungs as forward
from warpwise.ops.cross_entropy.spec import BACKWARD, SPEC

CROSS_ENTROPY_BACKWARD = register(Op(BACKWARD, backward.RUNGS, backward.default))
CROSS_ENTROPY = register(Op(replace(SPEC, gradient=Gradient(CROSS_ENTROPY_BACKWARD)), forward.RUNGS, forward.default))
_cross_entropy = CROSS_ENTROPY.call
_cross_entropy_backward = CROSS_ENTROPY_BACKWARD.call


def cross_entropy(
    input: torch.Tensor, target: torch.Tensor, ignore_index: int = -100, *, rung: str | None = None
) -> torch.Tensor:
    """The mean over rows of ``log(sum(exp(input))) - input[target]``, a scalar of the dtype of ``input``.

    ``input``: logits (N, C), C > 0, float16, bfloat16, float32 or float64. ``target``: int64 (N,), class indices. Rows
    with the target ``ignore_index`` are ignored; if all rows are, the mean is NaN, as in PyTorch. The kernels take
    float32 and return NaN for any other target outside of [0, C). PyTorch computes the other dtypes and CPU tensors; it
    raises ``IndexError``, or asserts on a GPU. Differentiable any number of times. ``rung`` names one kernel of the
    ladder. Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    return _cross_entropy(input, target, ignore_index, rung)


def cross_entropy_backward(
    grad_loss: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int,
    count: torch.Tensor,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """``(softmax(input) - one_hot(target)) * grad_loss / count``, (N, C); 0 in rows that are ignored.

    ``grad_loss``: a scalar tensor; ``count``: the number of rows that are not ignored, an int64 scalar tensor. The
    other arguments are those of ``cross_entropy``. Autograd calls this function; it is public for backwards written by
    hand. Differentiable any number of times. ``rung`` names one kernel of the ladder. Raises ``TypeError`` or
    ``ValueError`` that names the argument.
    """
    return _cross_entropy_backward(grad_loss, input, target, ignore_index, count, rung)
