"""The specification of the end of a network, from the convolution of its last block on, and of its gradients."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from warpwise.gemm.precision import without_tf32
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, cdiv, check_same, check_tensor, draw
from warpwise.ops.cross_entropy.spec import mean_loss
from warpwise.ops.linear_cross_entropy import spec as last
from warpwise.ops.linear_cross_entropy.spec import DTYPES, Optional

NAME = "block_cross_entropy_gradients"
ROWS = 16  # images of a part of the sums of channels
Arguments = tuple[Any, ...]


class Results(NamedTuple):
    """The outputs of the schema."""

    loss: torch.Tensor
    output: torch.Tensor
    mean: torch.Tensor
    var: torch.Tensor
    grad_output: torch.Tensor
    channel_sums: torch.Tensor
    grad_hidden_weight: torch.Tensor
    grad_hidden_bias: torch.Tensor
    grad_linear_weight: torch.Tensor
    grad_linear_bias: Optional


def pooled_shape(convolved: torch.Tensor, *rest: Any) -> tuple[int, ...]:
    n, k, h, w = convolved.shape
    return n, k, h // 2, w // 2


def check(
    convolved: torch.Tensor,
    statistics: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
    hidden_weight: torch.Tensor,
    hidden_bias: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
) -> None:
    check_tensor(NAME, "convolved", convolved, FLOATS, dims=(4,))
    n, k, h, w = pooled_shape(convolved)
    units, features = len(hidden_weight), k * h * w
    for name, value, shape in (
        ("statistics", statistics, (k, statistics.shape[-2] if statistics.dim() > 1 else 0, 3)),
        ("gamma", gamma, (k,)),
        ("beta", beta, (k,)),
        ("hidden_weight", hidden_weight, (units, features)),
        ("hidden_bias", hidden_bias, (units,)),
    ):
        check_tensor(NAME, name, value, FLOATS)
        check_same(NAME, ("convolved", name), convolved, value)
        if tuple(value.shape) != shape:
            raise ValueError(f"{NAME}: expected {name} of shape {shape}, got {tuple(value.shape)}")
    last.check(convolved.new_empty((n, units)), linear_weight, target, linear_bias, ignore_index)


def _computed(
    convolved: torch.Tensor,
    statistics: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
    hidden_weight: torch.Tensor,
    hidden_bias: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
) -> Results:
    sums, squares, counts = statistics.unbind(2)
    mean = sums.sum(1) / counts.sum(1)
    distances = sums / counts.clamp_min(1) - mean[:, None]
    var = (squares + counts * distances * distances).sum(1) / counts.sum(1)
    of_channel = (1, -1, 1, 1)
    normal = (convolved - mean.view(of_channel)) * (var + eps).rsqrt().view(of_channel)
    values = torch.relu(normal * gamma.view(of_channel) + beta.view(of_channel))
    output, at = torch.nn.functional.max_pool2d(values, 2, return_indices=True)
    chosen = normal.flatten(2).gather(2, at.flatten(2)).view(output.shape)

    x = output.flatten(1)
    hidden = torch.relu(torch.nn.functional.linear(x, hidden_weight, hidden_bias))
    logits = torch.nn.functional.linear(hidden, linear_weight, linear_bias)
    loss = mean_loss(NAME, logits, target, ignore_index)
    kept = target != ignore_index
    p = torch.softmax(logits, 1)
    d = torch.where(kept.unsqueeze(1), (p - last.one_hot(target, p)) / kept.sum(), 0)
    of_hidden = torch.where(hidden > 0, d @ linear_weight, 0)
    grad_output = (of_hidden @ hidden_weight).view(output.shape)
    g = torch.where(output > 0, grad_output, 0)
    return Results(
        loss, output, mean, var, grad_output, _parts(g, g * chosen),
        (of_hidden.t() @ x).contiguous(), of_hidden.sum(0), (d.t() @ hidden).contiguous(),
        None if linear_bias is None else d.sum(0),
    )  # fmt: skip


def _parts(*values: torch.Tensor) -> torch.Tensor:
    """The sums (k, parts, len(values)) of values (n, k, h, w) over windows and ROWS images each."""
    found = []
    for value in values:
        n, k = value.shape[:2]
        padded = torch.nn.functional.pad(value.flatten(2).sum(2), (0, 0, 0, -n % ROWS))
        found.append(padded.view(-1, ROWS, k).sum(1).t())
    return torch.stack(found, 2).contiguous()


def eager(*args: Any) -> Results:
    """PyTorch's operations, never in TF32."""
    return Results(*without_tf32(_computed, *args))


def reference(*args: Any) -> Results:
    return _computed(*map(_double, args))


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.dtype in FLOATS else value


def _magnitudes(*args: Any) -> Results:
    """The results with absolute values in place of all factors and differences."""
    convolved, statistics, gamma, beta, eps, w1, b1, w2, target, b2, ignore_index = map(_double, args)
    _, output, mean, var, *_ = reference(*args)
    of_channel = (1, -1, 1, 1)
    rstd = (var + eps).rsqrt().view(of_channel)
    normal = (convolved.abs() + mean.abs().view(of_channel)) * rstd
    top = torch.nn.functional.max_pool2d(normal, 2)
    x = (top * gamma.abs().view(of_channel) + beta.abs().view(of_channel)).flatten(1)
    exact = torch.relu(torch.nn.functional.linear(output.flatten(1), w1, b1))
    hidden = torch.nn.functional.linear(x, w1.abs(), b1.abs())
    given = exact, w2, target, b2, ignore_index
    size = torch.nn.functional.linear(hidden, w2.abs(), None if b2 is None else b2.abs()).amax(1, keepdim=True)
    p, kept = last.reference(*given)[1] * (1 + 2 * size), target != ignore_index
    d = torch.where(kept.unsqueeze(1), (p + last.one_hot(target, p)) / kept.sum(), 0)
    of_hidden = d @ w2.abs()
    grad_output = (of_hidden @ w1.abs()).view(output.shape)
    return Results(
        last.magnitude(*given) + 2 * size.mean(), x.view(output.shape), statistics[..., 0].abs().sum(1),
        (statistics[..., 1] + statistics[..., 0] ** 2 / statistics[..., 2].clamp_min(1)).sum(1), grad_output,
        _parts(grad_output, grad_output * top), of_hidden.t() @ x, of_hidden.sum(0), d.t() @ hidden, d.sum(0),
    )  # fmt: skip


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``n`` images of k channels, h x w, and ``units``; attributes as those of linear_cross_entropy.

    With the attribute ``small`` a third of the elements of gamma are small relative to those of beta.
    """
    n, k, h, w, units = (case.sizes[name] for name in ("n", "k", "h", "w", "units"))
    convolved = draw((n, k, h, w), dtype, device, 7 * seed + 3, case.values, 4)
    beta = draw((k,), dtype, device, 7 * seed + 6)
    gamma = draw((k,), dtype, device, 7 * seed + 5)
    gamma = torch.where(gamma < 0, gamma - beta.abs() / 3, gamma + beta.abs() / 3)
    if case.attributes.get("small"):
        gamma[::3] *= 0.01
    rest = last.inputs(
        Case(case.name, {"n": n, "k": units, "classes": case.sizes["classes"]}, case.attributes, case.values),
        dtype, device, seed,
    )  # fmt: skip
    features = k * (h // 2) * (w // 2)
    return {
        "convolved": convolved,
        "statistics": statistics_of(convolved),
        "gamma": gamma,
        "beta": beta,
        "hidden_weight": draw((units, features), dtype, device, 7 * seed + 4) / max(1, features) ** 0.5,
        "hidden_bias": draw((units,), dtype, device, 7 * seed + 1),
        **{name: rest[name] for name in ("linear_weight", "target", "linear_bias")},
    }


def statistics_of(convolved: torch.Tensor) -> torch.Tensor:
    """(K, N, 3): the sum, the squared distances from the mean, and the number of the pixels of each image."""
    pixels = convolved.flatten(2).double()
    count = torch.full(pixels.shape[:2], float(pixels.shape[2]), dtype=torch.float64, device=pixels.device)
    squares = ((pixels - pixels.mean(2, keepdim=True)) ** 2).sum(2)
    return torch.stack([pixels.sum(2), squares, count], 2).transpose(0, 1).contiguous().to(convolved.dtype)


def terms(convolved: torch.Tensor, *rest: Any) -> int:
    weight = rest[4]
    return 2 * sum(weight.shape) + len(convolved) + convolved[0, 0].numel() + 40 if len(convolved) else 1


def cost(convolved: torch.Tensor, *rest: Any) -> Cost:
    """Operands are read, the pooled images and gradients written; two FLOPs for each of three products."""
    weight = rest[4]
    return Cost(bytes=3 * convolved.nbytes // 2 + 2 * weight.nbytes, flops=6 * len(convolved) * weight.numel())


def _case(name: str, sizes: tuple[int, ...], attributes: dict[str, Any] | None = None, **more: Any) -> Case:
    names = ("n", "k", "h", "w", "units", "classes")
    return Case(name, dict(zip(names, sizes, strict=True)), {"eps": 1e-5, **(attributes or {})}, **more)


def _output(name: str, **more: Any) -> Output:
    return Output(terms=terms, magnitude=lambda *args: getattr(_magnitudes(*args), name), **more)


SPEC = Spec(
    schema=f"{NAME}(Tensor convolved, Tensor statistics, Tensor gamma, Tensor beta, float eps, Tensor hidden_weight,"
    " Tensor hidden_bias, Tensor linear_weight, Tensor target, Tensor? linear_bias=None, int ignore_index=-100)"
    " -> (Tensor loss, Tensor output, Tensor mean, Tensor var, Tensor grad_output, Tensor channel_sums,"
    " Tensor grad_hidden_weight, Tensor grad_hidden_bias, Tensor grad_linear_weight, Tensor grad_linear_bias)",
    summary="the end of a block, a hidden layer, the last layer, the mean cross-entropy, and their gradients",
    inputs=inputs,
    check=check,
    outputs={
        "loss": _output("loss", shape=lambda *args: ()),
        "output": _output("output", shape=pooled_shape),
        "mean": _output("mean", like="gamma"),
        "var": _output("var", like="gamma"),
        "grad_output": _output("grad_output", shape=pooled_shape),
        "channel_sums": _output("channel_sums", shape=lambda x, *rest: (x.shape[1], cdiv(len(x), ROWS), 2)),
        "grad_hidden_weight": _output("grad_hidden_weight", like="hidden_weight"),
        "grad_hidden_bias": _output("grad_hidden_bias", like="hidden_bias"),
        "grad_linear_weight": _output("grad_linear_weight", like="linear_weight"),
        "grad_linear_bias": _output(
            "grad_linear_bias", shape=lambda *args: (len(args[7]),), present=lambda *args: args[9] is not None
        ),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    autocast="float32",
    vendor="cuBLAS",
    cases=(
        _case("ragged", (19, 5, 6, 8, 36, 10), {"small": True}),
        _case("digits", (17, 4, 14, 14, 128, 10)),
        _case("large_plane", (5, 3, 20, 24, 12, 16), {"small": True}),
        _case("odd_sides", (3, 4, 7, 9, 8, 3), {"small": True}),
        _case("ignored", (20, 2, 4, 4, 32, 6), {"ignored": True}),
        _case("no_bias", (9, 3, 4, 8, 20, 5), {"biased": False}),
        _case("one_row", (1, 1, 4, 4, 4, 1)),
        _case("unaligned", (6, 4, 4, 4, 8, 5), layout="unaligned"),
        _case("strided", (6, 4, 6, 4, 8, 5), layout="strided"),
        _case("huge", (9, 4, 4, 6, 12, 7), values="huge"),
    ),
    exempt={"empty": "there is no mean of no pixels", "one element": "a window has four pixels"},
    sizes=(_case("step", (128, 32, 14, 14, 128, 10)),),
    dtypes=DTYPES,
)
