"""silu(gate) * up, the activation of a SwiGLU feed-forward layer, as ``torch.ops.mypackage.silu_mul``."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import (
    Case,
    Cost,
    Gradient,
    Op,
    Output,
    Saved,
    Spec,
    check_same_shape,
    check_tensor,
    draw,
    make_rung,
    register,
)

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """``gate`` and ``up`` of shape (rows, columns)."""
    shape = (case.sizes["rows"], case.sizes["columns"])
    return {
        "gate": draw(shape, dtype, device, 2 * seed, case.values, power=2),
        "up": draw(shape, dtype, device, 2 * seed + 1, case.values, power=2),
    }


def check(gate: torch.Tensor, up: torch.Tensor) -> None:
    check_tensor("silu_mul", "gate", gate, (*DTYPES, torch.float64))
    check_tensor("silu_mul", "up", up)
    check_same_shape("silu_mul", ("gate", "up"), (gate, up))


def reference(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return gate.double() * torch.sigmoid(gate.double()) * up.double()


def eager(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """PyTorch's computation; 2-byte dtypes in float32, rounded once."""
    wide = torch.float32 if gate.element_size() == 2 else gate.dtype
    return (torch.nn.functional.silu(gate.to(wide)) * up.to(wide)).to(gate.dtype).contiguous()


def backward(saved: Saved, grad: torch.Tensor) -> dict[str, torch.Tensor]:
    """With s = sigmoid(gate): d silu / d gate = s * (1 + gate * (1 - s)), in differentiable operators."""
    s = torch.sigmoid(saved.gate)
    return {"gate": grad * saved.up * s * (1 + saved.gate * (1 - s)), "up": grad * saved.gate * s}


SPEC = Spec(
    schema="mypackage::silu_mul(Tensor gate, Tensor up) -> Tensor",
    summary="silu(gate) * up, element by element",
    inputs=inputs,
    check=check,
    outputs={"output": Output(like="gate", terms=4)},
    reference=reference,
    eager=eager,
    gradient=Gradient(backward, saves=("gate", "up")),
    cost=lambda gate, up: Cost(bytes=3 * gate.numel() * gate.element_size(), flops=5 * gate.numel()),
    cases=(
        Case("even", {"rows": 4, "columns": 256}),
        Case("ragged", {"rows": 7, "columns": 131}),
        Case("one_element", {"rows": 1, "columns": 1}),
        Case("empty", {"rows": 0, "columns": 5}),
        Case("huge", {"rows": 3, "columns": 67}, values="huge"),
        Case("strided", {"rows": 5, "columns": 33}, layout="strided"),
        Case("unaligned", {"rows": 2, "columns": 65}, layout="unaligned"),
    ),
    sizes=(Case("large", {"rows": 16384, "columns": 14336}),),
    dtypes=DTYPES,
)

HERE = Path(__file__).parent
KERNEL = cuda.load(HERE / "k01_thread_per_element.cu")
BLOCK = 256


def thread_per_element(out: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> None:
    """Fill ``out``. All tensors are contiguous and not empty."""
    n = gate.numel()
    KERNEL[f"silu_mul<{cuda.ctype(gate.dtype)}>"][-(-n // BLOCK), BLOCK](gate, up, cuda.out(out), n)


RUNGS = (make_rung(HERE, "k01_thread_per_element", "one thread per element", thread_per_element, dtypes=DTYPES),)


def default(gate: torch.Tensor, up: torch.Tensor) -> str | None:
    """The rung for CUDA tensors, or None for PyTorch."""
    return "k01_thread_per_element" if gate.dtype in DTYPES else None


SILU_MUL = register(Op(SPEC, RUNGS, default))


def silu_mul(gate: torch.Tensor, up: torch.Tensor, *, rung: str | None = None) -> torch.Tensor:
    """``silu(gate) * up`` for two floating-point tensors of one shape, dtype and device; contiguous, differentiable.

    ``rung`` names one kernel. Raises ``TypeError`` or ``ValueError`` if they differ in shape, dtype or device.
    """
    return SILU_MUL(gate, up, rung=rung)
