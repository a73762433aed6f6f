"""The public functions conv_block and conv_block_backward."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from warpwise.arguments.layout import in_format
from warpwise.cuda.gpu.recording import native_library
from warpwise.device.limits import is_hopper
from warpwise.operation import Gradient, Op, Saved, register, sm_count
from warpwise.ops.conv2d.spec import result_format
from warpwise.ops.conv_block import separate
from warpwise.ops.conv_block.backward import rungs as backward
from warpwise.ops.conv_block.forward import rungs as forward
from warpwise.ops.conv_block.spec import BACKWARD, SPEC, STATISTICS

OptionalTensor = torch.Tensor | None
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Gradients = tuple[OptionalTensor, OptionalTensor, OptionalTensor, OptionalTensor]


def _double_backward(saved: Saved, *grads: OptionalTensor) -> dict[str, OptionalTensor]:
    """The derivatives as in the specification: all flow to the input, and those of the saved outputs are 0."""
    assert BACKWARD.gradient is not None
    found = BACKWARD.gradient.backward(saved, *grads)
    statistics = {name: getattr(saved, name) for name in STATISTICS}
    return {**found, **{name: None if one is None else torch.zeros_like(one) for name, one in statistics.items()}}


def _returns_nhwc(input: torch.Tensor, weight: torch.Tensor) -> bool:
    """True if PyTorch returns the block in NHWC order. The operation's own output is in NCHW order."""
    return result_format(input, weight) == torch.channels_last


def _default(*args: Any) -> str | None:
    """The forward's default, or None for several channels in NHWC order: the fused kernels read and write NCHW."""
    return None if args[0].shape[1] > 1 and _returns_nhwc(*args[:2]) else forward.default(*args)


assert BACKWARD.gradient is not None
_DOUBLE_BACKWARD = Gradient(_double_backward, saves=BACKWARD.gradient.saves)
CONV_BLOCK_BACKWARD = register(Op(replace(BACKWARD, gradient=_DOUBLE_BACKWARD), backward.RUNGS, backward.default))
_GRADIENT = Gradient(CONV_BLOCK_BACKWARD, materialize=False, eager_records=lambda *args: True)
CONV_BLOCK = register(Op(replace(SPEC, gradient=_GRADIENT), forward.RUNGS, _default))
_conv_block = CONV_BLOCK.call
_conv_block_backward = CONV_BLOCK_BACKWARD.call


def _is_separate(input: torch.Tensor, weight: torch.Tensor) -> bool:
    """True if conv2d, batch_norm and max_pool2d compute ``input``, because the fused kernels refuse it or are slower.

    Under torch.compile and autocast the block stays one operator.
    """
    if not (isinstance(input, torch.Tensor) and input.is_cuda and input.dim() == 4) or torch.compiler.is_compiling():
        return False
    if not input.numel():
        return False
    kernels = input.dtype == torch.float32 and input.shape[1] <= forward.MOST_CHANNELS
    if kernels and isinstance(weight, torch.Tensor) and weight.dim() == 4:
        if input.shape[1] > 1 and _returns_nhwc(input, weight):
            return not torch.is_autocast_enabled("cuda")
        sizes = (*input.shape, len(weight), sm_count(input))
        if torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad):
            kernels = not (input.requires_grad and backward.is_serial(*sizes))
        else:
            kernels = not forward.is_idle(*sizes, is_hopper(input))
    return not kernels and not torch.is_autocast_enabled("cuda")


_CHECKED: set[tuple[Any, ...]] = set()  # properties of arguments that passed ``SPEC.check``
_MOST_CHECKED = 1024


def _separate(
    input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float, tf32: bool
) -> Three:
    given = (input, weight, gamma, beta)
    key = (*[(one.shape, one.dtype, one.device) if isinstance(one, torch.Tensor) else type(one) for one in given], eps)
    if key not in _CHECKED:
        SPEC.check(*given, eps)
        if len(_CHECKED) >= _MOST_CHECKED:
            _CHECKED.clear()
        _CHECKED.add(key)
    return separate.block(*given, eps, tf32)


def _fused(
    input: torch.Tensor,
    weight: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
    tf32: bool,
    moments: OptionalTensor,
    rung: str | None = None,
) -> Three:
    result: Three = _conv_block(input, weight, gamma, beta, eps, moments, rung)
    return result


def _fused_in_nhwc(*args: Any) -> Three:
    """``_fused`` of one channel in NHWC order."""
    output, mean, var = _fused(*args)
    return in_format(output, torch.channels_last), mean, var


def _any(
    input: torch.Tensor,
    weight: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
    tf32: bool,
    moments: OptionalTensor,
    rung: str | None,
) -> Three:
    """The block by separate operations or by the fused kernels; chosen and checked at each call."""
    if rung is None and _is_separate(input, weight):
        return _separate(input, weight, gamma, beta, eps, tf32)
    output, mean, var = _fused(input, weight, gamma, beta, eps, tf32, moments, rung)  # which checks the arguments
    return in_format(output, result_format(input, weight)), mean, var


def _plan(input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, *rest: Any) -> Any:
    """The function that a call of ``_any`` has just run, of its arguments without ``rung``, which is None."""
    global _planned
    _planned += 1
    if _planned % _MOST_CHECKED == 0:
        _ways[0].forget()
    if _is_separate(input, weight):
        return separate.plan(input, weight, gamma, beta)
    return _fused_in_nhwc if _returns_nhwc(input, weight) else _fused


_KINDS = "ttttfft"  # of the arguments: tensors, fixed values
_ways: list[Any] = [_any]  # once ``fastcall`` is built, a C++ object that caches the function by the arguments' key
_planned = 0


def patch_moments(input: torch.Tensor) -> torch.Tensor | None:
    """The moments of ``input``, (N, 1, H, W), that ``conv_block`` takes, or None where its kernels do not use them.

    They are the mean and the covariance of its 3 x 3 patches, (10, 9) in float64, and do not depend on the filters: a
    training step computes them while the previous step runs.
    """
    weight = input.new_empty((1, 1, 3, 3)) if input.dim() == 4 and input.shape[1] == 1 and len(input) else None
    if weight is None or not input.is_cuda or input.dtype != torch.float32 or input.requires_grad:
        return None
    if CONV_BLOCK.default(input, weight, weight[0, 0, 0], weight[0, 0, 0], 0.0, None) != "k05_input_moments":
        return None
    return forward.patch_moments(input.contiguous())


def conv_block(
    input: torch.Tensor,
    weight: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float = 1e-5,
    tf32: bool = False,
    moments: OptionalTensor = None,
    *,
    rung: str | None = None,
) -> Three:
    """``max_pool2d(relu(batch_norm(conv2d(input, weight, padding=1), gamma, beta)), 2)``, mean and variance.

    ``input`` is (N, C, H, W), H and W at least 2; ``weight`` is (K, C, 3, 3); ``gamma`` and ``beta`` are (K,). The
    output is (N, K, H // 2, W // 2); ``mean`` and ``var`` (K,) are those of the convolution, with the biased variance.
    There is no bias of the convolution, because it would change only the mean. All tensors have one dtype, float16,
    bfloat16, float32 or float64, but ``mean`` and ``var`` are float32 for a 16-bit input. If the input or the weight is
    in NHWC order, so is the output. The fused kernels take float32 in NCHW order, or of one channel. On a GPU
    ``ops.conv2d``, ``batch_norm`` and ``max_pool2d`` compute the other blocks: those of other dtypes, in NHWC order, of
    more than 64 channels, some of small images, and, if the gradient of the input is needed, those of few images with
    many filters. In these, ``tf32`` allows the convolution to round to TF32. Differentiable any number of times.

    ``moments`` is None, or the result of ``patch_moments(input)``, which is then not computed again; no gradient flows
    to it. If ``input`` is one of several equal parts of a batch, ``moments`` may be those of the whole batch; the
    normalisation, the mean and the variance are then those of the whole batch. In kernels that use moments, the average
    of the parts' gradients is the gradient of their average loss. ``rung`` names one kernel of the ladder. Raises
    ``TypeError`` or ``ValueError`` that names the argument.
    """
    if rung is not None or is_dynamo_compiling():
        return _any(input, weight, gamma, beta, eps, tf32, moments, rung)
    if _ways[0] is _any and (library := native_library()) is not None:
        _ways[0] = library.Call(_KINDS, _any, _plan)
    result: Three = _ways[0](input, weight, gamma, beta, eps, tf32, moments, None)
    return result


def conv_block_backward(
    grad_output: torch.Tensor | None,
    grad_mean: torch.Tensor | None,
    grad_var: torch.Tensor | None,
    grad_convolved: torch.Tensor | None,
    input: torch.Tensor,
    weight: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
    mean: torch.Tensor,
    var: torch.Tensor,
    convolved: OptionalTensor,
    needs_input: bool = True,
    output: OptionalTensor = None,
    moments: OptionalTensor = None,
    *,
    rung: str | None = None,
) -> Gradients:
    """The gradients of conv_block's ``input`` (None unless ``needs_input``), ``weight``, ``gamma``, ``beta``.

    ``grad_output`` is (N, K, H // 2, W // 2), ``grad_mean`` and ``grad_var`` are (K,), ``grad_convolved`` has the shape
    of ``convolved``, the convolution, (N, K, H, W), which is None if ``input`` has one channel; a gradient that is None
    is the same as zeros. ``mean``, ``var`` and ``output`` are the results of ``conv_block``; without ``output``, which
    may be None, the kernels read more of the convolution. The other arguments are those of ``conv_block``. Autograd
    calls this function; it is public for backwards written by hand. Differentiable with respect to the gradients and
    the arguments of the forward. ``rung`` names one kernel of the ladder. Raises ``TypeError`` or ``ValueError`` that
    names the argument.
    """
    grads = (grad_output, grad_mean, grad_var, grad_convolved)
    result: Gradients = _conv_block_backward(
        *grads, input, weight, gamma, beta, eps, mean, var, convolved, needs_input, output, moments, rung=rung
    )
    return result
