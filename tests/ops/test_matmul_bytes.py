"""matmul of int8 on Hopper: transposed operands, operands read in place, refused arguments."""

from __future__ import annotations

import pytest
import torch

from warpwise import operation
from warpwise.gemm import k_major


def drawn(rows: int, columns: int) -> torch.Tensor:
    return torch.randint(-128, 128, (rows, columns), generator=torch.Generator().manual_seed(0)).to(torch.int8)


@pytest.mark.parametrize("rows,columns", [(4, 4), (128, 128), (132, 260), (272, 36), (16, 300)])
def test_bytes_are_transposed(rows, columns):
    matrix = drawn(rows, columns)
    assert torch.equal(k_major.transposed(matrix), matrix.t())


@pytest.mark.parametrize("rows,columns", [(1, 1), (32, 32), (33, 70), (100, 7)])
def test_words_are_transposed(rows, columns):
    matrix = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))
    assert torch.equal(k_major.transposed(matrix), matrix.t())


def test_what_lies_along_k_is_not_copied():
    matrix = drawn(16, 32)
    assert k_major.k_major(matrix) is matrix
    across = k_major.k_major(matrix.t())
    assert across.is_contiguous()
    assert torch.equal(across, matrix.t())
    gaps = drawn(16, 64)[:, ::2]
    assert torch.equal(k_major.k_major(gaps), gaps)
    odd = drawn(16, 6)  # rows of 6 bytes: the transposing kernel reads words of 4
    assert torch.equal(k_major.k_major(odd.t()), odd.t())
    shifted = drawn(1, 513)[0, 1:].view(16, 32)
    assert k_major.k_major(shifted).data_ptr() % 16 == 0
    assert torch.equal(k_major.k_major(shifted.t()), shifted.t())


def test_what_is_refused():
    op = operation.get("matmul")
    rung = op.rung("k22")
    assert op.refusal(rung, drawn(8, 16), drawn(16, 8)) is None
    assert rung.limits(drawn(8, 16), drawn(16, 8)) is None
    assert "not n = 6 and k = 16" in rung.limits(drawn(8, 16), drawn(16, 6))
    assert "not n = 8 and k = 24" in rung.limits(drawn(8, 24), drawn(24, 8))


@pytest.mark.gpu
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("m,n,k", [(256, 256, 128), (300, 516, 400), (1, 4, 16), (1024, 1000, 2064)])
def test_exact_on_a_gpu(m, n, k, across):
    a, b = drawn(m, k), drawn(k, n) if across else drawn(n, k).t()
    made = operation.get("matmul")(a.cuda(), b.cuda(), rung="k22")
    assert torch.equal(made.cpu().double(), a.double() @ b.double())
