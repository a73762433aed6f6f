"""The specification of the gradients of a linear layer."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.gemm.precision import without_tf32
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same, check_same_shape, check_tensor, draw

DTYPES = (torch.float32,)
Optional = torch.Tensor | None
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Gradients = tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]


def check(
    grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, relu_output: Optional, needs_input: bool
) -> None:
    given = {"grad_output": grad_output, "input": input, "weight": weight}
    for name, tensor in given.items():
        check_tensor("linear_backward", name, tensor, FLOATS, dims=(2,))
        check_same("linear_backward", ("grad_output", name), grad_output, tensor)
    (m, k), n = input.shape, weight.shape[0]
    if weight.shape[1] != k or tuple(grad_output.shape) != (m, n):
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in given.items())
        raise ValueError(f"linear_backward: expected grad_output (M, N), input (M, K) and weight (N, K), got {shapes}")
    if relu_output is not None:
        check_tensor("linear_backward", "relu_output", relu_output, FLOATS)
        check_same("linear_backward", ("grad_output", "relu_output"), grad_output, relu_output)
        check_same_shape("linear_backward", ("grad_output", "relu_output"), (grad_output, relu_output))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, Any]:
    """``relu_output`` is the relu of normal values, with the attribute ``relu``."""
    m, n, k = (case.sizes[name] for name in "mnk")
    shapes = {"grad_output": (m, n), "input": (m, k), "weight": (n, k)}
    relu_output = torch.relu(draw((m, n), dtype, device, 3 * seed + 101)) if case.attributes.get("relu") else None
    made = {
        name: draw(shape, dtype, device, 3 * seed + at, case.values, 3)
        for at, (name, shape) in enumerate(shapes.items())
    }
    return {**made, "relu_output": relu_output}


def computed(
    grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, relu_output: Optional, needs_input: bool
) -> Gradients:
    dy = grad_output if relu_output is None else grad_output * (relu_output > 0)
    return dy @ weight if needs_input else None, dy.t() @ input, dy.sum(0)


def reference(
    grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, relu_output: Optional, needs_input: bool
) -> Gradients:
    return computed(grad_output.double(), input.double(), weight.double(), relu_output, needs_input)


def _magnitude(
    grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, relu_output: Optional, _: bool
) -> Three:
    dy = grad_output.double().abs() if relu_output is None else (grad_output * (relu_output > 0)).double().abs()
    return dy @ weight.double().abs(), dy.t() @ input.double().abs(), dy.sum(0)


def eager(*args: Any) -> Gradients:
    """PyTorch's two products and its sum, never in TF32."""
    grad_input, grad_weight, grad_bias = without_tf32(computed, *args)
    return None if grad_input is None else grad_input.contiguous(), grad_weight.contiguous(), grad_bias


def cost(
    grad_output: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, relu_output: Optional, needs_input: bool
) -> Cost:
    """Each operand is read, each gradient written; two FLOPs for each product."""
    products = grad_output.shape[0] * weight.numel()
    moved = (
        grad_output.nbytes * (1 if relu_output is None else 2) + (1 + needs_input) * input.nbytes + 2 * weight.nbytes
    )
    return Cost(bytes=moved, flops=2 * (1 + needs_input) * products)


def _case(name: str, sizes: tuple[int, int, int], attributes: dict[str, Any] | None = None, **more: Any) -> Case:
    return Case(name, dict(zip("mnk", sizes, strict=True)), attributes or {}, **more)


SPEC = Spec(
    schema="linear_backward(Tensor grad_output, Tensor input, Tensor weight, Tensor? relu_output=None,"
    " bool needs_input=True)"
    " -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    summary="dy W, dy^T x and the sum of dy over rows: the gradients of x W^T + b",
    inputs=inputs,
    check=check,
    outputs={
        "grad_input": Output(
            like="input",
            present=lambda *args: args[4],
            terms=lambda dy, *rest: dy.shape[1] + 1,
            magnitude=lambda *args: _magnitude(*args)[0],
        ),
        "grad_weight": Output(
            like="weight", terms=lambda dy, *rest: dy.shape[0] + 1, magnitude=lambda *args: _magnitude(*args)[1]
        ),
        "grad_bias": Output(
            shape=lambda dy, *rest: dy.shape[1:],
            terms=lambda dy, *rest: dy.shape[0] + 1,
            magnitude=lambda *args: _magnitude(*args)[2],
        ),
    },
    reference=reference,
    eager=eager,
    cost=cost,
    vendor="cuBLAS",
    autocast="low_precision",
    cases=(
        _case("small", (4, 5, 3)),
        _case("ragged", (37, 45, 71)),
        _case("aligned", (64, 36, 132)),
        _case("relu", (40, 36, 68), {"relu": True}),
        _case("several_chunks", (130, 6, 68), {"relu": True}),
        _case("weights_only", (9, 6, 20), {"needs_input": False}),
        _case("one_element", (1, 1, 1)),
        _case("empty", (0, 5, 4)),
        _case("huge", (9, 20, 7), values="huge"),
        _case("strided", (6, 16, 12), layout="strided"),
        _case("unaligned", (8, 16, 12), {"relu": True}, layout="unaligned"),
    ),
    sizes=(
        _case("step", (128, 128, 1568), {"relu": True}),
        _case("batch", (512, 128, 1568)),
        _case("ragged", (200, 333, 777)),
        _case("large", (4096, 4096, 4096)),
    ),
    dtypes=DTYPES,
)
