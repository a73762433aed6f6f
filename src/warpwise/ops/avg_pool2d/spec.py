"""The specifications of avg_pool2d and of its backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from warpwise.arguments.layout import in_format, memory_format
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_tensor, draw
from warpwise.ops._windows import Pair, backward_format, check_pool, check_settings, pooled_shape

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def check(input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> None:
    check_pool("avg_pool2d", input, kernel_size, stride, padding)


def check_backward(
    grad_output: torch.Tensor,
    shape_input: Sequence[int],
    kernel_size: Pair,
    stride: Pair,
    padding: Pair,
    count_include_pad: bool,
    nhwc_input: bool | None,
) -> None:
    op = "avg_pool2d_backward"
    check_tensor(op, "grad_output", grad_output, FLOATS, dims=(4,))
    check_settings(op, shape_input, kernel_size, stride, padding)
    expected = pooled_shape(shape_input, kernel_size, stride, padding)
    if tuple(grad_output.shape) != expected:
        raise ValueError(f"{op}: expected grad_output of shape {expected}, got {tuple(grad_output.shape)}")


def _shape(case: Case) -> tuple[int, ...]:
    return tuple(case.sizes[name] for name in ("n", "c", "h", "w"))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    return {"input": draw(_shape(case), dtype, device, seed, case.values, 2)}


def inputs_backward(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    settings = [case.attributes[name] for name in ("kernel_size", "stride", "padding")]
    shape = pooled_shape(_shape(case), *settings)
    return {"grad_output": draw(shape, dtype, device, seed, case.values, 2), "shape_input": _shape(case)}


def eager(input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> torch.Tensor:
    if not input.numel():
        return input.sum() + input.new_zeros(pooled_shape(input.shape, kernel_size, stride, padding))
    pairs = (list(kernel_size), list(stride), list(padding))
    return in_format(functional.avg_pool2d(input, *pairs, count_include_pad=count_include_pad), memory_format(input))


def reference(input: torch.Tensor, *settings: Any) -> torch.Tensor:
    return eager(input.double(), *settings)


def magnitude(input: torch.Tensor, *settings: Any) -> torch.Tensor:
    return eager(input.double().abs(), *settings)


def eager_backward(
    grad_output: torch.Tensor,
    shape_input: Sequence[int],
    kernel_size: Pair,
    stride: Pair,
    padding: Pair,
    count_include_pad: bool,
    nhwc_input: bool | None,
) -> torch.Tensor:
    """PyTorch's backward of the pooling, which reads only the shape of the input.

    On a GPU PyTorch 2.11's result is wrong for channels last with padding (pytorch/pytorch#188344). Such gradients are
    computed in NCHW and copied.
    """
    layout = within = backward_format(grad_output, nhwc_input)
    if grad_output.is_cuda and any(padding):
        grad_output, within = grad_output.contiguous(), torch.contiguous_format
    empty = torch.empty(tuple(shape_input), dtype=grad_output.dtype, device=grad_output.device, memory_format=within)
    if not grad_output.numel():
        return in_format(torch.zeros_like(empty), layout)
    pairs = (list(kernel_size), list(stride), list(padding))
    found: torch.Tensor = torch.ops.aten.avg_pool2d_backward(grad_output, empty, *pairs, False, count_include_pad, None)
    return in_format(found, layout)


def reference_backward(grad_output: torch.Tensor, *settings: Any) -> torch.Tensor:
    return eager_backward(grad_output.double(), *settings)


def magnitude_backward(grad_output: torch.Tensor, *settings: Any) -> torch.Tensor:
    return eager_backward(grad_output.double().abs(), *settings)


def cost(input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> Cost:
    n, c, h, w = pooled_shape(input.shape, kernel_size, stride, padding)
    return Cost(bytes=input.nbytes + n * c * h * w * input.element_size(), flops=input.numel())


def cost_backward(grad_output: torch.Tensor, shape_input: Sequence[int], *settings: Any) -> Cost:
    n, c, h, w = shape_input
    return Cost(bytes=grad_output.nbytes + n * c * h * w * grad_output.element_size(), flops=grad_output.numel())


def _case(name: str, n: int, c: int, h: int, w: int, kernel: int, stride: int, padding: int = 0, **more: Any) -> Case:
    pairs = {"kernel_size": (kernel, kernel), "stride": (stride, stride), "padding": (padding, padding)}
    pairs |= more.pop("attributes", {})
    return Case(name, {"n": n, "c": c, "h": h, "w": w}, pairs, **more)


CASES = (
    _case("halved", 2, 3, 8, 12, 2, 2),
    _case("ragged", 1, 2, 11, 13, 2, 2),
    _case("overlapping", 2, 1, 9, 10, 3, 2, 1),
    _case("inside_only", 2, 1, 9, 10, 3, 2, 1, attributes={"count_include_pad": False}),
    Case("oblong", {"n": 1, "c": 2, "h": 7, "w": 9}, {"kernel_size": (3, 2), "stride": (1, 3), "padding": (1, 0)}),
    _case("one_element", 1, 1, 1, 1, 1, 1),
    _case("empty", 0, 2, 4, 4, 2, 2),
    _case("huge", 1, 2, 4, 6, 2, 2, values="huge"),
    _case("strided", 1, 2, 6, 8, 2, 2, layout="strided"),
    _case("unaligned", 1, 2, 6, 8, 2, 2, layout="unaligned"),
    _case("nhwc", 2, 3, 7, 6, 3, 2, 1, layout="channels_last"),
    _case("nhwc_vectors", 1, 8, 5, 6, 2, 2, layout="channels_last"),
)
SIZES = (
    _case("first_block", 128, 16, 28, 28, 2, 2),
    _case("second_block", 2048, 32, 14, 14, 2, 2),
    _case("large", 64, 64, 112, 112, 3, 2, 1),
    _case("ragged", 300, 33, 31, 29, 2, 2),
)
SPEC = Spec(
    schema="avg_pool2d(Tensor input, int[2] kernel_size, int[2] stride, int[2] padding=0,"
    " bool count_include_pad=True) -> Tensor",
    summary="the mean of each window of images (N, C, H, W)",
    inputs=inputs,
    check=check,
    outputs={
        "output": Output(
            shape=lambda input, *settings: pooled_shape(input.shape, *settings[:3]),
            terms=lambda input, kernel, *rest: kernel[0] * kernel[1] + 1,
            memory_format=lambda input, *rest: memory_format(input),
            magnitude=magnitude,
        )
    },
    reference=reference,
    eager=eager,
    cost=cost,
    cases=CASES,
    sizes=SIZES,
    dtypes=DTYPES,
)
BACKWARD = Spec(
    schema="avg_pool2d_backward(Tensor grad_output, SymInt[] shape_input, int[2] kernel_size, int[2] stride,"
    " int[2] padding, bool count_include_pad=True, bool? nhwc_input=None) -> (Tensor grad_input)",
    summary="the gradient of avg_pool2d: each gradient, divided by its window's size, in every pixel of the window",
    inputs=inputs_backward,
    check=check_backward,
    outputs={
        "grad_input": Output(
            shape=lambda grad, shape, *rest: tuple(shape),
            terms=lambda grad, shape, kernel, *rest: kernel[0] * kernel[1] + 1,
            memory_format=lambda grad, *rest: backward_format(grad, rest[-1]),
            magnitude=magnitude_backward,
        )
    },
    reference=reference_backward,
    eager=eager_backward,
    cost=cost_backward,
    cases=CASES,
    sizes=SIZES,
    dtypes=DTYPES,
)
