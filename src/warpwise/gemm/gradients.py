"""When PyTorch's own autograd serves for a matrix product: where PyTorch would compute the products of the backward too."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from warpwise.gemm.precision import tf32_is_off
from warpwise.operation import Op

Operands = tuple[torch.Tensor, torch.Tensor]


def eager_multiplies(op: Op, products: Sequence[Operands]) -> bool | Callable[[], bool]:
    """False if ``op`` chooses a rung for any of the products. float32 on a GPU: as long as PyTorch does not use TF32."""
    if any(op.choice(a, b).name is not None for a, b in products):
        return False
    a = products[0][0]
    return tf32_is_off if a.is_cuda and a.dtype == torch.float32 else True


def eager_records(op: Op, a: torch.Tensor, b: torch.Tensor) -> bool | Callable[[], bool]:
    """``eager_multiplies`` for the products of a @ b's backward: grad @ b.t() and a.t() @ grad, grad row-major."""
    grad = a.new_empty((a.shape[0], b.shape[1]))
    return eager_multiplies(op, ((grad, b.t()), (a.t(), grad)))
