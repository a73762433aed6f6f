"""Small operations for the lab's tests, with a ladder of the plain functions that a test passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from warpwise.operation import Case, Cost, Op, Output, Rung, Spec


def cases(**shapes: tuple[int, ...]) -> tuple[Case, ...]:
    """Every kind of case: ``rows=(37, 64)`` gives the ragged and the round size of each dimension."""
    ragged = {name: sizes[0] for name, sizes in shapes.items()}
    even = {name: sizes[1] for name, sizes in shapes.items()}
    first = next(iter(shapes))
    return (
        Case("even", even),
        Case("ragged", ragged),
        Case("one", {name: 1 for name in shapes}),
        Case("empty", {**ragged, first: 0}),
        Case("huge", ragged, values="huge"),
        Case("strided", ragged, layout="strided"),
        Case("unaligned", ragged, layout="unaligned"),
    )


def draw(
    case: Case, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, seed: int, huge: float
) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(seed)
    values = torch.randn(shape, generator=generator, device=device)
    return (values * (huge if case.values == "huge" else 1.0)).to(dtype)


def judged(spec: Spec, **options: Any) -> Spec:
    """``spec``, whose one output is called ``output``, with other options of that output."""
    return replace(spec, outputs={"output": replace(spec.outputs["output"], **options)})


def affine_inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> Mapping[str, Any]:
    return {"x": draw(case, (case.sizes["n"],), dtype, device, seed, 1e4)}


AFFINE = Spec(
    schema="affine(Tensor x) -> Tensor",
    summary="2 x + 1, element by element.",
    inputs=affine_inputs,
    outputs={"output": Output(like="x", magnitude=lambda x: 2 * x.double().abs() + 1)},
    reference=lambda x: 2 * x.double() + 1,
    eager=lambda x: 2 * x + 1,
    cost=lambda x: Cost(2 * x.nbytes, 2 * x.numel()),
    cases=cases(n=(1037, 512)),
    sizes=(Case("large", {"n": 8192}),),
    dtypes=(torch.float32, torch.float16),
)


def matrix_inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> Mapping[str, Any]:
    return {"x": draw(case, (case.sizes["rows"], case.sizes["columns"]), dtype, device, seed, 500.0)}


ROW_SUM = Spec(
    schema="row_sum(Tensor x) -> Tensor",
    summary="The sum of each row.",
    inputs=matrix_inputs,
    outputs={
        "output": Output(
            shape=lambda x: x.shape[:1], terms=lambda x: x.shape[1], magnitude=lambda x: x.double().abs().sum(1)
        )
    },
    reference=lambda x: x.double().sum(1),
    eager=lambda x: x.sum(1),
    cost=lambda x: Cost(x.nbytes + x.shape[0] * x.element_size(), x.numel()),
    cases=cases(rows=(37, 32), columns=(301, 256)),
    sizes=(Case("large", {"rows": 64, "columns": 64}),),
    dtypes=(torch.float32, torch.float16),
)

SOFTMAX = Spec(
    schema="row_softmax(Tensor x) -> Tensor",
    summary="Softmax of each row.",
    inputs=matrix_inputs,
    outputs={
        "output": Output(
            like="x",
            terms=lambda x: x.shape[1],
            magnitude=lambda x: torch.softmax(x.double(), 1) * (1 + x.double().amax(1, keepdim=True) - x.double()),
        )
    },
    reference=lambda x: torch.softmax(x.double(), 1),
    eager=lambda x: torch.softmax(x, 1),
    cost=lambda x: Cost(2 * x.nbytes, 5 * x.numel()),
    cases=cases(rows=(19, 16), columns=(101, 64)),
    sizes=(Case("large", {"rows": 64, "columns": 64}),),
)


def product_inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> Mapping[str, Any]:
    m, n, k = (case.sizes[name] for name in "mnk")
    return {
        "a": draw(case, (m, k), dtype, device, 2 * seed, 300.0),
        "b": draw(case, (k, n), dtype, device, 2 * seed + 1, 300.0),
    }


MATMUL = Spec(
    schema="product(Tensor a, Tensor b) -> Tensor",
    summary="A matrix product.",
    inputs=product_inputs,
    outputs={
        "output": Output(
            shape=lambda a, b: (a.shape[0], b.shape[1]),
            terms=lambda a, b: a.shape[1],
            magnitude=lambda a, b: a.double().abs() @ b.double().abs(),
        )
    },
    reference=lambda a, b: a.double() @ b.double(),
    eager=lambda a, b: a @ b,
    cost=lambda a, b: Cost(a.nbytes + b.nbytes, 2 * a.shape[0] * a.shape[1] * b.shape[1]),
    cases=cases(m=(33, 32), n=(21, 32), k=(75, 64)),
    sizes=(Case("large", {"m": 64, "n": 64, "k": 64}),),
)


def keys(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> Mapping[str, Any]:
    generator = torch.Generator(device).manual_seed(seed)
    values = torch.randint(0, 16, (case.sizes["n"],), generator=generator, device=device).to(dtype)
    return {"x": values}


COUNTS = Spec(
    schema="counts(Tensor x) -> Tensor",
    summary="How often each of 16 values occurs.",
    inputs=keys,
    outputs={"output": Output(shape=lambda x: (16,), dtype=torch.int32)},
    reference=lambda x: torch.bincount(x.long(), minlength=16),
    eager=lambda x: torch.bincount(x, minlength=16).int(),
    cost=lambda x: Cost(x.nbytes + 64),
    cases=cases(n=(1003, 512)),
    sizes=(Case("large", {"n": 8192}),),
    dtypes=(torch.uint8,),
)


def op(spec: Spec, *launches: Callable[..., None], **options: Any) -> Op:
    """``spec`` with one plain-Python rung for each function, named after it."""
    options = {"language": "python", "source": Path(__file__), **options}
    rungs = tuple(Rung(name=launch.__name__, idea="a test", launch=launch, **options) for launch in launches)
    return Op(spec, rungs)


def slow(out: torch.Tensor, x: torch.Tensor) -> None:
    """AFFINE; what tests time differs by name."""
    out.copy_((2 * x.double() + 1).to(out.dtype))


def quick(out: torch.Tensor, x: torch.Tensor) -> None:
    out.copy_((2 * x.double() + 1).to(out.dtype))


def broken(out: torch.Tensor, x: torch.Tensor) -> None:
    out[:-1] = 2 * x[:-1] + 1


def broken_when_large(out: torch.Tensor, x: torch.Tensor) -> None:
    out.copy_((2 * x.double() + 1).to(out.dtype))
    if len(x) > 5000:
        out[5000] = 0
