"""The public function linear_backward."""

from __future__ import annotations

from dataclasses import replace

import torch

from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.linear_backward.rungs import RUNGS, default
from warpwise.ops.linear_backward.spec import SPEC, Gradients

OptionalTensor = torch.Tensor | None


def _backward(
    saved: Saved, of_input: OptionalTensor, of_weight: OptionalTensor, of_bias: OptionalTensor
) -> dict[str, OptionalTensor]:
    """Let v, u and t be the gradients of dx, dw and db. The gradient of dy is v W^T + x u^T + t, that of x is dy u, and
    that of W is dy^T v.

    With the output y of relu, dy is first multiplied by the mask y > 0, and so is its gradient.
    """
    mask = None if saved.relu_output is None else (saved.relu_output > 0).to(saved.grad_output.dtype)
    dy = saved.grad_output if mask is None else saved.grad_output * mask
    terms = [
        None if of_input is None else of_input @ saved.weight.t(),
        None if of_weight is None else saved.input @ of_weight.t(),
        None if of_bias is None else of_bias.expand_as(dy),
    ]
    given = [term for term in terms if term is not None]
    of_dy = torch.stack(given).sum(0) if given else None
    return {
        "grad_output": of_dy if of_dy is None or mask is None else of_dy * mask,
        "input": None if of_weight is None else dy @ of_weight,
        "weight": None if of_input is None else dy.t() @ of_input,
        "relu_output": None if mask is None else torch.zeros_like(mask),
    }


_GRADIENT = Gradient(_backward, saves=("grad_output", "input", "weight", "relu_output"), materialize=False)
LINEAR_BACKWARD = register(Op(replace(SPEC, gradient=_GRADIENT), RUNGS, default))
_linear_backward = LINEAR_BACKWARD.call


def linear_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    relu_output: torch.Tensor | None = None,
    needs_input: bool = True,
    *,
    rung: str | None = None,
) -> Gradients:
    """The gradients of ``input @ weight.T + bias``: ``grad_output @ weight``, ``grad_output.T @ input`` and the sum of
    ``grad_output`` over rows; with ``relu_output``, the output of a relu of the layer, those through that relu.

    ``grad_output`` and ``relu_output`` are (M, N), ``input`` (M, K), ``weight`` (N, K); the results are (M, K), or None
    without ``needs_input``, (N, K) and (N,). All tensors have one dtype, float16, bfloat16, float32 or float64; the
    kernels take float32, whose products on tensor cores have float32 accuracy (3xTF32), and PyTorch computes the other
    dtypes and large products. Autograd calls this function for ``ops.linear``; it is public for backwards written by
    hand. Differentiable any number of times. ``rung`` names one kernel of the ladder. Raises ``TypeError`` or
    ``ValueError`` that names the argument.
    """
    result: Gradients = _linear_backward(grad_output, input, weight, relu_output, needs_input, rung=rung)
    return result
