"""k12_overlapped_epilogue: what it compiles to, which tile it takes, and every orientation exactly."""

from __future__ import annotations

import pytest
import torch

from warpwise import operation, ops
from warpwise.gemm import persistent as gemm_config
from warpwise.gemm.operands import tma_operand

RUNG = operation.get("matmul").rung("k12")
LAYOUTS = [(a, b) for a in (False, True) for b in (False, True)]


def integers(rows: int, columns: int, transposed: bool, seed: int, device: str = "cpu", dtype=torch.bfloat16):
    """Small integers, whose sums over k up to 256 are exact in every dtype; ``transposed``: column-major in memory."""
    generator = torch.Generator(device).manual_seed(seed)
    shape = (columns, rows) if transposed else (rows, columns)
    made = torch.randint(-1, 2, shape, generator=generator, device=device).to(dtype)
    return made.t() if transposed else made


# An orientation changes two bits of an instruction and a stride: all four for the largest tile alone.
COMPILED = [(config, False, True) for config in gemm_config.CONFIGS] + [
    (gemm_config.CONFIGS[0], *layout) for layout in LAYOUTS
]


@pytest.mark.parametrize("config", [*gemm_config.CONFIGS, *gemm_config.NARROW], ids=lambda config: config.name)
def test_every_configuration_fits_shared_memory(config):
    assert config.shared <= 227 * 1024


def test_what_is_taken():
    a, b = torch.empty(16, 24, dtype=torch.half), torch.empty(24, 32, dtype=torch.half)
    assert RUNG.limits(a, b) is None
    assert RUNG.limits(a[:5], b) is None, "any m"
    assert "n in multiples of 8" in RUNG.limits(a, b[:, :30])
    assert RUNG.limits(a[:, :20], b[:20]) is None, "rows begin on 16 bytes in place, for any k"
    ragged = torch.empty(16, 20, dtype=torch.half)
    assert "a whose rows or columns begin at multiples of 16 bytes" in RUNG.limits(ragged, b[:20])
    assert RUNG.limits(ragged.t().contiguous().t(), b[:20]) is None, (
        "k needs no multiple of 8 where m runs along the rows"
    )
    assert operation.get("matmul").refusal(RUNG, a, b) is None


def test_what_is_read_in_place():
    wide = torch.randn(64, 48).half()
    for view in (wide, wide[3:, 8:40], wide.t(), wide.t()[8:, 5:]):
        read, transposed = tma_operand(view)
        assert read.data_ptr() == view.data_ptr() and transposed == (view.stride(1) != 1)
    for view in (wide[:, ::2], wide[:, 1:], wide[:1].expand(9, 48), wide.view(-1)[3:51].view(2, 24)):
        read, transposed = tma_operand(view)
        assert torch.equal(read, view) and read.data_ptr() != view.data_ptr() and read.stride() == (view.shape[1], 1)
        assert not transposed


@pytest.mark.parametrize("m,n,k", [(8192, 8192, 8192), (512, 4096, 4096), (512, 512, 512)])
def test_every_configuration_is_ranked(m, n, k):
    a, b = (torch.empty(*shape, dtype=torch.half, device="meta") for shape in ((m, k), (k, n)))
    assert sorted(gemm_config.configs(a, b)) == sorted(config.name for config in gemm_config.CONFIGS)


def test_waves_are_even():
    config = gemm_config.CONFIGS[0]
    assert config.clusters(256, 132) == 64, "four waves need no more"
    assert config.clusters(66, 132) == 66
    assert config.clusters(67, 132) == 34
    assert config.clusters(1, 132) == 1


def test_an_unknown_configuration():
    with pytest.raises(ValueError, match="expected a configuration of the form MxNxK.*, got '7x7'"):
        gemm_config.tile_scheduler(torch.empty(8, 8), torch.empty(8, 8), "7x7")


@pytest.mark.parametrize(
    "config,layout", [("128x224x64_s4_c1x1", (False, False)), ("128x248x64_s4_c2x1", (True, True))]
)
@pytest.mark.one_in(2)
def test_tiles_narrower_than_their_boxes(config, layout):
    a, b = integers(136, 64, layout[0], 0), integers(64, 456, layout[1], 1)
    assert torch.equal(ops.matmul(a, b, rung=f"k12@{config}"), (a.double() @ b.double()).to(a.dtype))


@pytest.mark.gpu
@pytest.mark.parametrize("config", [*gemm_config.CONFIGS, *gemm_config.NARROW], ids=lambda config: config.name)
@pytest.mark.parametrize("a_transposed,b_transposed", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_layout_exactly(config, a_transposed, b_transposed, dtype):
    rung = RUNG.at(config.name)
    for m, n, k in ((128, 256, 64), (1, 8, 8), (1003, 520, 248), (2050, 3080, 72), (777, 128, 136)):
        if a_transposed:
            m = m // 8 * 8 or 8
        a, b = integers(m, k, a_transposed, 0, "cuda", dtype), integers(k, n, b_transposed, 1, "cuda", dtype)
        c = torch.full((m, n), float("nan"), device="cuda", dtype=dtype)
        rung.launch(c, a, b)
        assert torch.equal(c, (a.double() @ b.double()).to(dtype)), (m, n, k)


@pytest.mark.gpu
def test_views_in_place():
    """Rows with gaps, starts inside, a depth that is no multiple of 8, and views that only a copy makes readable."""
    wide_a, wide_b = integers(700, 512, False, 0, "cuda"), integers(512, 904, False, 1, "cuda")
    for a, b in (
        (wide_a[3:401, 8:200], wide_b[16:208, 64:640]),
        (wide_a[:, :130], wide_b[:130, :640]),
        (wide_a.t()[:300, 8:208], wide_b.t()[8:208, :304]),
        (wide_a[:640, 8:208], wide_a[:304, 8:208].t()),
        (wide_a[:, ::2], wide_b[:256, 1:641]),
        (wide_a[:1].expand(130, 512), wide_b[:, :640]),
    ):
        depth = min(a.shape[1], b.shape[0])
        a, b = a[:, :depth], b[:depth]
        assert torch.equal(ops.matmul(a, b, rung="k12"), (a.double() @ b.double()).to(a.dtype))


@pytest.mark.gpu
def test_tiles_of_many_waves():
    """Tiles of many waves, and a K of fewer than the four k-tiles during which a tile is stored."""
    for m, n, k in ((3000, 6000, 64), (8192, 4096, 128), (2048, 20480, 8)):
        a, b = integers(m, k, False, 0, "cuda"), integers(k, n, False, 1, "cuda")
        assert torch.equal(ops.matmul(a, b, rung="k12"), (a.float() @ b.float()).to(a.dtype))
