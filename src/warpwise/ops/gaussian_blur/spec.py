"""The specifications of gaussian_blur, with reflected borders, and of its backward, the adjoint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_tensor, draw
from warpwise.ops.gaussian_blur.weights import FIXED_BITS, computed, windows

DTYPES = (torch.float32, torch.uint8, torch.float16, torch.bfloat16, torch.float64)


def _check(op: str, name: str, image: Any, dtypes: Sequence[torch.dtype], kernel_size: Any, sigma: Any) -> None:
    check_tensor(op, name, image, dtypes, dims=(3, 4))
    for what, pair, kinds in (("kernel_size", kernel_size, "integers"), ("sigma", sigma, "numbers")):
        if len(pair) != 2:
            raise TypeError(f"{op}: expected {what} to be two {kinds} (horizontal, vertical), got {pair!r}")
    if any(taps < 1 or taps % 2 == 0 for taps in kernel_size):
        raise ValueError(f"{op}: expected kernel_size to be odd and positive, got {tuple(kernel_size)}")
    if not all(0 < width < float("inf") for width in sigma):
        raise ValueError(f"{op}: expected sigma to be positive and finite, got {tuple(sigma)}")
    extents = (image.size(-1), image.size(-2))
    for axis, taps, extent in zip(("width", "height"), kernel_size, extents, strict=True):
        if 0 < extent <= taps // 2:
            raise ValueError(
                f"{op}: expected a kernel_size below twice the {axis} {extent} of {name}, since reflection needs "
                f"{taps // 2} more pixels beside the border, got {taps}"
            )


def check(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    _check("gaussian_blur", "image", image, DTYPES, kernel_size, sigma)


def backward_check(grad_output: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    _check("gaussian_blur_backward", "grad_output", grad_output, FLOATS, kernel_size, sigma)


def _inputs(name: str, case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """Images (n, channels, height, width); ``kernel`` taps horizontally, ``kernel_y`` (or as many) vertically."""
    shape = tuple(case.sizes[name] for name in ("n", "channels", "height", "width"))
    taps = (case.sizes["kernel"], case.sizes.get("kernel_y", case.sizes["kernel"]))
    sigma = (0.15 * taps[0] + 0.35, 0.15 * taps[1] + 0.35)
    return {name: draw(shape, dtype, device, seed, case.values), "kernel_size": taps, "sigma": sigma}


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    return _inputs("image", case, dtype, device, seed)


def backward_inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    return _inputs("grad_output", case, dtype, device, seed)


def _tap(extent: int, offset: int, device: torch.device) -> torch.Tensor:
    """The source i + offset of each position i of an axis, reflected at both borders."""
    at = torch.arange(offset, offset + extent, device=device).abs()
    return torch.where(at < extent, at, 2 * (extent - 1) - at)


def _along(values: torch.Tensor, weights: Sequence[float], axis: int) -> torch.Tensor:
    total = torch.zeros_like(values)
    for k, weight in enumerate(weights):
        total += weight * values.index_select(axis, _tap(values.size(axis), k - len(weights) // 2, values.device))
    return total


def _adjoint_along(values: torch.Tensor, weights: Sequence[float], axis: int) -> torch.Tensor:
    total = torch.zeros_like(values)
    for k, weight in enumerate(weights):
        at = _tap(values.size(axis), k - len(weights) // 2, values.device)
        total.index_add_(axis, at, weight * values)
    return total


def reference(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> torch.Tensor:
    x, y = windows(kernel_size, sigma, image.dtype)
    if image.dtype == torch.uint8:
        sums = _along(_along(image.long(), x, -1), y, -2)
        return (sums + (1 << 2 * FIXED_BITS - 1)) >> 2 * FIXED_BITS
    return _along(_along(image.double(), x, -1), y, -2)


def backward_reference(grad_output: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> torch.Tensor:
    x, y = windows(kernel_size, sigma, grad_output.dtype)
    return _adjoint_along(_adjoint_along(grad_output.double(), y, -2), x, -1)


def _convolve(planes: torch.Tensor, weights: Sequence[float], axis: int, padding: int = 0) -> torch.Tensor:
    """Correlate every plane of (P, H, W) along ``axis`` with the symmetric weights, padded with zeros."""
    # At least two groups: a depthwise convolution computes in float32, where cuDNN's may use TF32.
    groups = max(2, planes.size(0))
    shape, pad = ((1, len(weights)), (0, padding)) if axis == -1 else ((len(weights), 1), (padding, 0))
    kernel = planes.new_tensor(weights).view(1, 1, *shape).expand(groups, 1, *shape)
    batch = planes.expand(groups, -1, -1).unsqueeze(0)
    return torch.nn.functional.conv2d(batch, kernel, padding=pad, groups=groups)[0, : planes.size(0)]


def _planes(image: torch.Tensor) -> torch.Tensor:
    """(P, H, W) in the dtype of the computation; integers in float32, in which sums of a row, below 2^20, are exact."""
    working = torch.float32 if image.dtype == torch.uint8 else computed(image.dtype)
    return image.to(working).reshape(-1, *image.shape[-2:])


def eager(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> torch.Tensor:
    if image.numel() == 0:
        return torch.empty_like(image, memory_format=torch.contiguous_format)
    (x, y), (rx, ry) = windows(kernel_size, sigma, image.dtype), (taps // 2 for taps in kernel_size)
    padded = torch.nn.functional.pad(_planes(image), (rx, rx, ry, ry), mode="reflect")
    rows = _convolve(padded, x, -1)
    if image.dtype == torch.uint8:
        sums = _convolve(rows.double(), y, -2)
        blurred = torch.floor((sums + 2 ** (2 * FIXED_BITS - 1)) / 2 ** (2 * FIXED_BITS))
    else:
        blurred = _convolve(rows, y, -2)
    return blurred.to(image.dtype).reshape(image.shape).contiguous()


def _fold(padded: torch.Tensor, radius: int, axis: int) -> torch.Tensor:
    """The adjoint of reflecting ``radius`` elements at both ends of ``axis``: each is added to the one it mirrors."""
    extent = padded.size(axis) - 2 * radius
    folded = padded.narrow(axis, radius, extent).clone()
    if radius:
        folded.narrow(axis, 1, radius).add_(padded.narrow(axis, 0, radius).flip(axis))
        folded.narrow(axis, extent - 1 - radius, radius).add_(padded.narrow(axis, extent + radius, radius).flip(axis))
    return folded


def backward_eager(grad_output: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> torch.Tensor:
    if grad_output.numel() == 0:
        return torch.empty_like(grad_output, memory_format=torch.contiguous_format)
    x, y = windows(kernel_size, sigma, grad_output.dtype)
    columns = _fold(_convolve(_planes(grad_output), y, -2, len(y) - 1), len(y) // 2, -2)
    rows = _fold(_convolve(columns, x, -1, len(x) - 1), len(x) // 2, -1)
    return rows.to(grad_output.dtype).reshape(grad_output.shape).contiguous()


def magnitude(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> torch.Tensor:
    return reference(image.abs(), kernel_size, sigma)


def backward_magnitude(grad_output: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> torch.Tensor:
    return backward_reference(grad_output.abs(), kernel_size, sigma)


def cost(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> Cost:
    """The FLOPs of two passes, a multiplication and an addition for each tap."""
    return Cost(bytes=2 * image.numel() * image.element_size(), flops=2 * sum(kernel_size) * image.numel())


def terms(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> int:
    return kernel_size[0] * kernel_size[1]


def backward_terms(grad_output: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> int:
    """A pixel and its reflection at either border contribute."""
    return 3 * terms(grad_output, kernel_size, sigma)


def _sizes(n: int, channels: int, height: int, width: int, kernel: int, **more: int) -> dict[str, int]:
    return {"n": n, "channels": channels, "height": height, "width": width, "kernel": kernel, **more}


# Few different windows, since k05 is compiled for each window and dtype.
CASES = (
    Case("tile", _sizes(1, 1, 32, 64, 3)),
    Case("batch", _sizes(2, 2, 12, 16, 3)),
    Case("ragged", _sizes(1, 1, 37, 69, 17, kernel_y=5)),
    Case("wide_window", _sizes(1, 1, 9, 27, 17, kernel_y=5)),
    Case("tall_window", _sizes(1, 1, 35, 8, 1, kernel_y=9)),
    Case("one_element", _sizes(1, 1, 1, 1, 1)),
    Case("empty", _sizes(0, 3, 8, 8, 3)),
    Case("huge", _sizes(1, 1, 9, 17, 3), values="huge"),
    Case("strided", _sizes(1, 2, 9, 11, 3), layout="strided"),
    Case("unaligned", _sizes(1, 1, 8, 16, 3), layout="unaligned"),
)
SIZES = (
    Case("batch", _sizes(8, 3, 4096, 4096, 9)),
    Case("image", _sizes(1, 3, 4096, 4096, 9)),
    Case("wide_window", _sizes(1, 3, 4096, 4096, 31)),
    Case("ragged", _sizes(8, 3, 2047, 2049, 5)),
)

SPEC = Spec(
    schema="gaussian_blur(Tensor image, int[2] kernel_size, float[2] sigma) -> Tensor",
    summary="Gaussian blur of images (C, H, W) or (N, C, H, W), borders reflected",
    inputs=inputs,
    check=check,
    outputs={"output": Output(like="image", terms=terms, magnitude=magnitude)},
    reference=reference,
    eager=eager,
    cost=cost,
    cases=CASES,
    sizes=SIZES,
    dtypes=DTYPES,
)

BACKWARD = Spec(
    schema="gaussian_blur_backward(Tensor grad_output, int[2] kernel_size, float[2] sigma) -> (Tensor grad_image)",
    summary="the adjoint of Gaussian blur: its gradient",
    inputs=backward_inputs,
    check=backward_check,
    outputs={"grad_image": Output(like="grad_output", terms=backward_terms, magnitude=backward_magnitude)},
    reference=backward_reference,
    eager=backward_eager,
    cost=cost,
    cases=CASES,
    sizes=SIZES,
    dtypes=FLOATS,
)
