"""The specification of two linear layers with relu between them, the loss, and its gradients."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from warpwise.gemm.precision import without_tf32
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same, check_tensor, draw
from warpwise.ops.linear_cross_entropy import spec as last
from warpwise.ops.linear_cross_entropy.spec import DTYPES, Optional

NAME = "mlp_cross_entropy_gradients"
Results = tuple[torch.Tensor, Optional, torch.Tensor, Optional, torch.Tensor, Optional]


def check(
    input: torch.Tensor,
    hidden_weight: torch.Tensor,
    hidden_bias: Optional,
    linear_weight: torch.Tensor,
    linear_bias: Optional,
    target: torch.Tensor,
    ignore_index: int,
    needs_input: bool,
    settled: bool,
) -> None:
    check_tensor(NAME, "input", input, FLOATS, dims=(2,))
    check_tensor(NAME, "hidden_weight", hidden_weight, FLOATS, dims=(2,))
    check_same(NAME, ("input", "hidden_weight"), input, hidden_weight)
    units, features = hidden_weight.shape
    if features != input.shape[1]:
        raise ValueError(
            f"{NAME}: expected hidden_weight (H, {input.shape[1]}) for input {tuple(input.shape)}, "
            f"got {tuple(hidden_weight.shape)}"
        )
    if hidden_bias is not None:
        check_tensor(NAME, "hidden_bias", hidden_bias, FLOATS, dims=(1,))
        check_same(NAME, ("input", "hidden_bias"), input, hidden_bias)
        if len(hidden_bias) != units:
            raise ValueError(f"{NAME}: expected hidden_bias of shape ({units},), got {tuple(hidden_bias.shape)}")
    last.check(input.new_empty(len(input), units), linear_weight, target, linear_bias, ignore_index)


def _computed(
    input: torch.Tensor,
    hidden_weight: torch.Tensor,
    hidden_bias: Optional,
    linear_weight: torch.Tensor,
    linear_bias: Optional,
    target: torch.Tensor,
    ignore_index: int,
    needs_input: bool,
    settled: bool,
) -> Results:
    hidden = functional.linear(input, hidden_weight, hidden_bias).relu()
    logits = functional.linear(hidden, linear_weight, linear_bias)
    loss = functional.cross_entropy(logits, target, ignore_index=ignore_index)
    kept = target != ignore_index
    p = torch.softmax(logits, 1)
    d = torch.where(kept.unsqueeze(1), (p - last.one_hot(target, p)) / kept.sum(), 0)
    of_hidden = (d @ linear_weight) * (hidden > 0)
    return (
        loss,
        of_hidden @ hidden_weight if needs_input else None,
        (of_hidden.t() @ input).contiguous(),
        None if hidden_bias is None else of_hidden.sum(0),
        (d.t() @ hidden).contiguous(),
        None if linear_bias is None else d.sum(0),
    )


def eager(*args: Any) -> Results:
    """PyTorch's operations, never in TF32."""
    return without_tf32(_computed, *args)


def reference(*args: Any) -> Results:
    def doubled(value: Any) -> Any:
        return value.double() if isinstance(value, torch.Tensor) and value.dtype in FLOATS else value

    return _computed(*map(doubled, args))


def _magnitudes(*args: Any) -> list[torch.Tensor]:
    """The loss and the gradients with absolute values in place of all factors and differences.

    A unit whose argument rounding may move across 0 counts as positive. The error of the softmax contains that of the
    hidden units.
    """
    input, w1, b1, w2, b2, target, ignore_index, *_ = (
        value.double().abs() if isinstance(value, torch.Tensor) and value.dtype in FLOATS else value for value in args
    )
    hidden = functional.linear(input, w1, b1)
    logits = functional.linear(hidden, w2, b2)
    most = logits.amax(1, keepdim=True) if len(input) else logits
    p = torch.softmax(functional.linear(_hidden(*args[:3]), args[3].double(), _double(args[4])), 1) * (1 + 2 * most)
    kept = target != ignore_index
    d = torch.where(kept.unsqueeze(1), (p + last.one_hot(target, p)) / kept.sum(), 0)
    of_hidden = d @ w2
    loss = 2 * most.mean() + math.log(len(w2)) + 1 if len(input) else input.sum()
    return [loss, of_hidden @ w1, of_hidden.t() @ input, of_hidden.sum(0), d.t() @ hidden, d.sum(0)]


def _hidden(input: torch.Tensor, weight: torch.Tensor, bias: Optional) -> torch.Tensor:
    return functional.linear(input.double(), weight.double(), _double(bias)).relu()


def _double(value: Optional) -> Optional:
    return None if value is None else value.double()


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``n`` rows of ``k`` features, and ``units``; attributes as those of linear_cross_entropy."""
    n, k, units = (case.sizes[name] for name in ("n", "k", "units"))
    biased = case.attributes.get("biased", True)
    rest = last.inputs(
        Case(case.name, {"n": n, "k": units, "classes": case.sizes["classes"]}, case.attributes), dtype, device, seed
    )
    if case.values == "huge":  # the product of an input and of both weights, and its derivatives, are finite
        rest["linear_weight"] = draw((case.sizes["classes"], units), dtype, device, 7 * seed + 6, case.values, 4)
    return {
        "input": draw((n, k), dtype, device, 7 * seed + 3, case.values, 4),
        "hidden_weight": draw((units, k), dtype, device, 7 * seed + 4, case.values, 4) / math.sqrt(max(1, k)),
        "hidden_bias": draw((units,), dtype, device, 7 * seed + 5) if biased else None,
        **{name: rest[name] for name in ("linear_weight", "linear_bias", "target")},
    }


def terms(input: torch.Tensor, hidden_weight: torch.Tensor, hidden_bias: Any, weight: torch.Tensor, *rest: Any) -> int:
    return sum(input.shape) + len(hidden_weight) + 2 * len(weight) + 8


def cost(input: torch.Tensor, hidden_weight: torch.Tensor, *rest: Any) -> Cost:
    """Operands are read and gradients written; two FLOPs for each product of the three with the first weight."""
    return Cost(bytes=2 * input.nbytes + 2 * hidden_weight.nbytes, flops=6 * len(input) * hidden_weight.numel())


def _case(name: str, sizes: tuple[int, int, int, int], attributes: dict[str, Any] | None = None, **more: Any) -> Case:
    return Case(name, dict(zip(("n", "k", "units", "classes"), sizes, strict=True)), attributes or {}, **more)


def _output(at: int, **more: Any) -> Output:
    return Output(terms=terms, magnitude=lambda *args: _magnitudes(*args)[at], **more)


SPEC = Spec(
    schema=f"{NAME}(Tensor input, Tensor hidden_weight, Tensor? hidden_bias, Tensor linear_weight, Tensor? linear_bias,"
    " Tensor target, int ignore_index=-100, bool needs_input=True, bool settled=False)"
    " -> (Tensor loss, Tensor grad_input, Tensor grad_hidden_weight, Tensor grad_hidden_bias,"
    " Tensor grad_linear_weight, Tensor grad_linear_bias)",
    summary="the mean cross-entropy of two linear layers with relu between them, and its gradients",
    inputs=inputs,
    check=check,
    outputs={
        "loss": _output(0, shape=lambda *args: ()),
        "grad_input": _output(1, like="input", present=lambda *args: args[7]),
        "grad_hidden_weight": _output(2, like="hidden_weight"),
        "grad_hidden_bias": _output(3, shape=lambda x, w, *rest: (len(w),), present=lambda *args: args[2] is not None),
        "grad_linear_weight": _output(4, like="linear_weight"),
        "grad_linear_bias": _output(
            5, shape=lambda x, w, b, v, *rest: (len(v),), present=lambda *args: args[4] is not None
        ),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    autocast="float32",
    vendor="cuBLAS",
    cases=(
        _case("ragged", (13, 36, 20, 10)),
        _case("several_tiles", (37, 132, 33, 3)),
        _case("wide", (9, 404, 200, 16)),
        _case("few_features", (10, 12, 7, 5), {"biased": False}),
        _case("ignored", (20, 64, 32, 6), {"ignored": True}),
        _case("weights_only", (17, 40, 24, 5), {"needs_input": False}),
        _case("settled", (70, 48, 40, 10), {"settled": True}),
        _case("one_row", (1, 4, 1, 1)),
        _case("one_element", (1, 1, 1, 1)),
        _case("huge", (9, 20, 12, 7), values="huge"),
        _case("strided", (6, 16, 8, 5), layout="strided"),
        _case("unaligned", (6, 16, 8, 5), layout="unaligned"),
        _case("odd_features", (6, 15, 8, 5)),
        _case("empty", (0, 8, 5, 3)),
    ),
    sizes=(_case("step", (128, 1568, 128, 10)), _case("rows", (512, 1568, 128, 10)), _case("mlp", (128, 784, 256, 10))),
    dtypes=DTYPES,
)
