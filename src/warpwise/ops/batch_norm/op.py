"""The public functions batch_norm, batch_norm_backward and running_statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from warpwise.arguments.checks import listed
from warpwise.operation import Gradient, Op, Saved, register
from warpwise.ops.batch_norm.backward import rungs as backward
from warpwise.ops.batch_norm.forward import rungs as forward
from warpwise.ops.batch_norm.running import rungs as running
from warpwise.ops.batch_norm.running.layer import LAYER_STATISTICS
from warpwise.ops.batch_norm.running.spec import SPEC as RUNNING_SPEC
from warpwise.ops.batch_norm.spec import BACKWARD, SPEC, Three

OptionalTensor = torch.Tensor | None


def _double_backward(saved: Saved, *grads: OptionalTensor) -> dict[str, OptionalTensor]:
    """The derivatives as in the specification: all flow to the input, and those of mean and var are 0."""
    assert BACKWARD.gradient is not None
    found = BACKWARD.gradient.backward(saved, *grads)
    return {**found, "mean": torch.zeros_like(saved.mean), "var": torch.zeros_like(saved.var)}


assert BACKWARD.gradient is not None
_DOUBLE_BACKWARD = Gradient(_double_backward, saves=BACKWARD.gradient.saves)
BATCH_NORM_BACKWARD = register(Op(replace(BACKWARD, gradient=_DOUBLE_BACKWARD), backward.RUNGS, backward.default))
_GRADIENT = Gradient(BATCH_NORM_BACKWARD, materialize=False, eager_records=lambda *args: True)
BATCH_NORM = register(Op(replace(SPEC, gradient=_GRADIENT), forward.RUNGS, forward.default))
RUNNING_STATISTICS = register(Op(RUNNING_SPEC, running.RUNGS, running.default))
_batch_norm = BATCH_NORM.call
_batch_norm_backward = BATCH_NORM_BACKWARD.call
_running_statistics = RUNNING_STATISTICS.call
_layer_statistics = register(LAYER_STATISTICS).call


def batch_norm(
    input: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    *,
    rung: str | None = None,
) -> Three:
    """``(input - mean) / sqrt(var + eps) * weight + bias``, and ``mean`` and ``var`` of each channel over the batch.

    ``input`` is (N, C) or (N, C, ...); ``weight`` and ``bias`` are (C,) or None; ``mean`` and ``var`` are (C,). The
    variance is biased: the divisor is the number of elements, n. For running statistics multiply it by n / (n - 1), as
    ``nn.BatchNorm2d`` does. ``input`` is float16, bfloat16, float32 or float64; PyTorch computes float64. ``weight``
    and ``bias`` have its dtype, or float32 for a 16-bit ``input``, for which ``mean`` and ``var`` are float32. The
    output has the layout of ``input``, NCHW or NHWC. Differentiable any number of times, also through ``mean`` and
    ``var``. ``rung`` names one kernel of the ladder. Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    result: Three = _batch_norm(input, weight, bias, eps, rung)
    return result


def batch_norm_backward(
    grad_output: torch.Tensor | None,
    grad_mean: torch.Tensor | None,
    grad_var: torch.Tensor | None,
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    mean: torch.Tensor,
    var: torch.Tensor,
    *,
    rung: str | None = None,
) -> tuple[torch.Tensor, OptionalTensor, OptionalTensor]:
    """The gradients of batch_norm's ``input``, ``weight`` and ``bias``; None for an argument that is None.

    ``grad_output`` has the shape and dtype of ``input``, ``grad_mean`` and ``grad_var`` those of ``mean`` and ``var``,
    (C,), which are results of ``batch_norm``; a gradient that is None is the same as zeros. ``input``, ``weight``,
    ``bias`` and ``eps`` are the arguments of ``batch_norm``. Autograd calls this function; it is public for backwards
    written by hand. Differentiable with respect to the gradients, ``input`` and ``weight``. ``rung`` names one kernel
    of the ladder. Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    result: tuple[torch.Tensor, OptionalTensor, OptionalTensor] = _batch_norm_backward(
        grad_output, grad_mean, grad_var, input, weight, bias, eps, mean, var, rung=rung
    )
    return result


def running_statistics(
    running_mean: Sequence[torch.Tensor],
    running_var: Sequence[torch.Tensor],
    batches: Sequence[torch.Tensor],
    mean: Sequence[torch.Tensor],
    var: Sequence[torch.Tensor],
    bias: Sequence[torch.Tensor] | None,
    momentum: Sequence[float],
    correction: Sequence[float],
    *,
    rung: str | None = None,
) -> None:
    """Move the running statistics of layers towards those of a batch, in place, and count the batch.

    ``running_mean += momentum (mean + bias - running_mean)``, ``running_var += momentum (correction var -
    running_var)``, ``batches += 1``, for each layer: the arguments are lists of equal length. The tensors of a layer
    are (C,) and all of one floating-point dtype; ``bias`` may be None; ``batches`` are int64 scalar tensors.
    ``correction`` is n / (n - 1) for n values per channel. Not differentiable. ``rung`` names one kernel of the ladder.
    Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    op = "running_statistics"
    running = listed(op, "running_mean", running_mean), listed(op, "running_var", running_var)
    tensors = *running, listed(op, "batches", batches), listed(op, "mean", mean), listed(op, "var", var)
    biases = None if bias is None else listed(op, "bias", bias)
    scalars = listed(op, "momentum", momentum, "numbers"), listed(op, "correction", correction, "numbers")
    _running_statistics(*tensors, biases, *map(tuple, scalars), rung)


def layer_statistics(
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    batches: torch.Tensor,
    mean: torch.Tensor,
    var: torch.Tensor,
    bias: OptionalTensor,
    momentum: float,
    correction: float,
    *,
    rung: str | None = None,
) -> None:
    """``running_statistics`` of one layer, with less host time: tensors (C,), ``batches`` an int64 scalar tensor.

    The arguments are those of ``running_statistics``, without lists; ``bias`` may be None. Not differentiable. ``rung``
    names one kernel of the ladder. Raises ``TypeError`` or ``ValueError`` that names the argument.
    """
    _layer_statistics(running_mean, running_var, batches, mean, var, bias, momentum, correction, rung)
