"""The specification of linear."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from warpwise.gemm.fused import ACTIVATIONS
from warpwise.gemm.operands import KERNEL_DTYPES
from warpwise.gemm.precision import planned_product, without_tf32
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same, check_tensor, draw

STEEPEST = 1.13  # the largest slope of gelu, by which it amplifies an error

Two = tuple[torch.Tensor, torch.Tensor]
Results = tuple[torch.Tensor, torch.Tensor | None]
Optional = torch.Tensor | None


def check_activation(op: str, activation: str | None, *others: None) -> None:
    if activation not in (*ACTIVATIONS, *others):
        expected = ", ".join(repr(name) for name in (*ACTIVATIONS, *others))
        raise ValueError(f"{op}: expected activation to be one of {expected}, got {activation!r}")


class Layer(NamedTuple):
    """The arguments of linear."""

    input: torch.Tensor
    weight: torch.Tensor
    bias: Optional
    activation: str | None
    residual: Optional
    row_scale: Optional
    return_preactivation: bool

    @property
    def epilogue(self) -> dict[str, Optional]:
        """The optional tensors by name."""
        return {"bias": self.bias, "residual": self.residual, "row_scale": self.row_scale}

    def to(self, dtype: torch.dtype) -> Layer:
        return Layer._make(value.to(dtype) if isinstance(value, torch.Tensor) else value for value in self)

    def computed(self) -> Two:
        """The output and the preactivation, which may be the same tensor."""
        if self.row_scale is None:
            before = functional.linear(self.input, self.weight, self.bias)
        else:
            before = functional.linear(self.input, self.weight) * self.row_scale.unsqueeze(-1)
            before = before if self.bias is None else before + self.bias
        output = activated(before, self.activation)
        return output if self.residual is None else output + self.residual, before


def check(*args: Any) -> None:
    input, weight, *_ = layer = Layer(*args)
    check_tensor("linear", "input", input, FLOATS)
    check_tensor("linear", "weight", weight, FLOATS, dims=(2,))
    if input.dim() == 0 or input.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"linear: expected weight with as many columns as input has features, input (..., K) and weight (N, K), "
            f"got {tuple(input.shape)} and {tuple(weight.shape)}"
        )
    check_activation("linear", layer.activation, None)
    rows, features = tuple(input.shape[:-1]), weight.shape[0]
    shapes = {"bias": (features,), "residual": (*rows, features), "row_scale": rows}
    for name, value in layer.epilogue.items():
        if value is not None:
            check_tensor("linear", name, value, FLOATS)
            if tuple(value.shape) != shapes[name]:
                raise ValueError(f"linear: expected {name} of shape {shapes[name]}, got {tuple(value.shape)}")
    for name, value in {"weight": weight, **layer.epilogue}.items():
        if value is not None:
            check_same("linear", ("input", name), input, value)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """Sizes m, n, k and, for an input with three dimensions, batch. The attribute "with" names the optional tensors."""
    m, n, k = (case.sizes[name] for name in ("m", "n", "k"))
    rows = (case.sizes["batch"], m) if "batch" in case.sizes else (m,)
    present = case.attributes.get("with", ())
    shapes = {
        "input": (*rows, k), "weight": (n, k), "bias": (n,), "residual": (*rows, n), "row_scale": rows,
    }  # fmt: skip
    power = 3 if "row_scale" in present else 2
    return {
        name: draw(shape, dtype, device, 5 * seed + number, case.values, power)
        for number, (name, shape) in enumerate(shapes.items())
        if name in ("input", "weight", *present)
    }


def activated(values: torch.Tensor, activation: str | None) -> torch.Tensor:
    if activation is None:
        return values
    if activation == "relu":
        return functional.relu(values)
    return functional.gelu(values, approximate="tanh" if activation == "gelu_tanh" else "none")


def reference(*args: Any) -> Results:
    output, preactivation = Layer(*args).to(torch.float64).computed()
    return output, preactivation.clone() if args[-1] else None


def preactivation_magnitude(*args: Any) -> torch.Tensor:
    absolute = Layer._make(value.abs() if isinstance(value, torch.Tensor) else value for value in args)
    return absolute.to(torch.float64).computed()[1]


def magnitude(*args: Any) -> torch.Tensor:
    layer = Layer(*args)
    size = preactivation_magnitude(*args) * (STEEPEST if layer.activation in ("gelu", "gelu_tanh") else 1)
    return size if layer.residual is None else size + layer.residual.double().abs()


def eager(*args: Any) -> Results:
    """PyTorch's fastest implementation, never in TF32: cuBLASLt's fused bias and activation if it supports them, else
    functional.linear, in which cuBLASLt adds the bias, followed by one PyTorch operation for each further step.

    2-byte types on a CPU are computed in float32, because the operation does not round intermediate results.
    """
    if (single := in_one_call(*args)) is not None:
        return without_tf32(single, *args)
    input, return_preactivation = args[0], args[-1]
    if _halves_on_cpu(input):
        output, before = Layer(*args).to(torch.float32).computed()
        return output.to(input.dtype), before.to(input.dtype) if return_preactivation else None
    output, before = without_tf32(lambda *args: Layer(*args).computed(), *args)
    kept = None
    if return_preactivation:
        kept = before.clone() if before is output else before.contiguous()
    return output.contiguous(), kept


def eager_plan(*args: Any) -> Callable[..., Results]:
    layer, single = Layer(*args), in_one_call(*args)
    if layer.residual is not None or layer.row_scale is not None or _halves_on_cpu(layer.input):
        return eager
    settings = layer.activation, single is fused_by_cublas, layer.return_preactivation, single or eager
    return planned_product(single or eager, layer.input, lambda library: library.Linear(*settings))


def in_one_call(*args: Any) -> Callable[..., Results] | None:
    """The function of PyTorch that computes the whole layer, or None."""
    input, weight, _, activation, residual, row_scale, return_preactivation = args
    if activation is residual is row_scale is None and not (_halves_on_cpu(input) or return_preactivation):
        return _plain_linear
    on_gpu = input.is_cuda and input.dtype in KERNEL_DTYPES and min(input.numel(), weight.numel()) > 0
    return fused_by_cublas if on_gpu and fuses(*args) else None


def _halves_on_cpu(input: torch.Tensor) -> bool:
    return input.is_cpu and input.dtype.itemsize == 2


def _plain_linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *rest: Any) -> Results:
    return functional.linear(input, weight, bias).contiguous(), None


def fuses(*args: Any) -> bool:
    """True if torch._addmm_activation computes the epilogue; on a GPU its gelu is the tanh approximation."""
    layer = Layer(*args)
    alone = layer.residual is None and layer.row_scale is None and not layer.return_preactivation
    return layer.bias is not None and layer.activation in ("relu", "gelu_tanh") and alone


def fused_by_cublas(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str | None, *rest: Any
) -> tuple[torch.Tensor, None]:
    """torch._addmm_activation, cuBLASLt's fused bias and activation, where it ``fuses``."""
    rows = input.reshape(math.prod(input.shape[:-1]), input.shape[-1])
    output = torch._addmm_activation(bias, rows, weight.t(), use_gelu=activation == "gelu_tanh")
    return output.view(*input.shape[:-1], weight.shape[0]), None


def cost(*args: Any) -> Cost:
    input, weight, *_ = layer = Layer(*args)
    results = math.prod(input.shape[:-1]) * weight.shape[0]
    read = sum(value.numel() for value in (input, weight, *layer.epilogue.values()) if value is not None)
    written = results * (2 if layer.return_preactivation else 1)
    return Cost(bytes=(read + written) * input.element_size(), flops=2 * results * weight.shape[1])


def output_shape(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[int, ...]:
    return (*input.shape[:-1], weight.shape[0])


def _terms(input: torch.Tensor, *rest: Any) -> int:
    return input.shape[-1] + 2


ALL = {"with": ("bias", "residual", "row_scale"), "return_preactivation": True}
BIAS = {"with": ("bias",)}
OUTPUTS = {
    "output": Output(shape=output_shape, terms=_terms, magnitude=magnitude),
    "preactivation": Output(
        shape=output_shape, present=lambda *args: bool(args[-1]), terms=_terms, magnitude=preactivation_magnitude
    ),
}
SPEC = Spec(
    schema="linear(Tensor input, Tensor weight, Tensor? bias=None, str? activation=None, Tensor? residual=None, "
    "Tensor? row_scale=None, bool return_preactivation=False) -> (Tensor output, Tensor preactivation)",
    summary="activation(row_scale * (x W^T) + bias) + residual, sums and epilogue in float32",
    outputs=OUTPUTS,
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    eager_plan=eager_plan,
    cost=cost,
    autocast="low_precision",
    cases=(
        Case("small", {"m": 4, "n": 5, "k": 3}, {"activation": "gelu", "with": ("bias", "residual", "row_scale")}),
        Case("product_alone", {"m": 48, "n": 40, "k": 32}),
        Case("bias_gelu", {"m": 33, "n": 61, "k": 17}, {"activation": "gelu", **BIAS}),
        Case("several_tiles", {"m": 130, "n": 136, "k": 24}, {"activation": "gelu_tanh", **ALL}),
        Case("ragged_tiles", {"m": 129, "n": 67, "k": 19}, {"activation": "relu", "with": ("bias", "residual")}),
        Case(
            "batch",
            {"batch": 3, "m": 5, "n": 16, "k": 8},
            {"activation": "gelu", **BIAS, "return_preactivation": True},
        ),
        Case("deep", {"m": 5, "n": 3, "k": 515}, {"with": ("row_scale",)}),
        Case("one_row", {"m": 1, "n": 70, "k": 33}, {"activation": "gelu_tanh", **BIAS}),
        Case("one_element", {"m": 1, "n": 1, "k": 1}),
        Case("empty", {"m": 0, "n": 7, "k": 5}, BIAS),
        Case("empty_sum", {"m": 6, "n": 7, "k": 0}, {"activation": "gelu", **ALL}),
        Case("huge", {"m": 20, "n": 24, "k": 36}, {"activation": "gelu", **BIAS}, values="huge"),
        Case("huge_scaled", {"m": 20, "n": 24, "k": 36}, {"activation": "gelu_tanh", **ALL}, values="huge"),
        Case("strided", {"m": 30, "n": 28, "k": 20}, {"activation": "gelu", **ALL}, layout="strided"),
        Case("unaligned", {"m": 32, "n": 40, "k": 48}, {"activation": "relu", **ALL}, layout="unaligned"),
    ),
    sizes=(
        Case("gelu", {"m": 8192, "n": 4096, "k": 4096}, {"activation": "gelu", **BIAS}),
        Case("gelu_tanh", {"m": 8192, "n": 4096, "k": 4096}, {"activation": "gelu_tanh", **BIAS}),
        Case("up", {"m": 4096, "n": 14336, "k": 4096}, {"activation": "gelu_tanh", **BIAS}),
        Case("down", {"m": 4096, "n": 4096, "k": 14336}, {"with": ("bias", "residual")}),
        Case("kept", {"m": 8192, "n": 4096, "k": 4096}, {"activation": "gelu", **BIAS, "return_preactivation": True}),
        Case("ragged", {"m": 1000, "n": 3000, "k": 777}, {"activation": "gelu", **BIAS}),
    ),
    dtypes=KERNEL_DTYPES,
    vendor="cuBLAS",
)  # fmt: skip
