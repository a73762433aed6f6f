"""The public functions linear_cross_entropy and linear_cross_entropy_backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from warpwise.gemm.precision import tf32_is_off
from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.linear_cross_entropy.after_block import rungs as after_block
from warpwise.ops.linear_cross_entropy.after_block.spec import SPEC as AFTER_BLOCK_SPEC
from warpwise.ops.linear_cross_entropy.after_block.spec import Results as AfterBlock
from warpwise.ops.linear_cross_entropy.backward import rungs as backward
from warpwise.ops.linear_cross_entropy.forward import rungs as forward
from warpwise.ops.linear_cross_entropy.gradients import rungs as gradients
from warpwise.ops.linear_cross_entropy.gradients.spec import SPEC as GRADIENTS_SPEC
from warpwise.ops.linear_cross_entropy.gradients.spec import Results
from warpwise.ops.linear_cross_entropy.spec import BACKWARD, SPEC, Gradients

OptionalTensor = torch.Tensor | None


def _double_backward(saved: Saved, *grads: OptionalTensor) -> dict[str, OptionalTensor]:
    """The derivatives of the specification: all flow to the arguments, and that of the saved output is 0."""
    assert BACKWARD.gradient is not None
    found = BACKWARD.gradient.backward(saved, *grads)
    return {**found, "probabilities": torch.zeros_like(saved.probabilities)}


assert BACKWARD.gradient is not None
_DOUBLE_BACKWARD = Gradient(_double_backward, saves=BACKWARD.gradient.saves)
LINEAR_CROSS_ENTROPY_BACKWARD = register(
    Op(replace(BACKWARD, gradient=_DOUBLE_BACKWARD), backward.RUNGS, backward.default)
)


def _eager_records(input: torch.Tensor, *rest: Any) -> bool | Callable[[], bool]:
    """True if PyTorch's backward computes the same: for float32 on a GPU, while it does not use TF32."""
    return tf32_is_off if input.is_cuda and input.dtype == torch.float32 else True


_GRADIENT = Gradient(LINEAR_CROSS_ENTROPY_BACKWARD, materialize=False, eager_records=_eager_records)
LINEAR_CROSS_ENTROPY = register(Op(replace(SPEC, gradient=_GRADIENT), forward.RUNGS, forward.default))
LINEAR_CROSS_ENTROPY_GRADIENTS = register(Op(GRADIENTS_SPEC, gradients.RUNGS, gradients.default))
BLOCK_CROSS_ENTROPY_GRADIENTS = register(Op(AFTER_BLOCK_SPEC, after_block.RUNGS, after_block.default))
_linear_cross_entropy = LINEAR_CROSS_ENTROPY.call
_linear_cross_entropy_backward = LINEAR_CROSS_ENTROPY_BACKWARD.call
_linear_cross_entropy_gradients = LINEAR_CROSS_ENTROPY_GRADIENTS.call
_block_cross_entropy_gradients = BLOCK_CROSS_ENTROPY_GRADIENTS.call


def has_kernels(input: torch.Tensor, linear_weight: torch.Tensor) -> bool:
    """False if PyTorch computes the fused operation on a GPU: then ``linear`` and ``cross_entropy`` are faster."""
    return not input.is_cuda or forward.is_small(linear_weight)


def linear_cross_entropy(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None = None,
    ignore_index: int = -100,
    *,
    rung: str | None = None,
) -> torch.Tensor:
    """``cross_entropy(input @ linear_weight.T + linear_bias, target)``, the mean over rows, a scalar.

    ``input`` is (N, K), ``linear_weight`` (C, K), ``target`` int64 (N,), class indices; ``linear_bias`` is (C,) or
    None. The names are those of ``torch.nn.functional.linear_cross_entropy``. Rows with the target ``ignore_index`` are
    ignored; if all rows are, the mean is NaN. All floating-point tensors have one dtype, float16, bfloat16, float32 or
    float64. On a GPU the kernels compute float32 with at most 16 classes and 512 features, and return NaN for any other
    target outside of [0, C). PyTorch computes the other calls, and CPU tensors; it raises ``IndexError`` for such a
    target, or asserts on a GPU. Differentiable any number of times. ``rung`` names one kernel of the ladder. Raises
    ``TypeError`` or ``ValueError`` that names the argument.
    """
    loss: torch.Tensor = _linear_cross_entropy(input, linear_weight, target, linear_bias, ignore_index, rung=rung)
    return loss


def linear_cross_entropy_backward(
    grad_loss: torch.Tensor | None,
    grad_probabilities: torch.Tensor | None,
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None,
    ignore_index: int,
    probabilities: torch.Tensor,
    count: torch.Tensor,
    needs_input: bool = True,
    *,
    rung: str | None = None,
) -> Gradients:
    """The gradients of linear_cross_entropy's ``input``, ``linear_weight`` and ``linear_bias``.

    ``probabilities`` is the softmax of the logits, (N, C), ``count`` the number of rows that are not ignored, an int64
    scalar tensor; ``grad_loss``, a scalar tensor, and ``grad_probabilities`` (N, C) are the gradients of the loss and
    of ``probabilities``; one that is None is the same as zeros. The other arguments are those of
    ``linear_cross_entropy``. The gradient of ``input`` is None unless ``needs_input``, that of ``linear_bias`` is None
    without it. Autograd calls this function; it is public for backwards written by hand. ``rung`` names one kernel of
    the ladder. Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    result: Gradients = _linear_cross_entropy_backward(
        grad_loss, grad_probabilities, input, linear_weight, target, linear_bias, ignore_index, probabilities, count,
        needs_input, rung=rung,
    )  # fmt: skip
    return result


def linear_cross_entropy_gradients(
    input: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None = None,
    ignore_index: int = -100,
    needs_input: bool = True,
    *,
    rung: str | None = None,
) -> Results:
    """linear_cross_entropy's loss and its gradients with respect to ``input``, ``linear_weight`` and ``linear_bias``.

    The arguments are those of ``linear_cross_entropy``. The gradient of the input is None unless ``needs_input``, that
    of the bias is None without a bias. If all rows are ignored, the loss is NaN and the gradients are 0. On a GPU the
    kernel computes float32 with at most 16 classes and 2^14 rows; PyTorch computes the other calls. A training step
    that ``nn.compile_step`` compiles calls it in place of a forward and a backward. Not differentiable. ``rung`` names
    one kernel of the ladder. Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    result: Results = _linear_cross_entropy_gradients(
        input, linear_weight, target, linear_bias, ignore_index, needs_input, rung=rung
    )
    return result


def block_cross_entropy_gradients(
    convolved: torch.Tensor,
    statistics: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
    hidden_weight: torch.Tensor,
    hidden_bias: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: torch.Tensor | None = None,
    ignore_index: int = -100,
    *,
    rung: str | None = None,
) -> AfterBlock:
    """linear_cross_entropy of ``hidden = relu(pooled @ hidden_weight.T + hidden_bias)``, and gradients, after a block.

    ``convolved`` is the convolution of a ``conv_block``, (N, K, H, W). ``statistics`` (K, P, 3) describes P parts of
    each channel: the sum, the sum of the squared distances from the mean of the part, and the number of elements.
    ``pooled`` is the block's output, flattened, (N, K (H // 2) (W // 2)). ``hidden_weight`` is (M, that),
    ``hidden_bias`` (M,), ``linear_weight`` (C, M), ``target`` int64 (N,), ``linear_bias`` (C,) or None.

    The results are the loss, a scalar; the block's output; its mean and variance (K,); the gradient of the output; sums
    over channels (K, cdiv(N, 16), 2); and the gradients of ``hidden_weight``, ``hidden_bias``, ``linear_weight`` and
    ``linear_bias`` (None without it). The sums are those of 16 images each: of g, and of g times the normalised value
    at the maximum. g is the gradient of the output where the output is positive, and 0 elsewhere. If all rows are
    ignored, the loss is NaN and the gradients are 0.

    On a GPU the kernels compute float32 with up to an image per SM, 128 hidden units and 16 classes, where M and the
    features are multiples of 4; PyTorch computes the other calls. Not differentiable. ``rung`` names one kernel of the
    ladder. Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    result: AfterBlock = AfterBlock(*_block_cross_entropy_gradients(
        convolved, statistics, gamma, beta, eps, hidden_weight, hidden_bias, linear_weight, target, linear_bias,
        ignore_index, rung=rung,
    ))  # fmt: skip
    return result
