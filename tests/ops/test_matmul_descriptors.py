"""matmul's k14: every layout without copies, every configuration, what TMA cannot address."""

from __future__ import annotations

import pytest
import torch

from warpwise import operation, ops
from warpwise.gemm import boxes as gemm_boxes

OP = operation.get("matmul")
RUNG = OP.rung("k14")


def integers(rows: int, columns: int, seed: int = 0, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """Small integers: every partial sum is exact in float32 and every result in float16, so results must be equal."""
    return torch.randint(-3, 4, (rows, columns), generator=torch.Generator().manual_seed(seed)).to(dtype)


def exact(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.double() @ b.double()).to(a.dtype)


@pytest.mark.parametrize("config", [tile.name for tile in gemm_boxes.TILES])
@pytest.mark.one_in(3)
def test_every_configuration(config):
    a, b = integers(136, 72), integers(72, 264, seed=1)
    assert torch.equal(ops.matmul(a, b, rung=f"k14@{config}"), exact(a, b))


@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
def test_any_layout_without_copies(a_transposed, b_transposed, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda self: pytest.fail("copied"))
    a = integers(72, 136).t() if a_transposed else integers(136, 80)[:, 8:]
    b = integers(264, 72, seed=1).t() if b_transposed else integers(80, 264, seed=1)[:72]
    assert torch.equal(ops.matmul(a, b, rung="k14"), exact(a, b))


def test_programs_that_take_several_tiles(monkeypatch):
    """A grid as large as the GPU, here of one SM, walks all tiles; the last group of tile rows is lower than the
    others."""
    monkeypatch.setattr(gemm_boxes, "sm_count", lambda tensor: 1)
    a, b = integers(9 * 64 + 8, 40), integers(40, 200, seed=1)
    assert torch.equal(ops.matmul(a, b, rung="k14@64x64x64_w4_s4"), exact(a, b))


def test_infinity_and_nan_spread_along_their_row_only():
    a, b = torch.ones(5, 8).half(), torch.ones(8, 8).half()
    a[1, 6], a[2, 0] = float("inf"), float("nan")
    product = ops.matmul(a, b, rung="k14")
    assert product[1].tolist() == [float("inf")] * 8
    assert product[2].isnan().all()
    assert (product[[0, 3, 4]] == 8).all()


def test_the_large_tile_comes_with_three_stages():
    row = torch.empty(1, 1, dtype=torch.half)
    large = row.expand(8192, 8192)
    with operation.assume_sm_count(132):
        found = gemm_boxes.configs(large, large)
        assert gemm_boxes.configs(row.expand(512, 4096), row.expand(4096, 512))[0] == "64x64x64_w4_s4"
    assert found[0] == "128x256x64_w8_s3"
    assert sorted(found) == sorted(tile.name for tile in gemm_boxes.TILES)


def test_what_tma_cannot_address_is_refused():
    a, b = integers(8, 16), integers(16, 8)
    assert OP.refusal(RUNG, a, b) is None
    assert "takes n in multiples of 8, so that rows of C begin on 16 bytes, not 7" in RUNG.limits(a, b[:, :7])
    assert "begin on multiples of 8 elements, not strides (15, 1)" in RUNG.limits(integers(8, 15), b[:15])
    assert "begin on multiples of 8 elements, not strides (32, 2)" in RUNG.limits(integers(8, 32)[:, ::2], b)
    assert "begin on multiples of 8 elements, not strides (0, 1)" in RUNG.limits(a[:1].expand(8, 16), b)
    shifted = torch.empty(8 * 16 + 1, dtype=torch.half)[1:].view(8, 16)
    assert RUNG.limits(shifted, b) == "takes a that begins on 16 bytes"
    assert RUNG.limits(a, shifted.view(16, 8)) == "takes b that begins on 16 bytes"


@pytest.mark.gpu
@pytest.mark.parametrize("config", [tile.name for tile in gemm_boxes.TILES])
def test_on_the_gpu(config):
    m, n, k = 1000, 3000, 776
    a, b = (torch.randn(size, device="cuda", dtype=torch.bfloat16) for size in ((m, k), (n, k)))
    truth = a.double() @ b.double().t()
    made = ops.matmul(a, b.t(), rung=f"k14@{config}").double()
    torch.testing.assert_close(made, truth, rtol=1e-2, atol=1e-2 * truth.abs().max().item())
