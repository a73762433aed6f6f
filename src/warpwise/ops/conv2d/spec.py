"""The specifications of conv2d and of its backward."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

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
from warpwise.ops._convolution import in_precision, planned
from warpwise.ops._windows import Pair, windows

DTYPES = (torch.float32,)
Optional = torch.Tensor | None
Three = tuple[Optional, Optional, Optional]


def check(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
    *rest: Any,
) -> None:
    check_tensor("conv2d", "input", input, FLOATS, dims=(4,))
    check_tensor("conv2d", "weight", weight, FLOATS, dims=(4,))
    check_same("conv2d", ("input", "weight"), input, weight)
    for name, pair, least in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
        if len(pair) != 2 or min(pair) < least:
            raise ValueError(f"conv2d: expected {name} to be two integers of at least {least}, got {tuple(pair)}")
    channels, filters = input.shape[1], weight.shape[0]
    if min(weight.shape) < 1:
        raise ValueError(f"conv2d: expected weight with at least one element, got shape {tuple(weight.shape)}")
    if groups < 1 or channels % groups or filters % groups:
        raise ValueError(f"conv2d: expected groups to divide {channels} and {filters} channels, got {groups}")
    if weight.shape[1] * groups != channels:
        raise ValueError(
            f"conv2d: expected weight with {channels // groups} input channels in each of {groups} groups, "
            f"got shape {tuple(weight.shape)}"
        )
    if bias is not None:
        check_tensor("conv2d", "bias", bias, FLOATS)
        check_same("conv2d", ("input", "bias"), input, bias)
        if tuple(bias.shape) != (filters,):
            raise ValueError(f"conv2d: expected bias of shape {(filters,)}, got {tuple(bias.shape)}")
    if min(output_shape(input, weight, bias, stride, padding, dilation)[2:]) < 1:
        raise ValueError(
            f"conv2d: expected padded images no smaller than the filter {tuple(weight.shape[2:])}, dilated by "
            f"{tuple(dilation)}, got {tuple(input.shape)} padded by {tuple(padding)}"
        )


def output_shape(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: Optional,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    *rest: Any,
) -> tuple[int, ...]:
    sizes = (windows(input.shape[2 + at], weight.shape[2 + at], stride[at], padding[at], dilation[at]) for at in (0, 1))
    return (input.shape[0], weight.shape[0], *sizes)


def check_backward(grad_output: torch.Tensor, *args: Any) -> None:
    input, weight, *rest = args[:7]
    check_tensor("conv2d_backward", "grad_output", grad_output, FLOATS, dims=(4,))
    check(input, weight, *rest)
    check_same("conv2d_backward", ("input", "grad_output"), input, grad_output)
    expected = output_shape(input, weight, *rest)
    if tuple(grad_output.shape) != expected:
        raise ValueError(f"conv2d_backward: expected grad_output of shape {expected}, got {tuple(grad_output.shape)}")


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``n`` images of c channels, h x w, and k filters of r x s; a bias unless the attribute ``biased`` is false."""
    n, c, h, w, k, r, s = (case.sizes[name] for name in "nchwkrs")
    groups = case.attributes.get("groups", 1)
    bias = draw((k,), dtype, device, 3 * seed + 2, case.values, 4) if case.attributes.get("biased", True) else None
    return {
        "input": draw((n, c, h, w), dtype, device, 3 * seed, case.values, 4),
        "weight": draw((k, c // groups, r, s), dtype, device, 3 * seed + 1, case.values, 4),
        "bias": bias,
    }


def _convolved(input: torch.Tensor, weight: torch.Tensor, bias: Optional, *settings: Any) -> torch.Tensor:
    stride, padding, dilation, groups, *_ = settings
    return functional.conv2d(input, weight, bias, list(stride), list(padding), list(dilation), groups)


def reference(input: torch.Tensor, weight: torch.Tensor, bias: Optional, *settings: Any) -> torch.Tensor:
    return _convolved(input.double(), weight.double(), None if bias is None else bias.double(), *settings)


def magnitude(input: torch.Tensor, weight: torch.Tensor, bias: Optional, *settings: Any) -> torch.Tensor:
    terms = weight[0].numel() + 1 if len(weight) else 1
    scale = rounding_of_operands(input, terms, settings[4])
    return scale * reference(input.abs(), weight.abs(), None if bias is None else bias.abs(), *settings)


def rounding_of_operands(input: torch.Tensor, terms: int, tf32: bool) -> float:
    """The factor of the magnitude for operands that are truncated to TF32's 10 bits, a relative 2^-10 each.

    The tolerance of a float32 sum of n terms is u growth(n) (|x| * |w|), u = 2^-24; truncation adds 2^-9 (|x| * |w|).
    """
    growth = 16 + min(terms, 6 * math.sqrt(terms))
    return 1 + 2.0**-9 / (2.0**-24 * growth) if tf32 and input.dtype == torch.float32 else 1.0


def result_format(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.memory_format:
    """The order of PyTorch's results; on a GPU its convolutions of float64 return NCHW."""
    wide = input.is_cuda and input.dtype == torch.float64
    return torch.contiguous_format if wide else memory_format(input, weight)


def eager(*args: Any) -> torch.Tensor:
    """PyTorch's convolution, in TF32 only if the last argument allows it."""
    made: torch.Tensor = in_precision(args[7], _convolved, args[0], *args)
    return in_format(made, result_format(*args))


def eager_plan(*args: Any) -> Callable[..., torch.Tensor]:
    return planned(eager, args[0], args[3:7], args[7], result_format(*args) == torch.channels_last)


def _backward(
    grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, bias: Optional, *settings: Any
) -> Three:
    stride, padding, dilation, groups, *needs = settings[:7]
    sizes = None if bias is None else list(bias.shape)
    mask = [*needs[:2], needs[2] and bias is not None]
    found = torch.ops.aten.convolution_backward(
        grad_output, input, weight, sizes, list(stride), list(padding), list(dilation), False, [0, 0], groups, mask
    )
    format = result_format(input, weight)
    dx, dw = (in_format(grad, format) if need else None for grad, need in zip(found[:2], mask[:2], strict=True))
    return dx, dw, found[2].contiguous() if mask[2] else None


def eager_backward(*args: Any) -> Three:
    """PyTorch's backward, in TF32 only if the last argument allows it."""
    return in_precision(args[11], _backward, args[0], *args)


def backward_plan(*args: Any) -> Callable[..., Three]:
    nhwc = result_format(*args[1:3]) == torch.channels_last
    return planned(eager_backward, args[0], args[4:8], args[11], nhwc, args[8:11])


def _magnitudes(grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> Any:
    given = (value.double().abs() for value in (grad_output, input, weight))
    found = _backward(*given, *rest[:5], True, True, True)
    terms = (weight.numel() // max(1, weight.shape[1]) + 1, _pixels(grad_output), _pixels(grad_output))
    scales = [rounding_of_operands(input, count, rest[8]) for count in terms[:2]] + [
        1.0
    ]  # db is a sum, not of products
    return [None if one is None else scale * one for scale, one in zip(scales, found, strict=True)]


def cost(input: torch.Tensor, weight: torch.Tensor, bias: Optional, *settings: Any) -> Cost:
    n, k, p, q = output_shape(input, weight, bias, *settings)
    outputs = n * k * p * q
    return Cost(
        bytes=input.nbytes + weight.nbytes + outputs * input.element_size(), flops=2 * outputs * weight[0].numel()
    )


def cost_backward(grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> Cost:
    """dy, x and w are read; dx and dw are written if they are needed. Two FLOPs for each product of either."""
    needs = rest[5:7]
    written = sum(tensor.nbytes for tensor, needed in zip((input, weight), needs, strict=True) if needed)
    read = grad_output.nbytes + input.nbytes + weight.nbytes
    return Cost(bytes=read + written, flops=2 * sum(needs) * grad_output.numel() * weight[0].numel())


def _case(name: str, sizes: tuple[int, ...], attributes: dict[str, Any] | None = None, **more: Any) -> Case:
    return Case(name, dict(zip("nchwkrs", sizes, strict=True)), attributes or {}, **more)


SAME = {"padding": (1, 1)}
CASES = (
    _case("small", (2, 2, 3, 4, 2, 3, 3), SAME),
    _case("ragged", (1, 3, 11, 13, 19, 3, 3), SAME),
    _case("strided_filter", (2, 3, 9, 10, 4, 3, 2), {"stride": (2, 1), "padding": (1, 0), "biased": False}),
    _case("dilated", (1, 2, 9, 9, 2, 3, 3), {"dilation": (2, 3), "padding": (2, 2)}),
    _case("grouped", (2, 4, 6, 6, 6, 3, 3), {"groups": 2, "padding": (1, 1)}),
    _case("many_filters", (1, 2, 5, 5, 70, 3, 3), SAME),
    _case("many_channels", (2, 18, 6, 10, 33, 3, 3), SAME),
    _case("one_element", (1, 1, 1, 1, 1, 1, 1)),
    _case("empty", (0, 2, 4, 4, 2, 3, 3)),
    _case("huge", (1, 2, 4, 4, 2, 3, 3), values="huge"),
    _case("strided", (1, 2, 5, 6, 3, 3, 3), SAME, layout="strided"),
    _case("unaligned", (1, 2, 5, 6, 3, 3, 3), SAME, layout="unaligned"),
    _case("nhwc", (2, 3, 7, 6, 5, 3, 3), SAME, layout="channels_last"),
    _case("nhwc_one_channel", (2, 1, 5, 7, 20, 3, 3), SAME, layout="channels_last"),
    _case("nhwc_vectors", (1, 4, 9, 11, 68, 3, 2), {"stride": (2, 1), "biased": False}, layout="channels_last"),
    _case("tf32", (2, 3, 7, 6, 5, 3, 3), {**SAME, "tf32": True}),
)
SIZES = (
    _case("first_layer", (128, 1, 28, 28, 16, 3, 3), SAME),
    _case("second_layer", (128, 16, 14, 14, 32, 3, 3), SAME),
    _case("second_layer_2048", (2048, 16, 14, 14, 32, 3, 3), SAME),
    _case("resnet", (64, 64, 56, 56, 64, 3, 3), SAME),
    _case("ragged", (33, 33, 31, 29, 65, 3, 3), {"stride": (2, 2), "padding": (1, 1)}),
)
SPEC = Spec(
    schema="conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0,"
    " int[2] dilation=1, int groups=1, bool tf32=False) -> Tensor",
    summary="the cross-correlation of images (N, C, H, W) with filters (K, C / groups, R, S)",
    inputs=inputs,
    check=check,
    outputs={
        "output": Output(
            shape=output_shape,
            memory_format=result_format,
            terms=lambda x, w, *rest: w[0].numel() + 1 if len(w) else 1,
            magnitude=magnitude,
        )
    },
    reference=reference,
    eager=eager,
    eager_plan=eager_plan,
    cost=cost,
    vendor="cuDNN",
    autocast="low_precision",
    cases=CASES,
    sizes=SIZES,
    dtypes=DTYPES,
)


def _pixels(grad_output: torch.Tensor, *rest: Any) -> int:
    """Terms of an element of the gradients of weight and bias."""
    return grad_output.numel() // max(1, grad_output.shape[1]) + 1


BACKWARD = backward_spec(
    SPEC,
    "conv2d_backward(Tensor grad_output, Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1,"
    " int[2] padding=0, int[2] dilation=1, int groups=1, bool needs_input=True, bool needs_weight=True,"
    " bool needs_bias=True, bool tf32=False) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    outputs={
        "grad_input": Output(
            like="input",
            memory_format=lambda dy, *rest: result_format(*rest),
            present=lambda *args: args[8],
            terms=lambda dy, x, w, *rest: w.numel() // max(1, w.shape[1]) + 1,
            magnitude=lambda *args: _magnitudes(*args)[0],
        ),
        "grad_weight": Output(
            like="weight",
            memory_format=lambda dy, *rest: result_format(*rest),
            present=lambda *args: args[9],
            terms=_pixels,
            magnitude=lambda *args: _magnitudes(*args)[1],
        ),
        "grad_bias": Output(
            shape=lambda dy, x, w, *rest: w.shape[:1],
            present=lambda *args: args[10] and args[3] is not None,
            terms=_pixels,
            magnitude=lambda *args: _magnitudes(*args)[2],
        ),
    },
    check=check_backward,
    eager=eager_backward,
    eager_plan=backward_plan,
    cost=cost_backward,
    cases=(
        *CASES,
        _case("weight_only", (2, 2, 5, 5, 3, 3, 3), {"needs_input": False, "needs_bias": False}),
        _case("input_only", (2, 2, 5, 5, 3, 3, 3), {"needs_weight": False, "needs_bias": False}),
    ),
)
