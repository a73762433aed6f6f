"""The cases in which PyTorch's autograd records a GEMM, because PyTorch's backward is as fast as our rungs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from warpwise.gemm.precision import tf32_is_off
from warpwise.operation import Op, Saved

Operands = tuple[torch.Tensor, torch.Tensor]


HOST_S = 10e-6  # host time of an autograd.Function minus that of PyTorch's own node (benchmarks/dispatch.py)


def eager_multiplies(op: Op, products: Sequence[Operands]) -> bool | Callable[[], bool]:
    """True if the rungs for ``products`` save at most ``HOST_S`` compared with PyTorch.

    For float32 on a GPU, a function that is true while PyTorch does not use TF32.
    """
    saved = 0.0
    for a, b in products:
        choice = op.choice(a, b)
        if choice.name is None:
            continue
        if choice.seconds is None or choice.rival_seconds is None:  # never measured
            return False
        saved += choice.rival_seconds - choice.seconds
    if saved > HOST_S:
        return False
    a = products[0][0]
    return tf32_is_off if a.is_cuda and a.dtype == torch.float32 else True


def eager_records(op: Op, a: torch.Tensor, b: torch.Tensor) -> bool | Callable[[], bool]:
    """``eager_multiplies`` for the backward of a @ b: grad @ b^T and a^T @ grad, grad row-major.

    False if a batch shares an operand, because the gradient of this operand is a sum over the batch.
    """
    if a.dim() != b.dim():
        return False
    grad = a.new_empty((*a.shape[:-1], b.shape[-1]))
    return eager_multiplies(op, ((grad, b.mT), (a.mT, grad)))


def product_backward(multiply: Callable[..., torch.Tensor]) -> Callable[..., dict[str, torch.Tensor | None]]:
    """The backward of ``multiply(a, b)``: dA = dC B^T and dB = A^T dC, by the operation itself."""

    def backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor | None]:
        return {
            "a": multiply(grad, saved.b.t()) if saved.wants("a") else None,
            "b": multiply(saved.a.t(), grad) if saved.wants("b") else None,
        }

    return backward
