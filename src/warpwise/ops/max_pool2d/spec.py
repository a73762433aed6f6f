"""The specifications of max_pool2d and of its backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from warpwise.arguments.layout import in_format, memory_format
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_tensor, draw
from warpwise.ops._windows import Pair, backward_format, check_pool, check_settings, pooled_shape

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
Two = tuple[torch.Tensor, torch.Tensor]


def check(input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, relu: bool) -> None:
    check_pool("max_pool2d", input, kernel_size, stride, padding)


def check_backward(
    grad_output: torch.Tensor,
    indices: torch.Tensor,
    shape_input: Sequence[int],
    kernel_size: Pair,
    stride: Pair,
    padding: Pair,
    nhwc_input: bool | None,
) -> None:
    op = "max_pool2d_backward"
    check_tensor(op, "grad_output", grad_output, FLOATS, dims=(4,))
    check_tensor(op, "indices", indices, (torch.int32,), dims=(4,))
    check_settings(op, shape_input, kernel_size, stride, padding)
    expected = pooled_shape(shape_input, kernel_size, stride, padding)
    for name, tensor in (("grad_output", grad_output), ("indices", indices)):
        if tuple(tensor.shape) != expected:
            raise ValueError(f"{op}: expected {name} of shape {expected}, got {tuple(tensor.shape)}")


def _shape(case: Case) -> tuple[int, ...]:
    return tuple(case.sizes[name] for name in ("n", "c", "h", "w"))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    return {"input": draw(_shape(case), dtype, device, seed, case.values)}


def inputs_backward(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """Normal gradients, and the indices of the maxima of normal values."""
    pairs = {name: case.attributes[name] for name in ("kernel_size", "stride", "padding")}
    shape = pooled_shape(_shape(case), *pairs.values())
    if device.type == "meta":
        indices = torch.empty(shape, dtype=torch.int32, device=device)
    else:
        images = draw(_shape(case), torch.float32, device, 2 * seed + 1)
        indices = eager(images, **pairs, relu=case.attributes.get("relu", False))[1]
    grad = draw(shape, dtype, device, 2 * seed, case.values, 2)
    return {"grad_output": grad, "indices": indices, "shape_input": _shape(case)}


def reference(input: torch.Tensor, *settings: Any) -> Two:
    return eager(input.double(), *settings)


def eager(input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, relu: bool) -> Two:
    if not input.numel():
        shape = pooled_shape(input.shape, kernel_size, stride, padding)
        return input.sum() + input.new_zeros(shape), input.new_zeros(shape, dtype=torch.int32)
    output, indices = functional.max_pool2d(input, list(kernel_size), list(stride), list(padding), return_indices=True)
    if relu:
        output, indices = functional.relu(output), indices.masked_fill(output <= 0, -1)
    format = memory_format(input)
    return in_format(output, format), in_format(indices.int(), format)


def gathered(input: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The elements of ``input`` (N, C, H, W) at ``indices`` within each plane; 0 for the index -1."""
    found = input.flatten(2).gather(2, indices.clamp(min=0).long().flatten(2)).view(indices.shape)
    return found.masked_fill(indices < 0, 0)


def scattered(grad_output: torch.Tensor, indices: torch.Tensor, shape_input: Sequence[int], *rest: Any) -> torch.Tensor:
    """The adjoint of ``gathered``: elements at an index are added."""
    planes = grad_output.new_zeros((*shape_input[:2], shape_input[2] * shape_input[3]))
    kept = grad_output.masked_fill(indices < 0, 0).flatten(2)
    return planes.scatter_add(2, indices.clamp(min=0).long().flatten(2), kept).view(tuple(shape_input))


def reference_backward(grad_output: torch.Tensor, *rest: Any) -> torch.Tensor:
    return scattered(grad_output.double(), *rest)


def magnitude_backward(grad_output: torch.Tensor, *rest: Any) -> torch.Tensor:
    return scattered(grad_output.double().abs(), *rest)


def check_indices(indices: torch.Tensor, shape_input: Sequence[int]) -> None:
    """Raise ``IndexError`` for an index outside of the image, on a CPU."""
    if indices.device.type != "cpu" or not indices.numel():
        return
    low, high = (int(end) for end in indices.aminmax())
    pixels = shape_input[-2] * shape_input[-1]
    if low < -1 or high >= pixels:
        got = low if low < -1 else high
        raise IndexError(f"max_pool2d_backward: expected indices in [0, {pixels}), or -1 for no gradient, got {got}")


def eager_backward(
    grad_output: torch.Tensor,
    indices: torch.Tensor,
    shape_input: Sequence[int],
    kernel_size: Pair,
    stride: Pair,
    padding: Pair,
    nhwc_input: bool | None,
) -> torch.Tensor:
    """PyTorch's backward of the pooling, which reads only the shape of the input, and does not check the indices."""
    check_indices(indices, shape_input)
    format = backward_format(grad_output, nhwc_input)
    image = torch.empty(tuple(shape_input), dtype=grad_output.dtype, device=grad_output.device, memory_format=format)
    if not grad_output.numel():
        return image.zero_()
    kept, places = grad_output.masked_fill(indices < 0, 0), indices.clamp(min=0).long()
    found: torch.Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
        kept, image, list(kernel_size), list(stride), list(padding), [1, 1], False,
        in_format(places, format),
    )  # fmt: skip
    return in_format(found, format)


def cost(input: torch.Tensor, kernel_size: Pair, stride: Pair, padding: Pair, relu: bool) -> Cost:
    """One read; an element and an index written for each window."""
    n, c, h, w = pooled_shape(input.shape, kernel_size, stride, padding)
    return Cost(bytes=input.nbytes + n * c * h * w * (input.element_size() + 4), flops=input.numel())


def cost_backward(grad_output: torch.Tensor, indices: torch.Tensor, shape_input: Sequence[int], *rest: Any) -> Cost:
    n, c, h, w = shape_input
    return Cost(bytes=grad_output.nbytes + indices.nbytes + n * c * h * w * grad_output.element_size())


def _case(
    name: str,
    n: int,
    c: int,
    h: int,
    w: int,
    kernel: int,
    stride: int,
    padding: int = 0,
    relu: bool = False,
    **more: Any,
) -> Case:
    pairs = {"kernel_size": (kernel, kernel), "stride": (stride, stride), "padding": (padding, padding)}
    return Case(name, {"n": n, "c": c, "h": h, "w": w}, {**pairs, "relu": relu} if relu else pairs, **more)


CASES = (
    _case("halved", 2, 3, 8, 12, 2, 2),
    _case("ragged", 1, 2, 11, 13, 2, 2),
    _case("overlapping", 2, 1, 9, 10, 3, 2, 1),
    _case("shared_rows", 2, 2, 11, 9, 5, 1, 2),
    _case("shared_rows_of_stride_two", 1, 3, 12, 8, 5, 2),
    _case("gaps", 1, 2, 9, 9, 2, 3),
    Case("oblong", {"n": 1, "c": 2, "h": 7, "w": 9}, {"kernel_size": (3, 2), "stride": (1, 2), "padding": (1, 0)}),
    _case("one_element", 1, 1, 1, 1, 1, 1),
    _case("empty", 0, 2, 4, 4, 2, 2),
    _case("huge", 1, 2, 4, 6, 2, 2, values="huge"),
    _case("strided", 1, 2, 6, 8, 2, 2, layout="strided"),
    _case("unaligned", 1, 2, 6, 8, 2, 2, layout="unaligned"),
    _case("nhwc", 2, 3, 7, 6, 3, 2, 1, layout="channels_last"),
    _case("nhwc_vectors", 1, 8, 5, 6, 2, 2, layout="channels_last"),
    _case("relu_halved", 2, 3, 7, 8, 2, 2, relu=True),
    _case("relu_overlapping", 1, 2, 7, 9, 3, 2, 1, relu=True),
    _case("relu_nhwc", 2, 8, 5, 7, 2, 2, layout="channels_last", relu=True),
)
SIZES = (
    _case("first_block", 128, 16, 28, 28, 2, 2),
    _case("second_block", 2048, 32, 14, 14, 2, 2),
    _case("large", 64, 64, 112, 112, 3, 2, 1),
    _case("ragged", 300, 33, 31, 29, 2, 2),
)
SPEC = Spec(
    schema="max_pool2d(Tensor input, int[2] kernel_size, int[2] stride, int[2] padding=0, bool relu=False)"
    " -> (Tensor output, Tensor indices)",
    summary="the maximum of each window of images (N, C, H, W), with relu of the result if asked",
    inputs=inputs,
    check=check,
    outputs={
        "output": Output(
            shape=lambda input, *settings: pooled_shape(input.shape, *settings[:3]),
            memory_format=lambda input, *rest: memory_format(input),
        ),
        "indices": Output(
            shape=lambda input, *settings: pooled_shape(input.shape, *settings[:3]),
            memory_format=lambda input, *rest: memory_format(input),
            dtype=torch.int32,
            saved=True,
        ),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    cases=CASES,
    sizes=SIZES,
    dtypes=DTYPES,
)
BACKWARD = Spec(
    schema="max_pool2d_backward(Tensor grad_output, Tensor indices, SymInt[] shape_input, int[2] kernel_size,"
    " int[2] stride, int[2] padding, bool? nhwc_input=None) -> (Tensor grad_input)",
    summary="the gradient of max_pool2d: each gradient at its window's maximum",
    inputs=inputs_backward,
    check=check_backward,
    outputs={
        "grad_input": Output(
            shape=lambda grad, indices, shape, *rest: tuple(shape),
            terms=lambda grad, indices, shape, kernel, *rest: kernel[0] * kernel[1],
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
