"""matmul by wmma and mma.sync: every tile, layout and alignment exactly, registers, bank conflicts."""

from __future__ import annotations

import operator
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import combinations, examples

from warpwise import operation, ops
from warpwise.gemm import mma_sync as mma
from warpwise.gemm.operands import lines
from warpwise.lab.explain import explain_rung
from warpwise.operation import Case
from warpwise.ops.matmul.rungs import MMA_SYNC
from warpwise.ops.matmul_tf32.rungs import MMA_SYNC as MMA_SYNC_TF32

DTYPES = (torch.bfloat16, torch.float16, torch.int8)
WIDTHS = (torch.bfloat16, torch.int8)  # float16's kernels differ from bfloat16's in the names of two instructions
ELEMENTS = {torch.bfloat16: "__nv_bfloat16", torch.float16: "__half", torch.int8: "signed char"}
NAMED = operator.attrgetter("name")
SUMS = {torch.bfloat16: "float, __nv_bfloat16", torch.float16: "float, __half", torch.int8: "int, int"}


def integers(rows: int, columns: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Every sum of their products is exact in the result's type."""
    generator = torch.Generator().manual_seed(seed)
    top = 127 if dtype == torch.int8 else 1
    return torch.randint(-top - (dtype == torch.int8), top + 1, (rows, columns), generator=generator).to(dtype)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double()).to(torch.int32 if a.dtype == torch.int8 else a.dtype)


def laid(
    rows: int, columns: int, dtype: torch.dtype, seed: int, transposed: bool, shift: int, gap: int
) -> torch.Tensor:
    """A matrix ``shift`` elements into its storage, ``gap`` elements between its lines, which may be its columns."""
    lines, length = (columns, rows) if transposed else (rows, columns)
    pitch = length + gap
    storage = integers(1, shift + lines * pitch, dtype, seed)[0]
    matrix = storage[shift:].view(lines, pitch)[:, :length]
    return matrix.t() if transposed else matrix


@settings(max_examples=examples(16), deadline=None)
@given(
    m=st.integers(1, 140),
    n=st.integers(1, 140),
    k=st.integers(1, 150),
    shift=st.sampled_from([0, 0, 1, 2, 8]),
    gap=st.sampled_from([0, 0, 3, 4]),
    transposed=st.tuples(st.booleans(), st.booleans()),
    dtype=st.sampled_from(WIDTHS),
)
def test_any_size_alignment_and_layout(m, n, k, shift, gap, transposed, dtype):
    a, b = laid(m, k, dtype, 0, transposed[0], shift, gap), laid(k, n, dtype, 1, transposed[1], shift, gap)
    assert torch.equal(ops.matmul(a, b, rung="k11"), product(a, b))


@pytest.mark.parametrize(
    "tiling,transposed,dtype", combinations(MMA_SYNC.candidates, (False, True), WIDTHS, names=[NAMED])
)
@pytest.mark.one_in(3)
def test_every_tile(tiling, transposed, dtype):
    """More tiles than blocks: k-tiles of the next tile are loaded during an epilogue; ragged at each edge."""
    a, b = laid(264, 152, dtype, 0, transposed, 0, 8), laid(152, 272, dtype, 1, transposed, 0, 8)
    assert torch.equal(ops.matmul(a, b, rung=f"k11@{mma.sized(tiling, dtype).name}"), product(a, b))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("tiling", MMA_SYNC.candidates, ids=lambda tiling: tiling.name)
def test_every_tile_on_the_gpu(tiling, transposed, dtype):
    """About 45 of the largest tiles for each SM: the pipeline continues across many tiles."""
    m, n, k = 12_000, 16_000, 520
    a, b = (
        laid(rows, columns, dtype, seed, is_transposed, 0, 8).cuda()
        for rows, columns, seed, is_transposed in ((m, k, 0, transposed[0]), (k, n, 1, transposed[1]))
    )
    assert torch.equal(ops.matmul(a, b, rung=f"k11@{mma.sized(tiling, dtype).name}"), product(a, b))


def test_configurations_are_those_that_fit():
    a = torch.empty(4, 4, dtype=torch.bfloat16)
    names = operation.get("matmul").rung("k11").configs(a, a)
    assert len(set(names)) == len(MMA_SYNC.candidates)
    assert names[0] == "64x64x32_w32x32_s4", "a small product on a CPU"
    assert "128x256x128_w64x64_s4" in operation.get("matmul").rung("k11").configs(a.char(), a.char())


def test_an_operand_without_a_contiguous_dimension_is_copied():
    a = integers(20, 60, torch.bfloat16)[::2, ::2]
    found = lines(a, 1)
    assert (found.matrices.is_contiguous(), found.k_major, found.stride) == (True, True, 30)
    assert torch.equal(ops.matmul(a, a.t(), rung="k11"), product(a, a.t()))


def test_lines_are_read_in_place():
    matrix = torch.empty(6, 16, dtype=torch.float16)
    assert lines(matrix, 1)[1:] == (True, 16, 0, 16)
    assert lines(matrix.t(), 1)[1:] == (False, 16, 0, 16)
    assert lines(matrix[:, :8], 0)[1:] == (False, 16, 0, 16)
    assert lines(matrix[:, :7], 0)[1:] == (False, 16, 0, 2), "part of a unit exists"
    assert lines(matrix.flatten()[2:82].view(8, 10), 1)[1:] == (True, 10, 0, 4)
    assert lines(matrix.flatten()[1:91].view(10, 9), 1)[1:] == (True, 9, 0, 2)
    assert lines(matrix[:1].expand(4, 16), 1)[1:] == (True, 0, 0, 16)
    for step in (1, 17, 2**33):  # to a next line, where there is none
        assert lines(matrix.flatten()[:16].as_strided((1, 16), (step, 1)), 1)[1:] == (True, 16, 0, 16), step
    assert lines(matrix[0, :1].as_strided((1, 1), (2**33, 2**33)), 1)[1:] == (True, 1, 0, 2)


@pytest.mark.parametrize(
    "kind,transposed,place",
    combinations(
        [("matmul", torch.float16), ("matmul", torch.int8), ("matmul_tf32", torch.float32)],
        [(False, False), (True, False), (False, True), (True, True)],
        [0, -1],
        names=[lambda kind: f"{kind[0]}-{kind[1]}", str, lambda place: "smallest" if place else "largest"],
    ),
)
def test_the_machine_code_has_no_bank_conflicts(kind, transposed, place):
    """Copies to swizzled k-tiles and loads of fragments, executed and counted; results equal the emulator's."""
    op, dtype = kind
    found, tilings = operation.get(op), {"matmul": MMA_SYNC.candidates, "matmul_tf32": MMA_SYNC_TF32.candidates}[op]

    def inputs(case, dtype, device, seed):
        a, b = found.spec.arguments(case, dtype, device, seed)
        return {
            name: x.t() if is_transposed else x for name, x, is_transposed in zip("ab", (a, b), transposed, strict=True)
        }

    op = replace(found, spec=replace(found.spec, inputs=inputs))
    rung = op.rung("mma_sync").at(mma.sized(tilings[place], dtype).name)
    (explained,) = explain_rung(op, rung, Case("whole_tiles", {"m": 256, "n": 256, "k": 256}), dtype, blocks=1)
    assert explained.agrees.status != "no", explained.agrees.text
    assert explained.metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"] > 4000
    assert explained.metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"] == 0
