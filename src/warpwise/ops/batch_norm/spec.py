"""The specifications of batch normalisation by the batch's statistics and of its backward."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.arguments.layout import in_format, memory_format
from warpwise.operation import (
    FLOATS,
    Case,
    Cost,
    Output,
    Spec,
    backward_spec,
    check_same,
    check_tensor,
    draw,
)

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SHORT = DTYPES[1:]
Optional = torch.Tensor | None
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def check(input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> None:
    check_tensor("batch_norm", "input", input, FLOATS, dims=(2, 3, 4, 5))
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            check_tensor("batch_norm", name, value, FLOATS)
            wider = value.dtype == torch.float32 and input.dtype in SHORT
            check_same("batch_norm", ("input", name), input.float() if wider else input, value)
            if tuple(value.shape) != (input.shape[1],):
                raise ValueError(f"batch_norm: expected {name} of shape {(input.shape[1],)}, got {tuple(value.shape)}")
    if not eps >= 0:  # NaN too
        raise ValueError(f"batch_norm: expected eps of at least 0, got {eps}")


def check_backward(
    grad_output: Optional, grad_mean: Optional, grad_var: Optional, input: torch.Tensor, *rest: Any
) -> None:
    weight, bias, eps, mean, var = rest
    check(input, weight, bias, eps)
    channels = (input.shape[1],)
    shapes = {"grad_output": tuple(input.shape), "grad_mean": channels, "grad_var": channels}
    given = dict(zip(shapes, (grad_output, grad_mean, grad_var), strict=True))
    for name, value in (given | {"mean": mean, "var": var}).items():
        expected = shapes.get(name, channels)
        if value is not None and tuple(value.shape) != expected:
            raise ValueError(f"batch_norm_backward: expected {name} of shape {expected}, got {tuple(value.shape)}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``input`` (n, c, h, w), shifted by the attribute ``offset``; weight and bias unless ``affine`` is false.

    With the attribute ``wide``, weight and bias are float32 for inputs of 16 bits.
    """
    shape = tuple(case.sizes[name] for name in ("n", "c", "h", "w"))
    first = 3 * seed + 31  # not 97 seed, as of grad_output: if the two were equal, the gradient would be 0
    values = draw(shape, dtype, device, first, case.values, 5) + case.attributes.get("offset", 0)
    if not case.attributes.get("affine", True):
        return {"input": values, "weight": None, "bias": None}
    wide = torch.float32 if case.attributes.get("wide") and dtype in SHORT else dtype
    weight, bias = (draw((shape[1],), wide, device, first + at) for at in (1, 2))
    return {"input": values, "weight": weight, "bias": bias}


def statistics_dtype(input: torch.Tensor, *rest: Any) -> torch.dtype:
    """The dtype of mean and var: float32 for inputs of 16 bits."""
    return torch.float32 if input.dtype in SHORT else input.dtype


def axes(input: torch.Tensor) -> list[int]:
    return [dim for dim in range(input.dim()) if dim != 1]


def wide(channel: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    """A value for each channel, broadcast over ``input``."""
    return channel.view(1, -1, *[1] * (input.dim() - 2))


def computed(input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> Three:
    mean = input.mean(axes(input))
    centred = input - wide(mean, input)
    var = centred.square().mean(axes(input))
    output = centred * wide((var + eps).rsqrt(), input)
    output = output if weight is None else output * wide(weight, input)
    return output if bias is None else output + wide(bias, input), mean, var


def reference(input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> Three:
    scale, shift = (value if value is None else value.double() for value in (weight, bias))
    return computed(input.double(), scale, shift, eps)


def eager(input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> Three:
    """PyTorch's batch_norm, and the statistics, which it does not return.

    float64, in which derivatives are verified, is computed by the definition, because PyTorch's third derivatives are
    wrong.
    """
    wide_input, format = input.to(statistics_dtype(input)), memory_format(input)
    if not input.numel() or input.dtype == torch.float64:
        output, mean, var = computed(wide_input, weight, bias, eps)
        return in_format(output.to(input.dtype), format), mean, var
    var, mean = torch.var_mean(wide_input, axes(input), correction=0)
    output = torch.batch_norm(input, weight, bias, None, None, True, 0.0, eps, torch.backends.cudnn.enabled)
    return in_format(output, format), mean, var


def eager_backward(
    grad_output: Optional,
    grad_mean: Optional,
    grad_var: Optional,
    input: torch.Tensor,
    weight: Optional,
    bias: Optional,
    eps: float,
    *statistics: torch.Tensor,
) -> tuple[torch.Tensor, Optional, Optional]:
    """The gradients by differentiable operations; statistics are computed again, so that derivatives include them."""
    count, dtype, format = max(1, elements(input)), input.dtype, memory_format(input)
    dtypes = [value.dtype if value is not None else dtype for value in (weight, bias)]
    compute = statistics_dtype(input)
    input = input.to(compute)
    weight, grad_output = (value if value is None else value.to(compute) for value in (weight, grad_output))
    centred = input - wide(input.mean(axes(input)), input)
    rstd = (centred.square().mean(axes(input)) + eps).rsqrt()
    h = centred * wide(rstd, input)
    gradient = torch.zeros_like(input) if grad_output is None else grad_output
    sums, dots = gradient.sum(axes(input)), (gradient * h).sum(axes(input))
    scale = rstd if weight is None else rstd * weight
    dx = wide(scale, input) * (gradient - wide(sums, input) / count - h * wide(dots, input) / count)
    if grad_mean is not None:
        dx = dx + wide(grad_mean, input) / count
    if grad_var is not None:
        dx = dx + wide(grad_var, input) * centred * (2 / count)
    dx = in_format(dx.to(dtype), format)
    return dx, None if weight is None else dots.to(dtypes[0]), None if bias is None else sums.to(dtypes[1])


def deviation(input: torch.Tensor) -> torch.Tensor:
    """The mean of (x - x_0)^2 over each channel, x_0 its first element: the kernels sum values shifted by x_0."""
    x = input.double()
    first = x[(slice(0, 1), slice(None), *[slice(0, 1)] * (x.dim() - 2))]
    return 2 * (x - first).square().mean(axes(x)) if x.numel() else x.new_zeros(x.shape[1])


def magnitude(input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> torch.Tensor:
    """Twice (|x| + mean |x|) / std |w|, for the rounding of the mean; the variance's relative error; |b|."""
    x = input.double()
    if not x.numel():
        return x
    var = reference(input, None, None, eps)[2] + eps
    scaled = (x.abs() + wide(x.abs().mean(axes(x)), x)) * wide(var.rsqrt() * (1 + deviation(input) / var), x)
    scaled = scaled if weight is None else scaled * wide(weight.double().abs(), x)
    return 2 * scaled if bias is None else 2 * scaled + wide(bias.double().abs(), x)


def mean_magnitude(input: torch.Tensor, *rest: Any) -> torch.Tensor:
    return 2 * input.double().abs().mean(axes(input)) if input.numel() else input.new_zeros(input.shape[1]).double()


def elements(input: torch.Tensor) -> int:
    """Elements of a channel."""
    return input.numel() // input.shape[1] if input.shape[1] else 0


def cost(input: torch.Tensor, weight: Optional, bias: Optional, eps: float) -> Cost:
    """One read for the statistics, one read and one write to normalise; tensors that fit in L2 are read once."""
    return Cost(bytes=2 * input.nbytes, flops=8 * input.numel())


class _Sizes:
    """Absolute values of the terms of the gradients.

    The mean and the variance are arguments, rounded once. A normalised value, (x - mean) rstd, then has an error of the
    size of (|x| + mean |x|) rstd, however long the sums behind the statistics were.
    """

    def __init__(self, *args: Any) -> None:
        grad_output, grad_mean, grad_var, input, weight, _, eps, _, _ = args
        x = self.x = input.double()
        self.count = max(1, elements(input))
        self.g = torch.zeros_like(x) if grad_output is None else grad_output.double().abs()
        if not x.numel():
            return
        rstd = (reference(input, None, None, eps)[2] + eps).rsqrt()
        self.h = (x.abs() + wide(x.abs().mean(axes(x)), x)) * wide(rstd, x)
        self.factor = wide(rstd if weight is None else rstd * weight.double().abs(), x)
        zero = x.new_zeros(x.shape[1])
        self.others = [zero if grad is None else grad.double().abs() for grad in (grad_mean, grad_var)]

    def input(self) -> torch.Tensor:
        if not self.x.numel():
            return self.x
        x = self.x
        means = [wide(value.mean(axes(x)), x) for value in (self.g, self.g * self.h)]
        through = wide(self.others[0], x) + 2 * wide(self.others[1], x) * (x.abs() + wide(x.abs().mean(axes(x)), x))
        return self.factor * (self.g + means[0] + self.h * means[1]) + through / self.count

    def weight(self) -> torch.Tensor:
        return (self.g * self.h).sum(axes(self.x)) if self.x.numel() else self.x.new_zeros(self.x.shape[1])

    def bias(self) -> torch.Tensor:
        return self.g.sum(axes(self.x))


def cost_backward(*args: Any) -> Cost:
    """dy and x are read for the sums and again for dx; dx is written."""
    return Cost(bytes=3 * args[3].nbytes, flops=10 * args[3].numel())


def _case(name: str, n: int, c: int, h: int, w: int, **more: Any) -> Case:
    return Case(name, {"n": n, "c": c, "h": h, "w": w}, **more)


SPEC = Spec(
    schema="batch_norm(Tensor input, Tensor? weight=None, Tensor? bias=None, float eps=1e-5)"
    " -> (Tensor output, Tensor mean, Tensor var)",
    summary="(x - mean) / sqrt(var + eps) * weight + bias by the statistics of the batch, of each channel",
    inputs=inputs,
    check=check,
    outputs={
        "output": Output(
            like="input",
            memory_format=lambda x, *rest: memory_format(x),
            terms=lambda x, *rest: elements(x) + 4,
            magnitude=magnitude,
        ),
        "mean": Output(
            shape=lambda x, *rest: x.shape[1:2],
            dtype=statistics_dtype,
            terms=lambda x, *rest: elements(x) + 1,
            magnitude=mean_magnitude,
        ),
        "var": Output(
            shape=lambda x, *rest: x.shape[1:2],
            dtype=statistics_dtype,
            terms=lambda x, *rest: elements(x) + 2,
            magnitude=lambda x, *rest: deviation(x),
        ),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        _case("aligned", 2, 3, 4, 8),
        _case("several_blocks", 6, 1, 28, 28),
        _case("ragged", 3, 5, 11, 9),
        _case("offset", 4, 2, 6, 8, attributes={"offset": 100}),
        _case("plain", 3, 3, 4, 8, attributes={"affine": False, "eps": 1e-3}),
        _case("wide_parameters", 2, 3, 4, 8, attributes={"wide": True}),
        _case("one_element", 1, 1, 1, 1),
        _case("empty", 0, 2, 4, 4),
        _case("huge", 2, 2, 3, 3, values="huge"),
        _case("strided", 2, 3, 4, 6, layout="strided"),
        _case("unaligned", 2, 3, 4, 6, layout="unaligned"),
        _case("nhwc", 3, 5, 11, 9, layout="channels_last"),
        _case("nhwc_vectors", 40, 16, 7, 9, layout="channels_last"),
        _case("nhwc_tiles", 2, 140, 3, 5, layout="channels_last"),
    ),
    sizes=(
        _case("first_block", 128, 16, 28, 28),
        _case("second_block", 2048, 32, 14, 14),
        _case("large", 64, 256, 56, 56),
        _case("ragged", 300, 33, 31, 29),
    ),
    dtypes=DTYPES,
)
BACKWARD = backward_spec(
    SPEC,
    "batch_norm_backward(Tensor? grad_output, Tensor? grad_mean, Tensor? grad_var, Tensor input, Tensor? weight,"
    " Tensor? bias, float eps, Tensor mean, Tensor var)"
    " -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    outputs={
        "grad_input": Output(
            like="input",
            memory_format=lambda *args: memory_format(args[3]),
            terms=lambda *args: elements(args[3]) + 8,
            magnitude=lambda *args: _Sizes(*args).input(),
        ),
        "grad_weight": Output(
            shape=lambda *args: args[3].shape[1:2],
            dtype="weight",
            present=lambda *args: args[4] is not None,
            terms=lambda *args: elements(args[3]) + 4,
            magnitude=lambda *args: _Sizes(*args).weight(),
        ),
        "grad_bias": Output(
            shape=lambda *args: args[3].shape[1:2],
            dtype="bias",
            present=lambda *args: args[5] is not None,
            terms=lambda *args: elements(args[3]) + 1,
            magnitude=lambda *args: _Sizes(*args).bias(),
        ),
    },
    check=check_backward,
    eager=eager_backward,
    cost=cost_backward,
    dtype_from="input",
)
