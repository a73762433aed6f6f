"""Operands of a GEMM: checks, random operands, cost, and views that TMA can address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from warpwise.operation import Case, Cost, cdiv, check_same, check_tensor, draw

HALVES = (torch.float16, torch.bfloat16)
KERNEL_DTYPES = (torch.float32, *HALVES)
ALIGNMENT = 16  # bytes: the address and the strides of a tensor map are multiples of it


def check_operands(op: str, a: torch.Tensor, b: torch.Tensor, dtypes: Sequence[torch.dtype]) -> None:
    """Raise unless a (M, K) and b (K, N) can be multiplied, have one of ``dtypes`` and are on one device."""
    check_tensor(op, "a", a, dtypes, dims=(2,))
    check_tensor(op, "b", b, dtypes, dims=(2,))
    check_same(op, "ab", a, b)
    check_depth(op, a, b)


def check_depth(op: str, a: torch.Tensor, b: torch.Tensor) -> None:
    """Raise ``ValueError`` unless matrices a (M, K) and b (K, N) have the same K."""
    if b.shape[0] != a.shape[1]:
        raise ValueError(
            f"{op}: expected b with as many rows as a has columns, a (M, K) and b (K, N), "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )


def sizes(a: torch.Tensor, b: torch.Tensor) -> tuple[int, int, int]:
    """m, n and k of a (M, K) and b (K, N)."""
    return a.shape[0], b.shape[1], a.shape[1]


class Shape(NamedTuple):
    """The sizes of a (batch, m, k) times b (batch, k, n)."""

    batch: int
    m: int
    n: int
    k: int

    @staticmethod
    def of(a: torch.Tensor, b: torch.Tensor) -> Shape:
        """The sizes of a and b, matrices or batches; a matrix is multiplied with every matrix of the other's batch."""
        batch = next((matrices.shape[0] for matrices in (a, b) if matrices.dim() == 3), 1)
        return Shape(batch, a.shape[-2], b.shape[-1], a.shape[-1])


def describe(a: torch.Tensor, b: torch.Tensor, *rest: object) -> tuple[str, dict[str, int]]:
    """The kind and the sizes of a and b. n: row-major, t: column-major; "unaligned": rows not aligned to 16 bytes.

    >>> describe(torch.empty(8, 16), torch.empty(24, 16).t())
    ("nt", {"m": 8, "n": 24, "k": 16})

    Of batches of matrices the sizes begin with "batch".
    """
    (first, a_aligned), (second, b_aligned) = _layout(a), _layout(b)
    found = Shape.of(a, b)._asdict()
    if a.dim() == b.dim() == 2:
        del found["batch"]
    return first + second + ("" if a_aligned and b_aligned else " unaligned"), found


def _layout(matrices: torch.Tensor) -> tuple[str, bool]:
    """The letter of a matrix or of a batch, and True if every row or column begins on 16 bytes."""
    matrix = matrices[0] if matrices.dim() == 3 and len(matrices) else matrices
    size, (rows, columns) = matrix.element_size(), matrix.stride()[-2:]
    batch = matrices.stride(0) if matrices.dim() == 3 and len(matrices) > 1 else 0
    if columns == 1 or matrix.is_contiguous():
        letter, step = "n", rows
    elif rows == 1:
        letter, step = "t", columns
    else:  # copied
        return "n", matrix.shape[-1] * size % 16 == 0 and batch * size % 16 == 0
    return letter, step * size % 16 == 0 and batch * size % 16 == 0 and matrix.data_ptr() % 16 == 0


def draw_operands(case: Case, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, torch.Tensor]:
    """Random a (M, K) and b (K, N) of the case's sizes m, n and k."""
    m, n, k = (case.sizes[name] for name in ("m", "n", "k"))
    return {
        "a": draw((m, k), dtype, device, 2 * seed, case.values, power=2),
        "b": draw((k, n), dtype, device, 2 * seed + 1, case.values, power=2),
    }


def product_cost(a: torch.Tensor, b: torch.Tensor) -> Cost:
    """Each operand is read once and C is written once; an element of C has 4 bytes for int8 operands."""
    m, n, k = sizes(a, b)
    written = m * n * (4 if a.dtype == torch.int8 else a.element_size())
    return Cost(bytes=(m * k + k * n) * a.element_size() + written, flops=2 * m * n * k)


def product_reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The reference in float64, which is exact for int8 operands too."""
    return a.double() @ b.double()


def product_magnitude(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The sums of the absolute values of the terms, in float64."""
    return a.double().abs() @ b.double().abs()


def addressable(matrix: torch.Tensor) -> torch.Tensor | None:
    """``matrix``, of 2-byte elements, if TMA can address it (each row begins on a multiple of 16 bytes), else None."""
    rows, columns = matrix.shape
    if (matrix.stride(1) != 1 and columns > 1) or matrix.data_ptr() % ALIGNMENT:
        return None
    pitch = matrix.stride(0) if rows > 1 else cdiv(columns, 8) * 8
    if pitch % 8 or pitch < columns:
        return None
    return matrix.as_strided((rows, columns), (pitch, 1))


def row_major_copy(matrix: torch.Tensor) -> torch.Tensor:
    """A row-major copy; unlike ``contiguous`` it also copies a row-major matrix that is not 16-byte aligned."""
    return matrix.clone(memory_format=torch.contiguous_format)


def addressable_view(matrix: torch.Tensor) -> tuple[torch.Tensor, bool] | None:
    """``matrix`` or its transpose, whichever TMA can address in place, and True for the transpose; None if neither."""
    for transposed, view in ((False, matrix), (True, matrix.t())):
        if (rows := addressable(view)) is not None:
            return rows, transposed
    return None


def tma_operand(matrix: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """``addressable_view``, or a row-major copy if TMA can address neither the matrix nor its transpose."""
    return addressable_view(matrix) or (row_major_copy(matrix), False)


def on_16_bytes(matrix: torch.Tensor) -> bool:
    """True if each row begins on a multiple of 16 bytes. TMA writes 16 bytes at a time, also past the end of a row."""
    aligned = matrix.data_ptr() % ALIGNMENT == 0 and matrix.stride(0) * matrix.element_size() % ALIGNMENT == 0
    return aligned and matrix.stride(0) >= matrix.shape[1]


class Lines(NamedTuple):
    """An operand as lines of contiguous elements: strides of lines and of matrices in elements; ``word``: the bytes,
    16, 4 or an element's, that divide the address and the length of every line."""

    matrices: torch.Tensor
    k_major: bool
    stride: int
    batch_stride: int
    word: int


def lines(matrices: torch.Tensor, k_dimension: int) -> Lines:
    """A matrix or a batch, with K as dimension 0 or 1 of a matrix: copied if neither of these is contiguous."""
    shape, size, outer = matrices.shape[-2:], matrices.element_size(), matrices.dim() - 2

    def pitch(at: int) -> int:  # PyTorch may report any stride for a dimension of size 1
        return matrices.stride(outer + at) if shape[at] > 1 else shape[1 - at]

    dense = [at for at in (1, 0) if matrices.stride(outer + at) == 1 or shape[at] == 1]
    dense = [at for at in dense if pitch(1 - at) < 2**31]
    if not dense:
        matrices, dense = matrices.contiguous(), [1]
    stride, step = pitch(1 - dense[0]), matrices.stride(0) if outer and matrices.shape[0] > 1 else 0
    aligned = matrices.data_ptr() | size * (stride | shape[dense[0]] | step)
    word = 16 if aligned % 16 == 0 else 4 if aligned % 4 == 0 else size
    return Lines(matrices, dense[0] == k_dimension, stride, step, word)


def flags(*values: bool) -> str:
    """Template arguments in C++."""
    return ", ".join(str(value).lower() for value in values)
