"""The specification of the loss after two linear layers with relu between them, and its gradients."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.gemm.precision import without_tf32
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same, check_tensor, draw
from warpwise.ops.linear_cross_entropy import spec as last
from warpwise.ops.linear_cross_entropy.spec import DTYPES, Optional

NAME = "mlp_cross_entropy_gradients"
Results = tuple[torch.Tensor, Optional, torch.Tensor, torch.Tensor, torch.Tensor, Optional]


def check(
    input: torch.Tensor,
    hidden: torch.Tensor,
    hidden_weight: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
    needs_input: bool,
    settled: bool,
) -> None:
    last.check(hidden, linear_weight, target, linear_bias, ignore_index)
    check_tensor(NAME, "input", input, FLOATS, dims=(2,))
    check_tensor(NAME, "hidden_weight", hidden_weight, FLOATS, dims=(2,))
    check_same(NAME, ("hidden", "input"), hidden, input)
    check_same(NAME, ("hidden", "hidden_weight"), hidden, hidden_weight)
    (rows, units), features = hidden.shape, input.shape[1]
    if len(input) != rows:
        raise ValueError(
            f"{NAME}: expected input ({rows}, K) for hidden {tuple(hidden.shape)}, got {tuple(input.shape)}"
        )
    if hidden_weight.shape != (units, features):
        raise ValueError(f"{NAME}: expected hidden_weight ({units}, {features}), got {tuple(hidden_weight.shape)}")


def _computed(
    input: torch.Tensor,
    hidden: torch.Tensor,
    hidden_weight: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
    needs_input: bool,
    settled: bool,
) -> Results:
    logits = torch.nn.functional.linear(hidden, linear_weight, linear_bias)
    loss = torch.nn.functional.cross_entropy(logits, target, ignore_index=ignore_index)
    kept = target != ignore_index
    p = torch.softmax(logits, 1)
    d = torch.where(kept.unsqueeze(1), (p - last.one_hot(target, p)) / kept.sum(), 0)
    of_hidden = torch.where(hidden > 0, d @ linear_weight, 0)
    return (
        loss,
        of_hidden @ hidden_weight if needs_input else None,
        (of_hidden.t() @ input).contiguous(),
        of_hidden.sum(0),
        (d.t() @ hidden).contiguous(),
        None if linear_bias is None else d.sum(0),
    )


def eager(*args: Any) -> Results:
    """PyTorch's operations, never in TF32."""
    return without_tf32(_computed, *args)


def reference(*args: Any) -> Results:
    return _computed(*map(_double, args))


def _double(value: Any) -> Any:
    return value.double() if isinstance(value, torch.Tensor) and value.dtype in FLOATS else value


def _magnitudes(*args: Any) -> list[torch.Tensor]:
    """The loss and the gradients with absolute values in place of all factors and differences."""
    input, hidden, w1, w2, target, bias, ignore_index, *_ = map(_double, args)
    given = hidden, w2, target, bias, ignore_index
    p, kept = last.probability_magnitude(*given), target != ignore_index
    d = torch.where(kept.unsqueeze(1), (p + last.one_hot(target, p)) / kept.sum(), 0)
    of_hidden = torch.where(hidden > 0, d @ w2.abs(), 0)
    return [
        last.magnitude(*given), of_hidden @ w1.abs(), of_hidden.t() @ input.abs(), of_hidden.sum(0),
        d.t() @ hidden.abs(), d.sum(0),
    ]  # fmt: skip


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``n`` rows of ``k`` features, and ``units``; attributes as those of linear_cross_entropy."""
    n, k, units = (case.sizes[name] for name in ("n", "k", "units"))
    sizes = {"n": n, "k": units, "classes": case.sizes["classes"]}
    rest = last.inputs(Case(case.name, sizes, case.attributes, case.values), dtype, device, seed)
    return {
        "input": draw((n, k), dtype, device, 7 * seed + 3, case.values, 4),
        "hidden": rest["input"].relu(),
        "hidden_weight": draw((units, k), dtype, device, 7 * seed + 4, case.values, 4),
        **{name: rest[name] for name in ("linear_weight", "target", "linear_bias")},
    }


def terms(input: torch.Tensor, hidden: torch.Tensor, hidden_weight: Any, weight: torch.Tensor, *rest: Any) -> int:
    return sum(input.shape) + 2 * hidden.shape[1] + 2 * len(weight) + 8


def cost(input: torch.Tensor, hidden: torch.Tensor, hidden_weight: torch.Tensor, *rest: Any) -> Cost:
    """Operands are read and gradients written; two FLOPs for each product of the two with the first weight."""
    return Cost(bytes=2 * input.nbytes + 2 * hidden_weight.nbytes, flops=4 * len(input) * hidden_weight.numel())


def _case(name: str, sizes: tuple[int, int, int, int], attributes: dict[str, Any] | None = None, **more: Any) -> Case:
    return Case(name, dict(zip(("n", "k", "units", "classes"), sizes, strict=True)), attributes or {}, **more)


def _output(at: int, **more: Any) -> Output:
    return Output(terms=terms, magnitude=lambda *args: _magnitudes(*args)[at], **more)


SPEC = Spec(
    schema=f"{NAME}(Tensor input, Tensor hidden, Tensor hidden_weight, Tensor linear_weight, Tensor target,"
    " Tensor? linear_bias=None, int ignore_index=-100, bool needs_input=True, bool settled=False)"
    " -> (Tensor loss, Tensor grad_input, Tensor grad_hidden_weight, Tensor grad_hidden_bias,"
    " Tensor grad_linear_weight, Tensor grad_linear_bias)",
    summary="the mean cross-entropy of the last linear layer after a hidden one with relu, and the gradients of both",
    inputs=inputs,
    check=check,
    outputs={
        "loss": _output(0, shape=lambda *args: ()),
        "grad_input": _output(1, like="input", present=lambda *args: args[7]),
        "grad_hidden_weight": _output(2, like="hidden_weight"),
        "grad_hidden_bias": _output(3, shape=lambda x, h, *rest: (h.shape[1],)),
        "grad_linear_weight": _output(4, like="linear_weight"),
        "grad_linear_bias": _output(
            5, shape=lambda x, h, w, v, *rest: (len(v),), present=lambda *args: args[5] is not None
        ),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    autocast="float32",
    vendor="cuBLAS",
    cases=(
        _case("ragged", (13, 36, 20, 10)),
        _case("several_tiles", (37, 132, 36, 3)),
        _case("wide", (9, 68, 200, 16)),
        _case("few_features", (10, 12, 8, 5), {"biased": False}),
        _case("ignored", (20, 64, 32, 6), {"ignored": True}),
        _case("weights_only", (17, 40, 24, 5), {"needs_input": False}),
        _case("settled", (70, 48, 40, 10), {"settled": True}),
        _case("one_row", (1, 4, 4, 1)),
        _case("one_element", (1, 1, 1, 1)),
        _case("huge", (9, 20, 12, 7), values="huge"),
        _case("strided", (6, 16, 8, 5), layout="strided"),
        _case("unaligned", (6, 16, 8, 5), layout="unaligned"),
        _case("odd_features", (6, 15, 7, 5)),
        _case("empty", (0, 8, 5, 3)),
    ),
    sizes=(_case("step", (128, 1568, 128, 10)), _case("mlp", (128, 784, 256, 10))),
    dtypes=DTYPES,
)
