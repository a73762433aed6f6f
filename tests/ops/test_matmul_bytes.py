"""matmul of int8 on Hopper: transposed operands, operands read in place, refused arguments."""

from __future__ import annotations

import pytest
import torch

from warpwise import operation
from warpwise.gemm import k_major, padding


def drawn(rows: int, columns: int) -> torch.Tensor:
    return torch.randint(-128, 128, (rows, columns), generator=torch.Generator().manual_seed(0)).to(torch.int8)


@pytest.mark.parametrize("rows,columns", [(4, 4), (128, 128), (132, 260), (272, 36), (16, 300)])
def test_bytes_are_transposed(rows, columns):
    matrix = drawn(rows, columns)
    assert torch.equal(k_major.transposed_bytes(matrix), matrix.t())


def test_what_lies_along_k_is_not_copied():
    def k_major_of(matrix: torch.Tensor) -> torch.Tensor:
        (found,) = padding.k_major_operands(matrix)
        assert torch.equal(found, matrix)
        assert found.stride(1) == 1 and found.stride(0) % 16 == found.data_ptr() % 16 == 0
        return found

    matrix = drawn(16, 32)
    assert k_major_of(matrix).data_ptr() == matrix.data_ptr()
    assert k_major_of(drawn(16, 64)[:, :32]).stride(0) == 64, "rows may have gaps between them"
    k_major_of(matrix.t())
    k_major_of(drawn(16, 64)[:, ::2])
    k_major_of(drawn(16, 6).t())  # rows of 6 bytes: the transposing kernel reads words of 4
    shifted = drawn(1, 513)[0, 1:].view(16, 32)
    k_major_of(shifted)
    k_major_of(shifted.t())


def test_what_is_refused():
    op = operation.get("matmul")
    rung = op.rung("k18")
    assert op.refusal(rung, drawn(8, 16), drawn(16, 8)) is None
    assert rung.limits(drawn(8, 16), drawn(16, 8)) is None
    assert rung.limits(drawn(8, 24), drawn(24, 6)) is None, "copied"
    long = torch.empty(2**21, 16, dtype=torch.int8, device="meta")
    assert "takes m and k up to 2097120" in rung.limits(long, drawn(16, 8))


@pytest.mark.gpu
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("m,n,k", [(256, 256, 128), (300, 516, 400), (1, 4, 16), (1024, 1000, 2064)])
def test_exact_on_a_gpu(m, n, k, across):
    a, b = drawn(m, k), drawn(k, n) if across else drawn(n, k).t()
    made = operation.get("matmul")(a.cuda(), b.cuda(), rung="k18")
    assert torch.equal(made.cpu().double(), a.double() @ b.double())
