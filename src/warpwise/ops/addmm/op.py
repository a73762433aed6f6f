"""The public function addmm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from warpwise.arguments.checks import real
from warpwise.gemm import gradients
from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.addmm.rungs import RUNGS, default
from warpwise.ops.addmm.spec import SPEC
from warpwise.ops.addmm.tables import TABLES
from warpwise.ops.matmul.op import MATMUL, matmul


def _backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """dC = beta dD, summed over broadcast dimensions, dA = alpha dD B^T, dB = alpha A^T dD."""
    to_input = saved.beta * grad if saved.wants("input") else None
    if to_input is not None and (input := getattr(saved, "input", None)) is not None:
        to_input = to_input.sum_to_size(input.shape)
    to_a = saved.alpha * matmul(grad, saved.b.t()) if saved.wants("a") else None
    to_b = saved.alpha * matmul(saved.a.t(), grad) if saved.wants("b") else None
    return {"input": to_input, "a": to_a, "b": to_b}


_SAVES = ("a", "b", "beta", "alpha")


def _saves(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *scalars: float) -> tuple[str, ...]:
    """Save the input only if it is broadcast, because the backward then needs its shape."""
    return _SAVES if input.shape == (a.shape[0], b.shape[1]) else (*_SAVES, "input")


def _eager_records(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *scalars: float) -> bool | Callable[[], bool]:
    return gradients.eager_records(MATMUL, a, b)


_GRADIENT = Gradient(_backward, saves=_saves, eager_records=_eager_records)
ADDMM = register(Op(replace(SPEC, gradient=_GRADIENT), RUNGS, default, TABLES))
_addmm = ADDMM.call


def addmm(
    input: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float = 1.0,
    alpha: float = 1.0,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """``beta * input + alpha * (a @ b)`` as torch.addmm: a (M, K), b (K, N) and the result (M, N), in any layout.

    ``input`` is (M, N) or broadcasts to it: (N,), (1, N), (M, 1), (). All are of one dtype, float16, bfloat16, float32
    or float64. Sums are accumulated and added in float32 and rounded once (in float64 for float64, which PyTorch
    computes); float32 is never rounded to TF32. If ``beta`` is 0, ``input`` is not read, and a NaN in it does not
    propagate. If ``alpha`` is 0, the rungs still multiply, and NaN propagates. An empty sum, K = 0, is 0.

    On a GPU, torch.addmm computes the calls for which it was measured or predicted to be faster; ``warpwise tune
    addmm`` measures on another GPU.

    Differentiable. Raises ``TypeError`` or ``ValueError`` that names the argument. ``rung`` names one rung,
    ``name@config`` one of its configurations.
    """
    if not (type(beta) is type(alpha) is float):
        beta, alpha = real("addmm", "beta", beta), real("addmm", "alpha", alpha)
    output: torch.Tensor = _addmm(input, a, b, beta, alpha, rung)
    return output
