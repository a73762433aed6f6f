"""k19_padded, and k18 for int8: rows that do not begin on 16 bytes, of every length and orientation, exactly."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

from warpwise import operation, ops
from warpwise.gemm import padding
from warpwise.gemm import persistent as gemm_config

RUNG = operation.get("matmul").rung("k19")
LAYOUTS = [(a, b) for a in (False, True) for b in (False, True)]
DTYPES = (torch.float16, torch.bfloat16, torch.int8)


def integers(
    rows: int,
    columns: int,
    transposed: bool,
    seed: int,
    dtype: torch.dtype,
    shift: int = 0,
    gap: int = 0,
    device: str = "cpu",
) -> torch.Tensor:
    """Values of -1, 0 and 1, ``shift`` elements into their storage, ``gap`` elements between rows or columns."""
    generator = torch.Generator(device).manual_seed(seed)
    lines, length = (columns, rows) if transposed else (rows, columns)
    storage = torch.randint(-1, 2, (shift + lines * (length + gap),), generator=generator, device=device).to(dtype)
    matrix = storage[shift:].view(lines, length + gap)[:, :length]
    return matrix.t() if transposed else matrix


@contextlib.contextmanager
def room_for(m: int, n: int, dtype: torch.dtype, ahead: int) -> Iterator[torch.Tensor]:
    """A C on the GPU, ``ahead`` elements into memory that is as it was when the context ends."""
    room = torch.full((m * n + 128,), 77, device="cuda", dtype=dtype)
    before, c, after = room.split((ahead, m * n, 128 - ahead))
    yield c.view(m, n)
    assert bool((before == 77).all() and (after == 77).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shift,gap", [(0, 0), (1, 0), (3, 2), (8, 1)])
def test_the_pass_copies_lines_from_any_byte_on(dtype, shift, gap):
    """Emulated, so that a unit of 16 bytes that reached past either end of the memory would be found."""
    for lines, length in ((1, 1), (5, 3), (9, 17), (3, 777), (33, 128)):
        first = integers(lines, length, False, 0, dtype, shift, gap)
        second = integers(length, lines, False, 1, dtype, gap, shift)
        for operands in ((first,), (first, second)):
            for operand, copy in zip(operands, padding.padded(*operands), strict=True):
                assert copy.stride(0) * copy.element_size() % 128 == 0 and copy.shape[0] % 16 == 0
                assert torch.equal(copy[: operand.shape[0], : operand.shape[1]], operand)


def test_lines_that_lie_one_upon_the_other():
    row = integers(1, 37, False, 0, torch.bfloat16)
    assert torch.equal(padding.padded(row.expand(6, 37))[0][:6, :37], row.expand(6, 37))


def test_only_operands_that_tma_cannot_address_are_copied():
    aligned, ragged = torch.randn(24, 16).half(), torch.randn(16, 33).half()
    (read_a, across), (read_b, by_columns) = padding.tma_operands(aligned, ragged)
    assert read_a.data_ptr() == aligned.data_ptr() and not across
    assert torch.equal(read_b, ragged) and read_b.stride() == (64, 1) and not by_columns
    (read, transposed), _ = padding.tma_operands(ragged.t(), aligned)
    assert transposed and torch.equal(read.t(), ragged.t())
    (read, transposed), _ = padding.tma_operands(ragged[:, ::2], aligned)
    assert torch.equal(read, ragged[:, ::2]) and not transposed


@pytest.mark.parametrize("transposed", LAYOUTS)
@pytest.mark.parametrize("m,n,k", [(33, 17, 20), (32, 16, 48), (5, 64, 7), (64, 20, 32)])
def test_byte_operands_become_k_major(m, n, k, transposed):
    a, b = integers(m, k, transposed[0], 0, torch.int8), integers(k, n, transposed[1], 1, torch.int8)
    for operand, made in zip((a, b.t()), padding.k_major_operands(a, b.t()), strict=True):
        assert torch.equal(made, operand)
        assert made.stride(1) == 1 and made.stride(0) % 16 == 0 and made.data_ptr() % 16 == 0


def test_what_is_taken():
    assert RUNG.limits(torch.empty(3, 5).half(), torch.empty(5, 7).half()) is None
    assert RUNG.configs(torch.empty(64, 5).half(), torch.empty(5, 7).half()) == (), "k16 multiplies few rows"
    assert RUNG.configs(torch.empty(65, 5).half(), torch.empty(5, 7).half())[0] in {
        config.name for config in gemm_config.CONFIGS
    }


def test_aligned_operands_are_refused():
    a, b = torch.empty(65, 64).half(), torch.empty(64, 24).half()
    assert "k12_overlapped_epilogue takes aligned ones" in (RUNG.limits(a, b) or "")
    assert "k12_overlapped_epilogue takes aligned ones" in (RUNG.limits(a, torch.empty(24, 64).half().t()) or "")
    assert RUNG.limits(a, torch.empty(64, 25).half()) is None, "rows of b and c"
    assert RUNG.limits(torch.empty(65, 65).half()[:, 1:], b) is None, "rows of a"
    assert RUNG.limits(a, torch.empty(25, 64).half().t()) is None, "rows of c"


@pytest.mark.gpu
@pytest.mark.parametrize("transposed", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shift", [0, 1, 3])
def test_every_layout_exactly(transposed, dtype, shift):
    """C's rows end and begin between words."""
    result = torch.int32 if dtype == torch.int8 else dtype
    rung = operation.get("matmul").rung("k18") if dtype == torch.int8 else RUNG
    for m, n, k in (
        (64, 65, 64),
        (3, 5, 7),
        (129, 259, 130),
        (333, 1023, 777),
        (700, 1281, 200),
        (130, 190, 40),
        (1, 1, 1),
    ):
        a = integers(m, k, transposed[0], 0, dtype, shift, device="cuda")
        b = integers(k, n, transposed[1], 1, dtype, shift, shift, device="cuda")
        with room_for(m, n, result, 32 + shift) as c:
            rung.launch(c, a, b)
            assert torch.equal(c, (a.double() @ b.double()).to(result)), (m, n, k)


@pytest.mark.gpu
@pytest.mark.parametrize("config", gemm_config.CONFIGS, ids=lambda config: config.name)
def test_every_configuration_on_the_gpu(config):
    for m, n, k in ((333, 1023, 777), (2050, 3081, 71)):
        a = integers(m, k, False, 0, torch.bfloat16, device="cuda")
        b = integers(k, n, False, 1, torch.bfloat16, device="cuda")
        expected = (a.float() @ b.float()).to(torch.bfloat16)
        assert torch.equal(ops.matmul(a, b, rung=f"k19@{config.name}"), expected), (m, n, k)
