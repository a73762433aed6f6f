"""The block of a batch that several processes divide, normalised by the statistics of the whole batch.

The kernels are those of the forward and the backward. Between two of them, sums over the batch are replaced by their
averages over the processes: in the forward the statistics of the convolution, in the backward the sums of each channel.
With one input channel, ``ops.conv_block`` takes the averages of the input's moments. Its backward then needs no
exchange: the gradients are linear in the sums of a process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv
from warpwise.ops.conv_block.backward import rungs as backward
from warpwise.ops.conv_block.backward.rungs import Average
from warpwise.ops.conv_block.forward import k06_tensor_cores
from warpwise.ops.conv_block.forward import rungs as forward
from warpwise.ops.conv_block.op import CONV_BLOCK, CONV_BLOCK_BACKWARD, Three
from warpwise.ops.conv_block.spec import Four, convolved_shape

KERNELS = cuda.load(Path(__file__).with_suffix(".cu"))
THREADS = 256  # kThreads
CONVOLUTIONS = {
    "k04_direct_tiles": forward.convolve_directly,
    "k06_tensor_cores": k06_tensor_cores.convolve,
    "k07_warpgroups": k06_tensor_cores.convolve_by_warpgroups,
}
GRADIENTS = {
    "k02_fused": backward.fused,
    "k03_direct_tiles": backward.direct_tiles,
    "k06_tensor_cores": backward.tensor_cores,
    "k07_stored_gradient": backward.stored_gradient,
    "k09_bf16x3": backward.bf16x3,
}


def average_moments(moments: torch.Tensor, average: Average) -> torch.Tensor:
    """The moments, (10, 9), of the whole batch from those of a process's part, which has as many pixels as the others.

    ``moments`` is overwritten. Covariances are averaged as second moments about 0, in float64.
    """
    mean, covariance = moments[0], moments[1:]
    covariance.addr_(mean, mean)
    average(moments)
    covariance.addr_(mean, mean, alpha=-1)
    return moments


def takes(input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float) -> bool:
    """True if ``conv_block_over`` takes the arguments: CUDA tensors for which the operation has a fused kernel."""
    if not (input.is_cuda and input.dtype == torch.float32 and input.dim() == 4 and input.numel()):
        return False
    if torch.is_autocast_enabled("cuda") or torch.compiler.is_compiling():
        return False
    rung = CONV_BLOCK.planned(input, weight, gamma, beta, eps, None)
    return rung is not None and rung.name in CONVOLUTIONS


def conv_block_over(
    average: Average, input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float
) -> Three:
    """``ops.conv_block`` of a process's part of a batch; mean and variance are those of all parts.

    ``average`` replaces a tensor by its average over the processes, which call this function together, with parts of
    one shape, and returns it. Gradients of the parameters are those of the process's loss plus, through the statistics,
    a part of those of the others, so that their average over the processes is the gradient of the average loss.
    Differentiable once; ``mean`` and ``var`` have no gradient.
    """
    result: Three = _Block.apply(input, weight, gamma, beta, eps, average)
    return result


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any,
        input: torch.Tensor,
        weight: torch.Tensor,
        gamma: torch.Tensor,
        beta: torch.Tensor,
        eps: float,
        average: Average,
    ) -> Three:
        args = (*(each.contiguous() for each in (input, weight, gamma, beta)), eps)
        outputs: Any = CONV_BLOCK.allocate(*args, None)
        rung = CONV_BLOCK.planned(*args, None)
        normalise_by_averages(outputs, average, None if rung is None else rung.name, *args)
        output, mean, var, convolved = outputs
        context.save_for_backward(*args[:4], mean, var, convolved, output)
        context.eps, context.average = eps, average
        context.mark_non_differentiable(mean, var)
        return output, mean, var

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, grad: torch.Tensor, *statistics: Any) -> tuple[torch.Tensor | None, ...]:
        *forward_args, mean, var, convolved, output = context.saved_tensors
        statistics = (mean, var, convolved, context.needs_input_grad[0], output)
        return (*gradients(context.average, grad.contiguous(), *forward_args, context.eps, *statistics), None, None)


def normalise_by_averages(outputs: Four, average: Average, rung: str | None, *args: Any) -> None:
    """The outputs from the arguments of conv_block, by the convolution of ``rung``."""
    input, weight, *rest = args
    _, mean, var, convolved = outputs
    k = len(weight)
    if convolved is None:  # of one input channel
        convolved = input.new_empty(convolved_shape(input, weight))
    partials = CONVOLUTIONS[rung or ""](input, weight, convolved)
    raw = input.new_empty((2, k), dtype=torch.float64)
    KERNELS["raw_statistics"][k, THREADS](partials, cuda.out(raw), partials.shape[1])
    KERNELS["mean_and_variance"][cdiv(k, THREADS), THREADS](average(raw), cuda.out(mean), cuda.out(var), k)
    forward.pool(outputs, convolved, *rest)


def gradients(average: Average, grad: torch.Tensor, *args: Any) -> tuple[torch.Tensor | None, ...]:
    """The gradients of input (or None), weight, gamma and beta; ``args`` are those of conv_block_backward."""
    given = (grad, None, None, None, *args)
    outputs: Any = CONV_BLOCK_BACKWARD.allocate(*given, None)
    rung = CONV_BLOCK_BACKWARD.planned(*given, None)
    GRADIENTS.get("" if rung is None else rung.name, backward.fused)(outputs, *given, average=average)
    return tuple(outputs)
