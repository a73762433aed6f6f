"""The public functions grouped_matmul and grouped_matmul_backward."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.grouped_matmul.backward import rungs as backward
from warpwise.ops.grouped_matmul.forward import rungs as forward
from warpwise.ops.grouped_matmul.spec import BACKWARD, SPEC


def _gradient(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """dA_g = dC_g B[g]^T, the same operation, and dB[g] = A_g^T dC_g."""
    return {
        "a": _grouped_matmul(grad, saved.b.mT, saved.offsets) if saved.wants("a") else None,
        "b": _grouped_matmul_backward(saved.a, grad, saved.offsets) if saved.wants("b") else None,
    }


def _second_gradient(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor | None]:
    """The gradients of R[g] = A_g^T D_g: dA_g = D_g dR[g]^T and dD_g = A_g dR[g], both grouped products."""
    return {
        "a": _grouped_matmul(saved.grad_output, grad.mT, saved.offsets) if saved.wants("a") else None,
        "grad_output": _grouped_matmul(saved.a, grad, saved.offsets) if saved.wants("grad_output") else None,
    }


GROUPED_MATMUL = register(
    Op(replace(SPEC, gradient=Gradient(_gradient, saves=("a", "b", "offsets"))), forward.RUNGS, forward.default)
)
GROUPED_MATMUL_BACKWARD = register(
    Op(
        replace(BACKWARD, gradient=Gradient(_second_gradient, saves=("a", "grad_output", "offsets"))),
        backward.RUNGS,
        backward.default,
    )
)
_grouped_matmul, _grouped_matmul_backward = GROUPED_MATMUL.call, GROUPED_MATMUL_BACKWARD.call


def grouped_matmul(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``a[offsets[g - 1] : offsets[g]] @ b[g]`` for each group g, as for the experts of a mixture on sorted tokens.

    ``a`` (T, K) holds the groups' rows one after the other, ``b`` (G, K, N) a matrix for each group, ``offsets`` (G,)
    int32 the end of each group, ascending from 0 to T, as for ``torch._grouped_mm``. The result is (T, N), of a's
    dtype, float16, bfloat16, float32 or float64; products are summed in float32 (in float64 for float64, which PyTorch
    computes), and float32 is never rounded to TF32. A group may have no rows. Rows past the last end belong to no group
    and are 0.

    The offsets are not copied to the host. Their order is checked only on a CPU; wrong offsets on a GPU give wrong
    rows, but no access out of bounds. Any strides are read without copies. Differentiable in a and b. Raises
    ``TypeError`` or ``ValueError`` if shapes, dtypes or devices do not match. ``rung`` names one rung, ``name@config``
    one of its configurations.
    """
    output: torch.Tensor = _grouped_matmul(a, b, offsets, rung)
    return output


def grouped_matmul_backward(
    a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor, *, rung: str | None = None
) -> torch.Tensor:
    """``a[rows of g].t() @ grad_output[rows of g]`` for each group g: (G, K, N), the gradient of grouped_matmul's b.

    ``a`` is (T, K), ``grad_output`` (T, N), ``offsets`` (G,) as for grouped_matmul; a group without rows gives zeros.
    Autograd calls it; it is public for backwards written by hand. Differentiable in both. ``rung`` and what it raises
    are as for grouped_matmul.
    """
    grad_b: torch.Tensor = _grouped_matmul_backward(a, grad_output, offsets, rung)
    return grad_b
