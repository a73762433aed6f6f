"""Data of cudnn_patterns.py, and the inputs, float64 references and PyTorch's operations of each pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from benchmarks.cudnn_graphs import EPS, MOMENTUM, Sizes
from torch.nn import functional

aten: Any = torch.ops.aten
TOLERANCE = 2e-3  # two roundings to float16, at most 2^-11 each, and those of the statistics
ACROSS_LAYERS = ("normalise_relu_conv_statistics", "normalise_relu_wgrad", "dgrad_drelu_dbn")
AXES = [0, 2, 3]


def half(tensor: torch.Tensor) -> torch.Tensor:
    """float16 in NHWC order, with its strides also for one channel, by which conv2d chooses the order of its result."""
    made = torch.empty_like(tensor, dtype=torch.float16, memory_format=torch.channels_last)
    return made.copy_(tensor)


def plain(*tensors: torch.Tensor, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """The tensors in NCHW order."""
    return tuple(one.to(dtype).clone(memory_format=torch.contiguous_format) for one in tensors)


def vector(tensor: torch.Tensor) -> torch.Tensor:
    """(C,) as float32 (1, C, 1, 1)."""
    return tensor.float().view(1, -1, 1, 1)


class Data:
    """Tensors of a block at ``size``: values that float16 represents, and what its forward computes of them.

    x (N, C, H, W) is the input, w (K, C, 3, 3) the weight, gamma and beta (K,) those of the normalisation, dz the
    gradient of the pooled output. ``padded`` has the channels of the patterns' inputs; channels beyond C are 0.
    """

    def __init__(self, size: Sizes, padded: Sizes, device: torch.device) -> None:
        self.size, self.padded, self.is_padded = size, padded, size != padded
        n, c, h, w, k = size
        generator = torch.Generator(device).manual_seed(0)

        def drawn(*shape: int) -> torch.Tensor:
            return half(torch.randn(shape, device=device, generator=generator))

        def affine(channels: int) -> tuple[torch.Tensor, torch.Tensor]:
            draws = torch.randn(2, channels, device=device, generator=generator).half().float()
            return 1 + draws[0] / 8, draws[1] / 8

        self.x, self.w = drawn(n, c, h, w), half(drawn(k, c, 3, 3) / (9 * c) ** 0.5)
        self.gamma, self.beta = affine(k)
        self.dz, self.dy = half(drawn(n, k, h // 2, w // 2) / 8), half(drawn(n, k, h, w) / 8)
        self.input_gamma, self.input_beta = affine(padded.c)
        y = functional.conv2d(self.x.double(), self.w.double(), padding=1)
        self.mean, self.deviation = y.mean(AXES), (y.var(AXES, correction=0) + EPS).rsqrt()
        self.y = half(y)
        self.scale = self.gamma.double() * self.deviation
        self.shift = self.beta.double() - self.scale * self.mean
        self.padded_x, self.padded_w = (self._padded(one) for one in (self.x, self.w))
        self.needs_input = c >= 8

    def _padded(self, tensor: torch.Tensor) -> torch.Tensor:
        return half(functional.pad(tensor, (0, 0, 0, 0, 0, self.padded.c - self.size.c)))

    @property
    def count(self) -> int:
        """Elements of a channel."""
        return self.size.n * self.size.h * self.size.w

    @property
    def running_var(self) -> torch.Tensor:
        """The running variance, 1 before, after a step with the unbiased variance."""
        unbiased = (self.deviation**-2 - EPS) * self.count / (self.count - 1)
        return (1 - MOMENTUM) + MOMENTUM * unbiased

    @cached_property
    def running(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros_like(vector(self.gamma)), torch.ones_like(vector(self.gamma))


def norm_error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """|found - exact| / |exact|; not a number if ``found`` has one."""
    exact = exact.double()
    return float((found.double().reshape(exact.shape) - exact).norm() / exact.norm())


def normalised_backward(
    dy: torch.Tensor, y: torch.Tensor, mean: torch.Tensor, deviation: torch.Tensor, *affine: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """In float64: the masked gradient, those of y, gamma and beta; vectors are (C,)."""
    gamma, beta = (one.double().view(1, -1, 1, 1) for one in affine)
    rstd = deviation.double().view(1, -1, 1, 1)
    centred = (y.double() - mean.double().view(1, -1, 1, 1)) * rstd
    masked = dy.double() * (centred * gamma + beta > 0)
    sums, dots = masked.sum(AXES, keepdim=True), (masked * centred).sum(AXES, keepdim=True)
    count = y.numel() // y.shape[1]
    return masked, gamma * rstd * (masked - sums / count - centred * dots / count), dots.flatten(), sums.flatten()


@dataclass(frozen=True)
class PatternCase:
    """The inputs of a pattern, the errors of its results by name, and PyTorch's operations for the same results."""

    inputs: tuple[torch.Tensor, ...]
    errors: Callable[[Sequence[torch.Tensor]], dict[str, float]]
    torch: Callable[..., Any] | None = None
    torch_inputs: tuple[Any, ...] = ()


def _relu_of(y: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return torch.addcmul(shift, y, scale).relu_()


def _statistics_errors(exact: torch.Tensor, found: Sequence[torch.Tensor], count: int) -> dict[str, float]:
    """Of a convolution and the sums of its channels; that of the mean is relative to the root mean square."""
    y, sums, squares = found
    mean_square = exact.square().mean(AXES)
    mean = (sums.double().flatten() / count - exact.mean(AXES)).norm() / mean_square.sqrt().norm()
    return {
        "y": norm_error(y, exact), "mean": float(mean), "squares": norm_error(squares.flatten() / count, mean_square),
    }  # fmt: skip


def _conv_statistics(data: Data) -> PatternCase:
    exact = functional.conv2d(data.x.double(), data.w.double(), padding=1)

    def theirs(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = torch.conv2d(x, w, padding=1)
        return y, torch.batch_norm_stats(y, EPS)

    return PatternCase(
        (data.padded_x, data.padded_w),
        lambda found: _statistics_errors(exact, found, data.count),
        theirs,
        (data.x, data.w),
    )


def _affine_input(data: Data) -> tuple[torch.Tensor, ...]:
    """float16 scale and shift of the input's channels, and the float64 result of normalisation and relu."""
    scale, shift = half(vector(data.input_gamma)), half(vector(data.input_beta))
    return scale, shift, (data.padded_x.double() * scale.double() + shift.double()).relu()


def _normalise_relu_conv_statistics(data: Data) -> PatternCase:
    scale, shift, input = _affine_input(data)
    exact = functional.conv2d(input, data.padded_w.double(), padding=1)

    def theirs(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> Any:
        y = torch.conv2d(_relu_of(x, scale, shift), w, padding=1)
        return y, torch.batch_norm_stats(y, EPS)

    inputs = (data.padded_x, data.padded_w, scale, shift)
    return PatternCase(inputs, lambda found: _statistics_errors(exact, found, data.count), theirs, inputs)


def _normal(data: Data) -> torch.Tensor:
    """relu(batch_norm) of the stored y, in float64, with the exact statistics."""
    scale, shift = (one.view(1, -1, 1, 1) for one in (data.scale, data.shift))
    return (data.y.double() * scale + shift).relu()


def _normalise_relu(data: Data) -> PatternCase:
    exact = _normal(data)
    return PatternCase(
        (data.y, vector(data.scale), vector(data.shift)),
        lambda found: {"normal": norm_error(found[0], exact)},
        _relu_of,
        (data.y, half(vector(data.scale)), half(vector(data.shift))),
    )


def _normalise_pool(data: Data) -> PatternCase:
    exact = functional.max_pool2d(_normal(data), 2)
    return PatternCase(
        (data.y, vector(data.scale), vector(data.shift)),
        lambda found: {"pooled": norm_error(found[0], exact)},
        lambda *args: functional.max_pool2d(_relu_of(*args), 2),
        (data.y, half(vector(data.scale)), half(vector(data.shift))),
    )


def _batch_norm_relu(data: Data) -> PatternCase:
    exact = _normal(data)

    def errors(found: Sequence[torch.Tensor]) -> dict[str, float]:
        normal, mean, deviation, _, running_var = found
        return {
            "normal": norm_error(normal, exact),
            "mean": float(((mean.double().flatten() - data.mean) * data.deviation).abs().max()),
            "deviation": norm_error(deviation, data.deviation),
            "running": norm_error(running_var, data.running_var),
        }

    def theirs(y: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, *running: torch.Tensor) -> Any:
        return functional.batch_norm(y, *running, gamma, beta, True, MOMENTUM, EPS).relu_()

    affine = data.gamma, data.beta
    return PatternCase(
        (data.y, *map(vector, affine), *data.running),
        errors,
        theirs,
        (data.y, *affine, *(one.flatten().clone() for one in data.running)),  # which batch_norm updates
    )


def saved(data: Data) -> tuple[torch.Tensor, ...]:
    """Mean and 1 / standard deviation in float32."""
    return data.mean.float(), data.deviation.float()


def _relu_batch_norm_backward(data: Data) -> PatternCase:
    statistics, affine = saved(data), (data.gamma, data.beta)
    _, d, dgamma, dbeta = normalised_backward(data.dy, data.y, *statistics, *affine)

    def errors(found: Sequence[torch.Tensor]) -> dict[str, float]:
        names = ("d", "dgamma", "dbeta")
        return {name: norm_error(*pair) for name, *pair in zip(names, found, (d, dgamma, dbeta), strict=True)}

    normal, *reserved = forward_of_norm(data.y, *affine)
    theirs_inputs = (data.dy, normal.relu(), data.y, data.gamma, *reserved)
    inputs = (data.dy, data.y, *map(vector, (*statistics, *affine)))
    return PatternCase(inputs, errors, relu_norm_backward, theirs_inputs)


def forward_of_norm(y: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> tuple[Any, ...]:
    return tuple(aten._batch_norm_impl_index(y, gamma, beta, None, None, True, MOMENTUM, EPS, True))


def relu_norm_backward(
    dy: torch.Tensor, output: torch.Tensor, y: torch.Tensor, gamma: torch.Tensor, *reserved: Any
) -> tuple[torch.Tensor, ...]:
    """PyTorch's gradients of relu and batch normalisation."""
    mean, rstd, reserve, index = reserved
    dy = aten.threshold_backward(dy, output, 0)
    return tuple(
        aten._batch_norm_impl_index_backward(
            index, y, dy, gamma, None, None, mean, rstd, True, EPS, [True] * 3, reserve
        )
    )


def conv_backward(dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, needs: tuple[bool, bool]) -> tuple[Any, ...]:
    """dx and dw, None where ``needs`` is False."""
    mask = [*needs, False]
    return tuple(aten.convolution_backward(dy, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)[:2])


def _normalise_relu_wgrad(data: Data) -> PatternCase:
    scale, shift, input = _affine_input(data)
    exact = conv_backward(data.dy.double(), input, data.padded_w.double(), (False, True))[1]

    def theirs(x: torch.Tensor, dy: torch.Tensor, w: torch.Tensor, *affine: torch.Tensor) -> Any:
        return conv_backward(dy, _relu_of(x, *affine), w, (False, True))[1]

    return PatternCase(
        (data.padded_x, data.dy, scale, shift),
        lambda found: {"dw": norm_error(found[0], exact)},
        theirs,
        (data.padded_x, data.dy, data.padded_w, scale, shift),
    )


def _dgrad_drelu_dbn(data: Data) -> PatternCase:
    x, affine = data.padded_x, (data.input_gamma, data.input_beta)
    exact_x = x.double()
    statistics = exact_x.mean(AXES).float(), (exact_x.var(AXES, correction=0) + EPS).rsqrt().float()
    dgrad = conv_backward(data.dy.double(), exact_x, data.padded_w.double(), (True, False))[0]
    g, d, dgamma, dbeta = normalised_backward(dgrad, x, *statistics, *affine)

    def errors(found: Sequence[torch.Tensor]) -> dict[str, float]:
        masked, gamma, beta, a, b, c = (one.double() for one in found)
        return {
            "g": norm_error(masked, g), "dgamma": norm_error(gamma, dgamma), "dbeta": norm_error(beta, dbeta),
            "dx": norm_error(a * masked + b * exact_x + c, d),
        }  # fmt: skip

    normal = forward_of_norm(x, *affine)[0].relu()

    def theirs(dy: torch.Tensor, x: torch.Tensor, w: torch.Tensor, output: torch.Tensor, *rest: torch.Tensor) -> Any:
        dx = conv_backward(dy, x, w, (True, False))[0]
        dx = aten.threshold_backward(dx, output, 0)
        return dx, torch.batch_norm_backward_reduce(dx, x, *rest, True, True, True)

    return PatternCase(
        (data.dy, data.padded_w, x, *map(vector, (*statistics, *affine))),
        errors,
        theirs,
        (data.dy, x, data.padded_w, normal, *statistics, data.input_gamma),
    )


def _finalize(data: Data) -> PatternCase:
    exact = functional.conv2d(data.x.double(), data.w.double(), padding=1)
    sums, squares = exact.sum(AXES), exact.square().sum(AXES)

    def errors(found: Sequence[torch.Tensor]) -> dict[str, float]:
        scale, shift, mean, deviation, _, running_var = found
        return {
            "scale": norm_error(scale, data.scale), "shift": norm_error(shift, data.shift),
            "mean": float(((mean.double().flatten() - data.mean) * data.deviation).abs().max()),
            "deviation": norm_error(deviation, data.deviation), "running": norm_error(running_var, data.running_var),
        }  # fmt: skip

    return PatternCase((*map(vector, (sums, squares, data.gamma, data.beta)), *data.running), errors)


def pattern_case(name: str, data: Data) -> PatternCase:
    made: PatternCase = globals()[f"_{name}"](data)
    return made
