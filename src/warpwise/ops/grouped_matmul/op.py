"""The public function grouped_matmul, and the gradient of its matrices as a function of its own."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops._public import public
from warpwise.ops.grouped_matmul.rungs import BACKWARD_RUNGS, RUNGS, default, default_backward
from warpwise.ops.grouped_matmul.spec import BACKWARD, SPEC
from warpwise.registry import Op, register

GROUPED_MATMUL = register(Op(SPEC, RUNGS, default))
GROUPED_MATMUL_BACKWARD = register(Op(BACKWARD, BACKWARD_RUNGS, default_backward))


def _save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _double_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    """Of R[g] = A_g^T D_g: dA_g = D_g dR[g]^T and dD_g = A_g dR[g], both the grouped product again."""
    a, grad_output, offsets = ctx.saved_tensors
    wants_a, wants_gradient = ctx.needs_input_grad[:2]
    to_a = _grouped_matmul(grad_output, grad.mT, offsets) if wants_a else None
    return to_a, _grouped_matmul(a, grad, offsets) if wants_gradient else None, None


_grouped_matmul_backward = public(
    GROUPED_MATMUL_BACKWARD, "(Tensor a, Tensor grad_output, Tensor offsets) -> Tensor", _double_backward, _save,
    autocast="low_precision",
)  # fmt: skip


def _backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    """dA_g = dC_g B[g]^T, the same operation, and dB[g] = A_g^T dC_g."""
    a, b, offsets = ctx.saved_tensors
    wants_a, wants_b = ctx.needs_input_grad[:2]
    to_a = _grouped_matmul(grad, b.mT, offsets) if wants_a else None
    return to_a, _grouped_matmul_backward(a, grad, offsets) if wants_b else None, None


_grouped_matmul = public(
    GROUPED_MATMUL, "(Tensor a, Tensor b, Tensor offsets) -> Tensor", _backward, _save, autocast="low_precision"
)


def grouped_matmul(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a[offsets[g - 1] : offsets[g]] @ b[g]`` for each group g: the experts of a mixture on tokens sorted by expert.

    ``a`` (T, K) holds the groups' rows one after the other, ``b`` (G, K, N) a matrix for each group, ``offsets`` (G,) int32
    where each group ends, rising from 0 up to T: as ``torch._grouped_mm`` takes them. The result is (T, N), of a's dtype,
    float16, bfloat16, float32 or float64; products are summed in float32 (float64 for float64, which PyTorch computes),
    and float32 is never rounded to TF32. A group may have no rows. Rows from the last end on belong to no group, and are 0.

    Nobody waits for the GPU: offsets stay there. Whether they rise is checked on a CPU only; on a GPU wrong ones give
    wrong rows, and never an access outside of the tensors. Any strides are taken without copies. Differentiable in a and
    b. Raises ``TypeError`` or ``ValueError`` if shapes, dtypes or devices do not fit. ``rung`` asks for one kernel by name.
    """
    return _grouped_matmul(a, b, offsets, rung=rung)


def grouped_matmul_backward(
    a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor, *, rung: str | None = None
) -> torch.Tensor:
    """``a[rows of g].t() @ grad_output[rows of g]`` for each group g: (G, K, N), the gradient of grouped_matmul's b.

    ``a`` is (T, K), ``grad_output`` (T, N), ``offsets`` (G,) as for grouped_matmul; a group without rows gives zeros. What
    autograd calls by itself; here for who writes a backward by hand. Differentiable in both. Raises as grouped_matmul.
    """
    return _grouped_matmul_backward(a, grad_output, offsets, rung=rung)
