"""The specifications of grouped_matmul and grouped_matmul_backward."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from warpwise.gemm.operands import KERNEL_DTYPES
from warpwise.gemm.precision import without_tf32
from warpwise.operation import FLOATS, Case, Cost, Output, Spec, check_same, check_tensor, draw

OP, BACKWARD_OP = "grouped_matmul", "grouped_matmul_backward"


def check_offsets(op: str, rows: torch.Tensor, offsets: torch.Tensor) -> None:
    """Raise unless each group has an end and, on a CPU, the ends ascend. On a GPU this check would synchronise."""
    check_tensor(op, "offsets", offsets, (torch.int32,), dims=(1,))
    if offsets.device != rows.device:
        raise ValueError(f"{op}: expected offsets on a's device {rows.device}, got {offsets.device}")
    if type(offsets) is torch.Tensor and offsets.is_cpu:
        check_rising(op, rows, offsets)


def check_rising(op: str, rows: torch.Tensor, offsets: torch.Tensor) -> None:
    """Raise unless the ends ascend from 0 to the number of rows. Synchronises with a GPU."""
    ends = offsets.tolist()
    if ends and (ends != sorted(ends) or ends[0] < 0 or ends[-1] > rows.shape[0]):
        raise ValueError(f"{op}: expected offsets that rise from 0 up to a's {rows.shape[0]} rows, got {ends}")


def check(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> None:
    check_tensor(OP, "a", a, FLOATS, dims=(2,))
    check_tensor(OP, "b", b, FLOATS, dims=(3,))
    check_same(OP, ("a", "b"), a, b)
    shapes = f"got {tuple(a.shape)} and {tuple(b.shape)}"
    if b.shape[1] != a.shape[1]:
        raise ValueError(f"{OP}: expected b with as many rows as a has columns, a (T, K) and b (G, K, N), {shapes}")
    check_offsets(OP, a, offsets)
    if offsets.shape[0] != b.shape[0]:
        raise ValueError(
            f"{OP}: expected an end in offsets for each of b's {b.shape[0]} matrices, got {offsets.shape[0]}"
        )


def check_backward(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> None:
    check_tensor(BACKWARD_OP, "a", a, FLOATS, dims=(2,))
    check_tensor(BACKWARD_OP, "grad_output", grad_output, FLOATS, dims=(2,))
    check_same(BACKWARD_OP, ("a", "grad_output"), a, grad_output)
    if grad_output.shape[0] != a.shape[0]:
        raise ValueError(
            f"{BACKWARD_OP}: expected grad_output with a's {a.shape[0]} rows, got shape {tuple(grad_output.shape)}"
        )
    check_offsets(BACKWARD_OP, a, offsets)


def ends(case: Case, device: torch.device, seed: int) -> torch.Tensor:
    """Random ends of groups; the last rows, as many as the size "past", are past the last end."""
    rows, groups = case.sizes["rows"] - case.sizes.get("past", 0), case.sizes["groups"]
    if not groups:
        return torch.empty(0, dtype=torch.int32, device=device)
    chosen = torch.randint(0, groups, (max(rows, 0),), generator=torch.Generator().manual_seed(seed))
    return torch.bincount(chosen, minlength=groups).cumsum(0).to(device, torch.int32)


def inputs(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """The attribute "transposed_b" makes b's matrices column-major."""
    rows, groups, n, k = (case.sizes[name] for name in ("rows", "groups", "n", "k"))
    transposed = case.attributes.get("transposed_b")
    shape = (groups, n, k) if transposed else (groups, k, n)
    b = draw(shape, dtype, device, 2 * seed + 1, case.values, power=2)
    return {
        "a": draw((rows, k), dtype, device, 2 * seed, case.values, power=2),
        "b": b.mT if transposed else b,
        "offsets": ends(case, device, seed),
    }


def inputs_backward(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    rows, n, k = (case.sizes[name] for name in ("rows", "n", "k"))
    return {
        "a": draw((rows, k), dtype, device, 2 * seed, case.values, power=2),
        "grad_output": draw((rows, n), dtype, device, 2 * seed + 1, case.values, power=2),
        "offsets": ends(case, device, seed),
    }


def spans(offsets: torch.Tensor) -> Iterator[tuple[int, slice]]:
    """The index of each group that has rows, and those rows. Synchronises with a GPU."""
    begin = 0
    for group, end in enumerate(offsets.tolist()):
        if end > begin:
            yield group, slice(begin, end)
        begin = end


@torch.no_grad()
def products(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A loop of torch.mm in ``dtype``, which synchronises with a GPU."""
    result = a.new_zeros((a.shape[0], b.shape[2]), dtype=dtype)
    for group, rows in spans(offsets):
        torch.mm(a[rows].to(dtype), b[group].to(dtype), out=result[rows])
    return result


@torch.no_grad()
def products_backward(
    a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    """A loop of torch.mm in ``dtype``, which synchronises with a GPU."""
    result = a.new_zeros((offsets.shape[0], a.shape[1], grad_output.shape[1]), dtype=dtype)
    for group, rows in spans(offsets):
        torch.mm(a[rows].t().to(dtype), grad_output[rows].to(dtype), out=result[group])
    return result


def reference(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return products(a, b, offsets, torch.float64)


def reference_backward(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return products_backward(a, grad_output, offsets, torch.float64)


def eager(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """``products`` in the operands' dtype; float32 without TF32."""
    check_rising(OP, a, offsets)  # at each call: a plan is cached by shapes, not by the values of offsets
    return without_tf32(lambda a, b: products(a, b, offsets, a.dtype), a, b)


def eager_backward(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """``products_backward`` in the operands' dtype; float32 without TF32."""
    check_rising(BACKWARD_OP, a, offsets)
    return without_tf32(lambda a, grad: products_backward(a, grad, offsets, a.dtype), a, grad_output)


def grouped_mm(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """torch._grouped_mm, which is CUTLASS on a Hopper GPU, for bfloat16. Rows past the last end are undefined."""
    result: torch.Tensor = torch._grouped_mm(a, b, offs=offsets)
    return result


def grouped_mm_backward(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """torch._grouped_mm of two matrices, with groups of columns of the first and of rows of the second."""
    result: torch.Tensor = torch._grouped_mm(a.t(), grad_output, offs=offsets)
    return result


def longest(offsets: torch.Tensor) -> int:
    """Rows of the largest group; at least 1."""
    return max((rows.stop - rows.start for _, rows in spans(offsets)), default=1)


def cost(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> Cost:
    """Each row of the result is written. Rows past the last end and matrices of groups without rows are not read."""
    taken = list(spans(offsets))
    rows, (_, k, n) = sum(rows.stop - rows.start for _, rows in taken), b.shape
    moved = rows * k + len(taken) * k * n + a.shape[0] * n
    return Cost(bytes=moved * a.element_size() + offsets.nbytes, flops=2 * rows * k * n)


def cost_backward(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> Cost:
    rows = sum(rows.stop - rows.start for _, rows in spans(offsets))
    k, n = a.shape[1], grad_output.shape[1]
    moved = rows * (k + n) + offsets.shape[0] * k * n
    return Cost(bytes=moved * a.element_size() + offsets.nbytes, flops=2 * rows * k * n)


CASES = (
    Case("even", {"rows": 96, "groups": 4, "n": 48, "k": 32}),
    Case("ragged", {"rows": 61, "groups": 3, "n": 33, "k": 17}),
    Case("several_tiles", {"rows": 300, "groups": 2, "n": 136, "k": 72}),
    Case("ragged_tiles", {"rows": 257, "groups": 3, "n": 131, "k": 21}),
    Case("mostly_empty", {"rows": 5, "groups": 37, "n": 16, "k": 24}),
    Case("one_group", {"rows": 70, "groups": 1, "n": 24, "k": 40}),
    Case("past_the_end", {"rows": 150, "groups": 3, "n": 40, "k": 24, "past": 70}),
    Case("all_past_the_end", {"rows": 9, "groups": 2, "n": 8, "k": 16, "past": 9}),
    Case("one_element", {"rows": 1, "groups": 1, "n": 1, "k": 1}),
    Case("empty", {"rows": 0, "groups": 3, "n": 7, "k": 5}),
    Case("no_groups", {"rows": 4, "groups": 0, "n": 7, "k": 5}),
    Case("huge", {"rows": 40, "groups": 3, "n": 24, "k": 36}, values="huge"),
    Case("strided", {"rows": 40, "groups": 3, "n": 28, "k": 20}, layout="strided"),
    Case("unaligned", {"rows": 40, "groups": 3, "n": 40, "k": 48}, layout="unaligned"),
)
SIZES = (
    Case("mixture_of_8", {"rows": 16384, "groups": 8, "n": 14336, "k": 4096}),
    Case("mixture_of_64", {"rows": 16384, "groups": 64, "n": 1408, "k": 2048}),
    Case("few_rows", {"rows": 512, "groups": 8, "n": 14336, "k": 4096}),
)

SPEC = Spec(
    schema="grouped_matmul(Tensor a, Tensor b, Tensor offsets) -> Tensor",
    summary="groups of rows times a matrix for each group, accumulated in float32",
    outputs={
        "output": Output(
            shape=lambda a, b, offsets: (a.shape[0], b.shape[2]),
            terms=lambda a, b, offsets: a.shape[1],
            magnitude=lambda a, b, offsets: reference(a.abs(), b.abs(), offsets),
        )
    },
    inputs=inputs,
    check=check,
    reference=reference,
    eager=eager,
    cost=cost,
    cases=(
        *CASES,
        Case("empty_sum", {"rows": 6, "groups": 2, "n": 7, "k": 0}),
        Case("transposed_b", {"rows": 96, "groups": 3, "n": 40, "k": 72}, {"transposed_b": True}),
    ),
    sizes=SIZES,
    dtypes=KERNEL_DTYPES,
    autocast="low_precision",
    opponents={"torch._grouped_mm": grouped_mm},
)

BACKWARD = Spec(
    schema="grouped_matmul_backward(Tensor a, Tensor grad_output, Tensor offsets) -> (Tensor grad_b)",
    summary="for each group of rows the product of a's, transposed, with the gradient's: the gradient of the matrices",
    outputs={
        "grad_b": Output(
            shape=lambda a, grad_output, offsets: (offsets.shape[0], a.shape[1], grad_output.shape[1]),
            terms=lambda a, grad_output, offsets: longest(offsets),
            magnitude=lambda a, grad_output, offsets: reference_backward(a.abs(), grad_output.abs(), offsets),
        )
    },
    inputs=inputs_backward,
    check=check_backward,
    reference=reference_backward,
    eager=eager_backward,
    cost=cost_backward,
    cases=CASES,
    sizes=SIZES[:2],
    dtypes=KERNEL_DTYPES,
    autocast="low_precision",
    opponents={"torch._grouped_mm": grouped_mm_backward},
)
