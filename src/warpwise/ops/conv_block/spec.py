"""The specifications of the fused block and of its backward."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from warpwise.arguments.layout import in_format
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, backward_spec, check_same, check_tensor, draw
from warpwise.ops._convolution import without_tf32
from warpwise.ops.batch_norm.spec import statistics_dtype
from warpwise.ops.conv2d.spec import result_format
from warpwise.ops.conv_block.magnitudes import Magnitudes

DTYPES = (torch.float32,)
STATISTICS = ("mean", "var", "convolved", "output")
Optional = torch.Tensor | None
Four = tuple[torch.Tensor, torch.Tensor, torch.Tensor, Optional]
AXES = [0, 2, 3]
MOMENTS = 10, 9  # the mean of a 3 x 3 patch, and the rows of its covariance


def check(
    input: torch.Tensor,
    weight: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
    moments: Optional = None,
) -> None:
    check_tensor("conv_block", "input", input, FLOATS, dims=(4,))
    check_tensor("conv_block", "weight", weight, FLOATS, dims=(4,))
    filters, channels = weight.shape[0], input.shape[1]
    if not channels:
        raise ValueError(f"conv_block: expected an input with channels, got shape {tuple(input.shape)}")
    if tuple(weight.shape[1:]) != (channels, 3, 3):
        raise ValueError(
            f"conv_block: expected weight of shape (K, {channels}, 3, 3) for an input of {channels} channels, "
            f"got {tuple(weight.shape)}"
        )
    if min(input.shape[2:]) < 2:
        raise ValueError(f"conv_block: expected images of at least 2 x 2 pixels, got {tuple(input.shape)}")
    for name, value in {"weight": weight, "gamma": gamma, "beta": beta}.items():
        check_tensor("conv_block", name, value, FLOATS)
        check_same("conv_block", ("input", name), input, value)
        if name != "weight" and tuple(value.shape) != (filters,):
            raise ValueError(f"conv_block: expected {name} of shape {(filters,)}, got {tuple(value.shape)}")
    if not eps >= 0:  # NaN too
        raise ValueError(f"conv_block: expected eps of at least 0, got {eps}")
    if moments is not None:
        check_tensor("conv_block", "moments", moments, (torch.float64,), dims=(2,))
        if tuple(moments.shape) != MOMENTS or channels != 1:
            raise ValueError(
                f"conv_block: expected moments of shape {MOMENTS} for an input of one channel, got "
                f"{tuple(moments.shape)} and {channels} channels"
            )


def check_backward(*args: Any) -> None:
    grads, forward, (mean, var, convolved) = args[:4], args[4:9], args[9:12]
    check(*forward, args[14])  # type: ignore[call-arg]
    input, weight = forward[:2]
    whole, pooled, channels = convolved_shape(input, weight), _pooled(input, weight), (weight.shape[0],)
    given = {
        "grad_output": (grads[0], pooled), "grad_mean": (grads[1], channels), "grad_var": (grads[2], channels),
        "grad_convolved": (grads[3], whole), "mean": (mean, channels), "var": (var, channels),
        "convolved": (convolved, whole),
    }  # fmt: skip
    if convolved is None and is_saved(input):
        raise ValueError("conv_block_backward: expected convolved for an input of several channels, got None")
    for name, (value, expected) in given.items():
        if value is not None and tuple(value.shape) != expected:
            raise ValueError(f"conv_block_backward: expected {name} of shape {expected}, got {tuple(value.shape)}")


def is_saved(input: torch.Tensor, *rest: Any) -> bool:
    """True if the forward saves the convolution: with one input channel it costs less to compute it again."""
    return input.shape[1] != 1


def convolved_shape(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[int, ...]:
    return (input.shape[0], weight.shape[0], *input.shape[2:])


def _pooled(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[int, ...]:
    return (input.shape[0], weight.shape[0], input.shape[2] // 2, input.shape[3] // 2)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``n`` images of c channels, h x w, and k filters."""
    n, c, h, w, k = (case.sizes[name] for name in "nchwk")
    input = draw((n, c, h, w), dtype, device, 5 * seed, case.values, 10)
    return {
        "moments": moments_of(input) if case.attributes.get("known") else None,
        "input": input,
        "weight": draw((k, c, 3, 3), dtype, device, 5 * seed + 1, case.values, 10),
        "gamma": draw((k,), dtype, device, 5 * seed + 3),
        "beta": draw((k,), dtype, device, 5 * seed + 4),
    }


def moments_of(input: torch.Tensor) -> torch.Tensor:
    """Mean and covariance, (10, 9) in float64, of the 3 x 3 patches of images of one channel."""
    if input.is_meta:
        return input.new_empty(MOMENTS, dtype=torch.float64)
    patches = functional.unfold(input.double(), 3, padding=1).transpose(1, 2).reshape(-1, 9)
    mean = patches.mean(0)
    centred = patches - mean
    return torch.cat([mean.unsqueeze(0), centred.t() @ centred / len(patches)])


def wide(channel: torch.Tensor) -> torch.Tensor:
    return channel.view(1, -1, 1, 1)


def computed(
    input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    convolved = functional.conv2d(input, weight, padding=1)
    mean = convolved.mean(AXES)
    centred = convolved - wide(mean)
    var = centred.square().mean(AXES)
    scale = (var + eps).rsqrt() * gamma if convolved.numel() else gamma  # the variance of no elements is NaN
    normal = centred * wide(scale) + wide(beta)
    return _reduced(normal), mean, var, convolved


def _reduced(normal: torch.Tensor) -> torch.Tensor:
    """relu and max pooling."""
    if not normal.numel():
        n, k, h, w = normal.shape
        return normal.sum() + normal.new_zeros((n, k, h // 2, w // 2))
    return functional.max_pool2d(functional.relu(normal), 2)


def reference(*args: Any) -> Four:
    input, weight, gamma, beta, eps, _ = args
    *found, convolved = computed(input.double(), weight.double(), gamma.double(), beta.double(), eps)
    return found[0], found[1], found[2], convolved if is_saved(input) else None


def _eager(input: torch.Tensor, weight: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, eps: float) -> Four:
    if input.dtype == torch.float64 or not input.numel():  # as in batch_norm
        output, mean, var, convolved = computed(input, weight, gamma, beta, eps)
        mean, var = (value.to(statistics_dtype(input)) for value in (mean, var))
        return output.contiguous(), mean, var, convolved.contiguous() if is_saved(input) else None
    convolved = functional.conv2d(input, weight, padding=1).contiguous()
    var, mean = torch.var_mean(convolved.to(statistics_dtype(convolved)), AXES, correction=0)
    normal = torch.batch_norm(convolved, gamma, beta, None, None, True, 0.0, eps, torch.backends.cudnn.enabled)
    return _reduced(normal).contiguous(), mean, var, convolved if is_saved(input) else None


def eager(*args: Any) -> Four:
    """PyTorch's operations one after the other, never in TF32."""
    return without_tf32(_eager, args[0], *args[:5])


def _eager_backward(*args: Any) -> Any:
    dy, dmean, dvar, dconv, input, weight, gamma, beta, eps, _, _, _, needs_input, *_ = args
    y = functional.conv2d(input, weight, padding=1)
    count = max(1, y.numel() // max(1, y.shape[1]))
    centred = y - wide(y.mean(AXES))
    rstd = (centred.square().mean(AXES) + eps).rsqrt()
    h = centred * wide(rstd)
    g = torch.zeros_like(y)
    if dy is not None and y.numel():
        values, at = functional.max_pool2d(functional.relu(h * wide(gamma) + wide(beta)), 2, return_indices=True)
        chosen = (dy * (values > 0)).flatten(2)
        g = g.flatten(2).scatter(2, at.flatten(2), chosen).view_as(y)
    sums, dots = g.sum(AXES), (g * h).sum(AXES)
    d = wide(rstd * gamma) * (g - wide(sums) / count - h * wide(dots) / count)
    d = d if dmean is None else d + wide(dmean) / count
    d = d if dvar is None else d + wide(dvar) * centred * (2 / count)
    d = (d if dconv is None else d + dconv).to(input.dtype)  # the gradients of 16-bit statistics are float32
    dx, dw, _ = torch.ops.aten.convolution_backward(
        d, input, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [needs_input, True, False]
    )
    format = result_format(input, weight)
    dx = in_format(dx, format) if needs_input else None
    return dx, in_format(dw, format), dots, sums


def eager_backward(*args: Any) -> Any:
    """The gradients by differentiable operations, never in TF32; the convolution is computed again for autograd."""
    return without_tf32(_eager_backward, args[4], *args)


def cost(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> Cost:
    """Input and filters are read, the convolution, if it is saved, is written and read, a quarter of it is written."""
    n, k, h, w = convolved_shape(input, weight)
    outputs = n * k * h * w
    bytes = input.nbytes + weight.nbytes + outputs * input.element_size() * (9 if is_saved(input) else 1) // 4
    return Cost(bytes=bytes, flops=2 * outputs * weight[0].numel() + 10 * outputs)


def cost_backward(*args: Any) -> Cost:
    """The convolution is read once, the pooled gradient twice, the output once; the convolution's gradient is written,
    and read for each gradient computed from it.

    Without either, for one input channel whose gradient is not needed, the pooled gradient and the input are read.
    """
    input, weight, needs_input = args[4], args[5], args[12]
    n, k, h, w = convolved_shape(input, weight)
    outputs = n * k * h * w
    if not needs_input and not is_saved(input):
        return Cost(bytes=input.nbytes + outputs * input.element_size() // 4, flops=25 * outputs)
    passes = 2 if needs_input else 1
    bytes = input.nbytes * passes + outputs * input.element_size() * (11 + 4 * passes) // 4
    return Cost(bytes=bytes, flops=2 * passes * outputs * weight[0].numel() + 20 * outputs)


def _case(name: str, sizes: tuple[int, ...], attributes: dict[str, Any] | None = None, **more: Any) -> Case:
    return Case(name, dict(zip("nchwk", sizes, strict=True)), attributes or {}, **more)


def elements(input: torch.Tensor, *rest: Any) -> int:
    """Elements of a channel."""
    return input.shape[0] * input.shape[2] * input.shape[3]


def terms(input: torch.Tensor, *rest: Any) -> int:
    return elements(input) + 9 * input.shape[1] + 4


SPEC = Spec(
    schema="conv_block(Tensor input, Tensor weight, Tensor gamma, Tensor beta, float eps=1e-5, Tensor? moments=None)"
    " -> (Tensor output, Tensor mean, Tensor var, Tensor convolved)",
    summary="convolution 3 x 3, batch normalisation, relu and max pooling by 2",
    inputs=inputs,
    check=check,
    outputs={
        "output": Output(shape=_pooled, terms=terms, magnitude=lambda *args: Magnitudes(*args[:5]).output()),
        "mean": Output(
            shape=lambda x, w, *rest: w.shape[:1],
            dtype=statistics_dtype,
            terms=terms,
            magnitude=lambda *args: Magnitudes(*args[:5]).mean(),
        ),
        "var": Output(
            shape=lambda x, w, *rest: w.shape[:1],
            dtype=statistics_dtype,
            terms=terms,
            magnitude=lambda *args: Magnitudes(*args[:5]).var(),
        ),
        "convolved": Output(
            shape=convolved_shape,
            saved=True,
            present=is_saved,
            terms=lambda x, *rest: 9 * x.shape[1] + 1,
            magnitude=lambda *args: Magnitudes(*args[:5]).convolved,
        ),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    vendor="cuDNN",
    cases=(
        _case("small", (2, 1, 2, 6, 2)),
        _case("ragged", (2, 3, 11, 9, 19)),
        _case("digits", (2, 1, 14, 14, 16)),
        _case("digits_ragged", (3, 1, 11, 9, 19)),
        _case("known_moments", (3, 1, 12, 8, 5), {"known": True}),
        _case("many_filters", (1, 2, 4, 5, 40)),
        _case("many_channels", (2, 21, 7, 10, 18)),
        _case("one_element", (1, 1, 2, 2, 1)),
        _case("empty", (0, 2, 4, 4, 2)),
        _case("empty_digits", (0, 1, 4, 4, 2)),
        _case("huge", (2, 2, 4, 4, 2), values="huge"),
        _case("strided", (2, 2, 5, 6, 3), layout="strided"),
        _case("unaligned", (2, 2, 4, 6, 3), layout="unaligned"),
    ),
    sizes=(
        _case("first_block", (128, 1, 28, 28, 16)),
        _case("first_block_2048", (2048, 1, 28, 28, 16)),
        _case("second_block", (128, 16, 14, 14, 32)),
        _case("second_block_2048", (2048, 16, 14, 14, 32)),
        _case("ragged", (300, 3, 33, 31, 65)),
    ),
    dtypes=DTYPES,
    exempt={"one element": "a window of the pooling has four pixels"},
)
BACKWARD = backward_spec(
    SPEC,
    "conv_block_backward(Tensor? grad_output, Tensor? grad_mean, Tensor? grad_var, Tensor? grad_convolved,"
    " Tensor input, Tensor weight, Tensor gamma, Tensor beta, float eps, Tensor mean, Tensor var,"
    " Tensor? convolved, bool needs_input=True, Tensor? output=None, Tensor? moments=None)"
    " -> (Tensor grad_input, Tensor grad_weight, Tensor grad_gamma, Tensor grad_beta)",
    outputs={
        "grad_input": Output(
            like="input",
            memory_format=lambda *args: result_format(*args[4:6]),
            present=lambda *args: args[12],
            terms=lambda *args: terms(args[4]) + 9 * args[5].shape[0],
            magnitude=lambda *args: Magnitudes(*args[4:9]).gradients(*args[:4])[0],
        ),
        "grad_weight": Output(
            like="weight",
            memory_format=lambda *args: result_format(*args[4:6]),
            terms=lambda *args: terms(args[4]),
            magnitude=lambda *args: Magnitudes(*args[4:9]).gradients(*args[:4])[1],
        ),
        "grad_gamma": Output(
            like="gamma",
            terms=lambda *args: terms(args[4]),
            magnitude=lambda *args: Magnitudes(*args[4:9]).gradients(*args[:4])[2],
        ),
        "grad_beta": Output(
            like="beta",
            terms=lambda *args: terms(args[4]),
            magnitude=lambda *args: Magnitudes(*args[4:9]).gradients(*args[:4])[3],
        ),
    },
    check=check_backward,
    eager=eager_backward,
    cost=cost_backward,
    dtype_from="input",
    cases=(
        *SPEC.cases,
        *(
            _case(name, sizes, {"needs_input": False}, layout=layout)
            for name, sizes, layout in (
                ("weights_only", (2, 2, 4, 6, 3), "contiguous"),
                ("weights_only_small", (2, 1, 2, 6, 2), "contiguous"),
                ("weights_only_digits", (3, 1, 14, 14, 16), "contiguous"),
                ("weights_only_ragged", (3, 1, 11, 9, 19), "strided"),
                ("weights_only_empty", (0, 1, 4, 4, 2), "contiguous"),
            )
        ),
        _case("weights_only_known", (3, 1, 12, 8, 5), {"needs_input": False, "known": True}),
    ),
    sizes=(
        _case("first_block", (128, 1, 28, 28, 16), {"needs_input": False}),
        *SPEC.sizes[2:],
    ),
)
