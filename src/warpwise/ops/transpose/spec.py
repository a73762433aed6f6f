"""The specification of transpose: the transpose of a matrix, in memory."""

from __future__ import annotations

import torch

from warpwise.operation import Case, Cost, Output, Spec, check_tensor, draw

# Elements of 1, 2, 4 or 8 bytes: the kernels depend on the width only.
DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.complex64,
)


def check(input: torch.Tensor) -> None:
    check_tensor("transpose", "input", input, DTYPES, dims=(2,))


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    return {"input": draw((case.sizes["rows"], case.sizes["cols"]), dtype, device, seed, case.values)}


def reference(input: torch.Tensor) -> torch.Tensor:
    values = input.double() if input.dtype.is_floating_point else input
    return values.t()


def eager(input: torch.Tensor) -> torch.Tensor:
    return input.t().clone(memory_format=torch.contiguous_format)


def cost(input: torch.Tensor) -> Cost:
    return Cost(bytes=2 * input.numel() * input.element_size())


SPEC = Spec(
    schema="transpose(Tensor input) -> Tensor",
    summary="the transpose (N, M) of a matrix (M, N), contiguous",
    inputs=inputs,
    check=check,
    outputs={"output": Output(shape=lambda input: (input.size(1), input.size(0)))},
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        Case("tile", {"rows": 64, "cols": 64}),
        Case("wide", {"rows": 32, "cols": 160}),
        Case("ragged", {"rows": 37, "cols": 75}),
        Case("ragged_rows", {"rows": 33, "cols": 64}),
        Case("one_row", {"rows": 1, "cols": 131}),
        Case("one_column", {"rows": 131, "cols": 1}),
        Case("few_rows", {"rows": 5, "cols": 1030}),
        Case("few_columns", {"rows": 515, "cols": 8}),
        Case("one_element", {"rows": 1, "cols": 1}),
        Case("empty", {"rows": 0, "cols": 7}),
        Case("huge", {"rows": 16, "cols": 9}, values="huge"),
        Case("strided", {"rows": 18, "cols": 34}, layout="strided"),
        Case("unaligned", {"rows": 32, "cols": 48}, layout="unaligned"),
    ),
    sizes=(
        Case("large", {"rows": 16384, "cols": 16384}),
        Case("ragged", {"rows": 16383, "cols": 16385}),
        Case("tall", {"rows": 2**20, "cols": 256}),
    ),
    dtypes=(torch.float32, torch.float16, torch.uint8, torch.float64),
)
