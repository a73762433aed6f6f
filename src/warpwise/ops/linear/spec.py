"""A linear layer with what follows it, and the backward of its activation: what they are, knowing no kernel."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from warpwise.ops._common import FLOATS, check_companion, check_tensor, draw, without_tf32
from warpwise.registry import Case, Cost, Spec

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
ACTIVATIONS = ("relu", "gelu", "gelu_tanh")  # gelu by the error function, gelu_tanh its approximation by tanh
STEEPEST = 1.13  # of the slopes of gelu, so what an error before it becomes at most

Two = tuple[torch.Tensor, torch.Tensor]
Optional = torch.Tensor | None


def check_activation(op: str, activation: str | None, *others: None) -> None:
    if activation not in (*ACTIVATIONS, *others):
        expected = ", ".join(repr(name) for name in (*ACTIVATIONS, *others))
        raise ValueError(f"{op}: expected activation to be one of {expected}, got {activation!r}")


def check(
    input: torch.Tensor, weight: torch.Tensor, bias: Optional, activation: str | None, residual: Optional,
    row_scale: Optional, keep: bool,
) -> None:  # fmt: skip
    check_tensor("linear", "input", input, FLOATS)
    check_tensor("linear", "weight", weight, FLOATS, dims=(2,))
    if input.dim() == 0 or input.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"linear: expected weight with as many columns as input has features, input (..., K) and weight (N, K), "
            f"got {tuple(input.shape)} and {tuple(weight.shape)}"
        )
    check_activation("linear", activation, None)
    rows, features = tuple(input.shape[:-1]), weight.shape[0]
    others = {"bias": (bias, (features,)), "residual": (residual, (*rows, features)), "row_scale": (row_scale, rows)}
    for name, (value, shape) in others.items():
        if value is not None:
            check_tensor("linear", name, value, FLOATS)
            if tuple(value.shape) != shape:
                raise ValueError(f"linear: expected {name} of shape {shape}, got {tuple(value.shape)}")
    for name, value in (("weight", weight), ("bias", bias), ("residual", residual), ("row_scale", row_scale)):
        if value is not None:
            check_companion("linear", ("input", name), input, value)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> tuple[Any, ...]:
    """Sizes m, n, k and, where there are several matrices of rows, batch; activation counts from 1 in ``ACTIVATIONS``;
    bias, residual, row_scale and keep are 1 where they are asked for."""
    sizes = case.sizes
    m, n, k, kind = sizes["m"], sizes["n"], sizes["k"], sizes.get("activation", 0)
    rows = [sizes["batch"], m] if "batch" in sizes else [m]
    power = 3 if sizes.get("row_scale") else 2

    def drawn(name: str, number: int, shape: list[int]) -> Optional:
        return draw(case, shape, dtype, device, 5 * seed + number, power) if sizes.get(name) else None

    return (
        draw(case, [*rows, k], dtype, device, 5 * seed, power), draw(case, [n, k], dtype, device, 5 * seed + 1, power),
        drawn("bias", 2, [n]), ACTIVATIONS[kind - 1] if kind else None, drawn("residual", 3, [*rows, n]),
        drawn("row_scale", 4, rows), bool(sizes.get("keep")),
    )  # fmt: skip


def outputs(
    input: torch.Tensor, weight: torch.Tensor, bias: Optional, activation: str | None, residual: Optional,
    row_scale: Optional, keep: bool,
) -> Two:  # fmt: skip
    """The layer's output (..., N) and what its activation was applied to, which has no elements unless kept."""
    shape = (*input.shape[:-1], weight.shape[0])
    return input.new_empty(shape), input.new_empty(shape if keep else (0,))


def activated(values: torch.Tensor, activation: str | None) -> torch.Tensor:
    if activation is None:
        return values
    if activation == "relu":
        return functional.relu(values)
    return functional.gelu(values, approximate="tanh" if activation == "gelu_tanh" else "none")


def _layer(
    input: torch.Tensor, weight: torch.Tensor, bias: Optional, activation: str | None, residual: Optional,
    row_scale: Optional, keep: bool,
) -> Two:  # fmt: skip
    """The layer, and what its activation was applied to, which may be the same tensor."""
    if row_scale is None:
        before = functional.linear(input, weight, bias)
    else:
        before = functional.linear(input, weight) * row_scale.unsqueeze(-1)
        before = before if bias is None else before + bias
    output = activated(before, activation)
    return output if residual is None else output + residual, before


def _in(dtype: torch.dtype, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value.to(dtype) if isinstance(value, torch.Tensor) else value for value in args)


def reference(*args: Any) -> Two:
    output, before = _layer(*_in(torch.float64, args))
    return output, before.clone() if args[-1] else before.new_empty(0)


def magnitude(
    input: torch.Tensor, weight: torch.Tensor, bias: Optional, activation: str | None, residual: Optional,
    row_scale: Optional, keep: bool,
) -> Two:  # fmt: skip
    sizes = tuple(None if value is None else value.abs() for value in (input, weight, bias, residual, row_scale))
    x, w, b, r, s = _in(torch.float64, sizes)
    before, _ = _layer(x, w, b, None, None, s, False)
    output = before * (STEEPEST if activation in ("gelu", "gelu_tanh") else 1)
    return output if r is None else output + r, before if keep else before.new_empty(0)


def eager(*args: Any) -> Two:
    """The fastest of PyTorch's ways, never in TF32: cuBLASLt's fused bias and activation where it has them, else
    functional.linear, whose bias cuBLASLt adds, and what follows, one operation after the other.

    For 2-byte types on a CPU in float32, since the rounding of every intermediate result is no part of the operation.
    """
    output, before = by_pytorch(*args)
    return output, output.new_empty(0) if before is None else before


def by_pytorch(
    input: torch.Tensor, weight: torch.Tensor, bias: Optional, activation: str | None, residual: Optional,
    row_scale: Optional, keep: bool,
) -> tuple[torch.Tensor, Optional]:  # fmt: skip
    """``eager``, with None for what is not kept: an output more, if an empty one, costs the host 2 µs."""
    halves = input.is_cpu and input.dtype.itemsize == 2
    if activation is residual is row_scale is None and not halves:
        output = without_tf32(functional.linear, input, weight, bias).contiguous()
        return output, output.clone() if keep else None
    args = (input, weight, bias, activation, residual, row_scale, keep)
    if halves:
        output, before = _layer(*_in(torch.float32, args))
        return output.to(input.dtype), before.to(input.dtype) if keep else None
    if input.is_cuda and input.dtype in KERNEL_DTYPES and min(input.numel(), weight.numel()) > 0 and fuses(*args):
        return without_tf32(fused_by_cublas, *args)
    output, before = without_tf32(_layer, *args)
    return output.contiguous(), (before.clone() if before is output else before.contiguous()) if keep else None


def fuses(
    input: torch.Tensor, weight: torch.Tensor, bias: Optional, activation: str | None, residual: Optional,
    row_scale: Optional, keep: bool,
) -> bool:  # fmt: skip
    """Whether torch._addmm_activation does what follows the product; its gelu on a GPU is the one by tanh."""
    alone = residual is None and row_scale is None and not keep
    return bias is not None and activation in ("relu", "gelu_tanh") and alone


def fused_by_cublas(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str | None, *rest: Any
) -> tuple[torch.Tensor, None]:
    """torch._addmm_activation, cuBLASLt's fused bias and activation, where it ``fuses``."""
    rows = input.reshape(math.prod(input.shape[:-1]), input.shape[-1])
    output = torch._addmm_activation(bias, rows, weight.t(), use_gelu=activation == "gelu_tanh")
    return output.view(*input.shape[:-1], weight.shape[0]), None


def cost(
    input: torch.Tensor, weight: torch.Tensor, bias: Optional, activation: str | None, residual: Optional,
    row_scale: Optional, keep: bool,
) -> Cost:  # fmt: skip
    results = math.prod(input.shape[:-1]) * weight.shape[0]
    read = sum(value.numel() for value in (input, weight, bias, residual, row_scale) if value is not None)
    written = results * (2 if keep else 1)
    return Cost(bytes=(read + written) * input.element_size(), flops=2 * results * weight.shape[1])


FULL = {"bias": 1, "residual": 1, "row_scale": 1, "keep": 1}

SPEC = Spec(
    name="linear",
    summary="activation(row_scale * (x W^T) + bias) + residual, accumulated and finished in float32",
    inputs=inputs,
    check=check,
    outputs=outputs,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("small", {"m": 4, "n": 5, "k": 3, "activation": 2, "bias": 1, "residual": 1, "row_scale": 1}),
        Case("product_alone", {"m": 48, "n": 40, "k": 32}),
        Case("bias_gelu", {"m": 33, "n": 61, "k": 17, "activation": 2, "bias": 1}),
        Case("several_tiles", {"m": 130, "n": 136, "k": 24, "activation": 3, **FULL}),
        Case("ragged_tiles", {"m": 129, "n": 67, "k": 19, "activation": 1, "bias": 1, "residual": 1}),
        Case("batch", {"batch": 3, "m": 5, "n": 16, "k": 8, "activation": 2, "bias": 1, "keep": 1}),
        Case("deep", {"m": 5, "n": 3, "k": 515, "row_scale": 1}),
        Case("one_row", {"m": 1, "n": 70, "k": 33, "activation": 3, "bias": 1}),
        Case("one_element", {"m": 1, "n": 1, "k": 1}),
        Case("empty", {"m": 0, "n": 7, "k": 5, "bias": 1}),
        Case("empty_sum", {"m": 6, "n": 7, "k": 0, "activation": 2, **FULL}),
        Case("huge", {"m": 20, "n": 24, "k": 36, "activation": 2, "bias": 1}, values="huge"),
        Case("huge_scaled", {"m": 20, "n": 24, "k": 36, "activation": 3, **FULL}, values="huge"),
        Case("strided", {"m": 30, "n": 28, "k": 20, "activation": 2, **FULL}, layout="strided"),
        Case("unaligned", {"m": 32, "n": 40, "k": 48, "activation": 1, **FULL}, layout="unaligned"),
    ),
    sizes=(
        Case("gelu", {"m": 8192, "n": 4096, "k": 4096, "activation": 2, "bias": 1}),
        Case("gelu_tanh", {"m": 8192, "n": 4096, "k": 4096, "activation": 3, "bias": 1}),
        Case("up", {"m": 4096, "n": 14336, "k": 4096, "activation": 3, "bias": 1}),
        Case("down", {"m": 4096, "n": 4096, "k": 14336, "bias": 1, "residual": 1}),
        Case("kept", {"m": 8192, "n": 4096, "k": 4096, "activation": 2, "bias": 1, "keep": 1}),
        Case("ragged", {"m": 1000, "n": 3000, "k": 777, "activation": 2, "bias": 1}),
    ),
    dtypes=KERNEL_DTYPES,
    terms=lambda input, *rest: input.shape[-1] + 2,
    magnitude=magnitude,
    vendor="cuBLAS",
)  # fmt: skip
