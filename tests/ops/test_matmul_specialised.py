"""k13, warp-specialised float32: machine code, limits, and on a GPU every tile with every kind of load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from tests.sampled import thinned

from warpwise import cuda, operation, ops
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.simt import K_MAJOR, MN_MAJOR, TMA, operand
from warpwise.lab.register_banks import busiest_loop
from warpwise.machine.disassemble import disassemble
from warpwise.ops.matmul import k13_warp_specialised as k13

HERE = Path(ops.__path__[0]) / "matmul"
from warpwise.ops.matmul.k13_warp_specialised import CONFIGS, WARP_SPECIALISED

RUNG = "k13_warp_specialised"
LARGEST, SMALLEST = CONFIGS[0], CONFIGS[-1]
SOME = [
    LARGEST,
    *(tiling for tiling in CONFIGS if tiling.name in ("32x256x32_s5", "64x128x32_s8")),
    SMALLEST,
]  # to compile


STORE_TILES = """
#include <warpwise/core/float4.cuh>
#include <warpwise/sm90/gemm_simt.cuh>
#include "epilogue.cuh"

// c: (m, n); the value of an element is 1000 * row + column + 0.5; with split sums, one split has the row's term.
template <int BM, int BN>
__global__ void store_tiles(float* c, int m, int n) {
  using W = warpwise::Warps<BM, BN>;
  extern __shared__ float staging[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own = warp % W::tiles, share = warp / W::tiles;
  const int across = (n + BN - 1) / BN;
  const int2 at = {static_cast<int>(blockIdx.x) / across * BM, static_cast<int>(blockIdx.x) % across * BN};
  float sums[8][16];
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 16; ++j) {
      const int row = at.x + own / W::tiles_n * W::rows + lane / W::lanes_n * 4 + i / 4 * (W::rows / 2) + i % 4;
      const int in_warp = lane % W::lanes_n * 4 + j / 4 * (W::columns / 4) + j % 4;
      const int column = at.y + own % W::tiles_n * W::columns + in_warp;
      const float of_row = share == 0 ? row * 1000.0f : 0.0f;
      const float of_column = share == (W::split > 1) ? column + 0.5f : 0.0f;
      sums[i][j] = of_row + of_column;
    }
  warpwise::store_tile<BM, BN>(sums, staging, c, m, n, at, threadIdx.x, 0.0f);
}
"""


WORK_UNITS = """
#include <warpwise/core/float4.cuh>
#include <warpwise/sm90/gemm_simt.cuh>
#include "epilogue.cuh"

// Counts how often each k-tile is computed, in whole tiles and in slots of partial sums: (tiles or slots, k_tiles).
__global__ void work_units(int* whole, int* slots, int* first, int* last, int tiles, int k_tiles, int whole_tiles,
                           int ranges, int base, int pitch) {
  const warpwise::StreamK stream_k{nullptr, whole_tiles, ranges, base, pitch};
  const int units = stream_k.units();
  for (int index = blockIdx.x; index < units; index += gridDim.x) {
    const warpwise::WorkUnit unit = stream_k.unit(index, k_tiles);
    if (unit.k_tiles <= 0) atomicAdd(last, 1 << 20);  // the consumers would wait for a k-tile that nobody loads
    int* const counts = unit.slot < 0 ? whole + unit.tile * k_tiles : slots + unit.slot * k_tiles;
    for (int k = 0; k < unit.k_tiles; ++k) atomicAdd(counts + unit.first + k, 1);
  }
  if (blockIdx.x > 0) return;
  for (int tile = 0; tile < tiles - whole_tiles; ++tile) {
    const int2 range = stream_k.slots(tile);
    first[tile] = range.x;
    last[tile] += range.y;
  }
}
"""


@pytest.mark.parametrize("splits", [1, 2, 3, 9])
@pytest.mark.parametrize(
    "tiles,blocks,k_tiles", [(4, 3, 10), (5, 3, 7), (3, 4, 5), (1, 8, 9), (2, 8, 8), (11, 4, 4), (7, 8, 1), (6, 4, 6)]
)
def test_every_k_tile_is_computed_once(tiles, blocks, k_tiles, splits):
    """Emulated; a tile's partial sums are in the slots from which they are added, and nowhere else."""
    ranges, base, pitch = k13.divided(tiles % blocks, k_tiles, splits, blocks)
    left = tiles % blocks if ranges else 0
    whole, slots = (torch.zeros(count, k_tiles, dtype=torch.int32) for count in (tiles, ranges + left + 1))
    first, last = (torch.zeros(left + 1, dtype=torch.int32) for _ in range(2))
    kernel = cuda.load(WORK_UNITS, include=[HERE])["work_units"]
    kernel[min(tiles - left + ranges, blocks), 1](
        whole, slots, first, last, tiles, k_tiles, tiles - left, ranges, base, pitch
    )
    assert bool((whole[: tiles - left] == 1).all()) and not whole[tiles - left :].any()
    assert int(slots.sum()) == left * k_tiles and not slots[-1].any()
    for begin, end in zip(first[:left].tolist(), last[:left].tolist(), strict=True):
        assert bool((slots[begin:end].sum(0) == 1).all())


def template(tiling: GemmConfig) -> str:
    return f"{tiling.m}, {tiling.n}, {tiling.k}, {tiling.stages}"


def test_every_ring_fits_hopper():
    assert max(k13.shared_bytes(tiling, 8) for tiling in CONFIGS) <= 227 * 1024


@pytest.mark.parametrize("tiling", thinned(CONFIGS, every=5, name=lambda tiling: tiling.name))
def test_every_element_is_stored_once(tiling):
    """Emulated, with rows of C that begin anywhere, and nothing written beside them."""
    kernel = cuda.load(STORE_TILES, include=[HERE])[f"store_tiles<{tiling.m}, {tiling.n}>"]
    for m, n, shift in ((300, 267, 1), (129, 520, 0), (3, 5, 2), (1, 1, 3), (257, 259, 0)):
        room = torch.full((m * n + 64,), -7.0)
        before, c, after = room.split((16 + shift, m * n, 48 - shift))
        rows, columns = tiling.tiles(m, n)
        kernel[rows * columns, 256, k13.STAGING](c, m, n)
        assert torch.equal(c.view(m, n), torch.arange(m)[:, None] * 1000.0 + torch.arange(n) + 0.5), (m, n)
        assert bool((before == -7.0).all() and (after == -7.0).all())


def test_it_says_what_it_takes():
    op = operation.get("matmul")
    a = torch.empty(3, 5)
    assert op.refusal(op.rung("k13"), a, a.t()) is None
    assert op.refusal(op.rung("k13"), a[:, :0], a[:, :0].t()) is not None, "an empty sum"


def configs(m, n, k, transposed_a=False):
    a, b = torch.empty(m, k, device="meta"), torch.empty(k, n, device="meta")
    with operation.assume_sm_count(132):
        return k13.configs(torch.empty(k, m, device="meta").t() if transposed_a else a, b)


def test_the_tile_follows_the_size():
    def first(*sizes):
        return configs(*sizes)[0]

    assert first(4096, 4096, 512, True) == "128x256x8_s12", "TMA loads both operands"
    assert first(4096, 4096, 512) == "128x256x16_s8", "A is loaded by cp.async"
    assert first(4095, 4095, 4095) == "128x256x16_s8_p2", "both are loaded by cp.async"
    assert first(1024, 1024, 1024) in ("32x256x32_s5", "64x128x32_s8")
    assert "32x128x64_s4" in configs(256, 256, 256)[:2]


def test_tiles_of_a_partial_wave_are_divided():
    def waves(m, n, k):
        """Waves of tiles, and the fewest that so many tiles could take."""
        config = GemmConfig.parse(configs(m, n, k)[0])
        rows, columns = config.tiles(m, n)
        whole, left = divmod(rows * columns, 132)
        ranges, *_ = k13.divided(left, -(-k // config.k), config.splits, 132)
        return whole + (left / ranges if ranges else left > 0), rows * columns / 132

    for size in ((1024, 1024, 16384), (64, 4096, 4096), (256, 256, 16384), (64, 28672, 8192), (1536,) * 3, (3072,) * 3):
        taken, fewest = waves(*size)
        assert taken <= 1.1 * fewest, size
    assert waves(4096, 4096, 4096)[0] < 3.9
    assert waves(4096, 4096, 512)[0] == 4, "splitting short sums costs more than it gains"


def test_how_an_operand_comes():
    a = torch.empty(8, 12)
    assert operand(a)[1:3] == (K_MAJOR, 12)
    assert operand(a.t())[1:3] == (TMA, 12)
    assert operand(a[:, 1:].t())[1:3] == (MN_MAJOR, 12), "does not begin on 16 bytes"
    assert operand(torch.empty(8, 13).t())[1:3] == (MN_MAJOR, 13), "lines do not"
    assert operand(torch.empty(1, 8).expand(4, 8).t())[1:3] == (MN_MAJOR, 0), "one line for all"
    assert operand(torch.empty(1, 8))[1:3] == (K_MAJOR, 8)


@pytest.mark.gpu
@pytest.mark.parametrize("config", [tiling.name for tiling in CONFIGS])
@pytest.mark.parametrize("m,n,k", [(1, 1, 1), (300, 520, 100), (129, 67, 515), (257, 260, 8), (1030, 1028, 36)])
def test_tiles_and_layouts(config, m, n, k):
    """Small integers: every partial sum is exact, so results must be equal and not merely close."""
    generator = torch.Generator("cuda").manual_seed(0)

    def integers(rows, columns):
        return torch.randint(-3, 4, (rows, columns), device="cuda", generator=generator).float()

    many = config in (LARGEST.name, SMALLEST.name)  # each kind of load is a kernel to compile
    transposed = [integers(k, m).t(), integers(m, k + 3)[:, 3:], integers(k, m + 1)[:, 1:].t()] if many else []
    gaps = [integers(n, k).t(), integers(2 * n, 2 * k)[::2, ::2].t()] if many else []
    for a in (integers(m, k), *transposed):
        for b in (integers(k, n), integers(k, n + 1)[:, 1:], *gaps):
            product = ops.matmul(a, b, rung=f"{RUNG}@{config}")
            assert torch.equal(product, (a.double() @ b.double()).float()), (a.stride(), b.stride())


@pytest.mark.gpu
@pytest.mark.parametrize("parts", [2, 3, 7])
@pytest.mark.parametrize("processors", [3, 132])
@pytest.mark.parametrize("tiling", CONFIGS, ids=lambda tiling: tiling.name)
def test_parts_of_tiles(monkeypatch, tiling, processors, parts):
    """Whole tiles and splits, several waves of either, splits of unequal length, ragged C; semaphores are reset."""
    monkeypatch.setattr(k13, "sm_count", lambda tensor: processors)
    generator = torch.Generator("cuda").manual_seed(0)
    for m, n, k in ((300, 520, 1000), (129, 67, 515), (1, 1, 1)):
        a = torch.randint(-3, 4, (m, k), device="cuda", generator=generator).float()
        b = torch.randint(-3, 4, (k, n), device="cuda", generator=generator).float()
        for _ in range(2):
            c = torch.full((m, n), float("nan"), device="cuda")
            k13.launch(c, a, b, tiling._replace(splits=parts).name)
            assert torch.equal(c, (a.double() @ b.double()).float()), (m, n, k)


@pytest.mark.gpu
def test_infinity_stays_in_its_row_on_the_gpu():
    """Zeros that pad a k-tile must not be multiplied by infinity."""
    a, b = torch.ones(5, 7, device="cuda"), torch.ones(7, 8, device="cuda")
    a[1, 6] = float("inf")
    product = ops.matmul(a, b, rung=RUNG)
    assert product[1].tolist() == [float("inf")] * 8
    assert product[[0, 2, 3, 4]].tolist() == [[7.0] * 8] * 4


@pytest.mark.parametrize("kind", thinned([(LARGEST, MN_MAJOR), *((tiling, K_MAJOR) for tiling in SOME)], every=3))
def test_a_stage_is_read_before_it_is_released(kind):
    """ptxas may move an arrival before loads that are in flight. A load before the wait for the next stage is from the
    stage that the first arrival after this wait releases."""
    tiling, feed_b = kind
    kernel = WARP_SPECIALISED[f"matmul_cp_async<{template(tiling)}, {K_MAJOR}, {feed_b}>"]
    loop = busiest_loop(disassemble(kernel.compile("sm_90").cubin))
    (wait,) = (i for i, text in enumerate(loop) if "PHASECHK" in text)
    (arrival,) = (i for i, text in enumerate(loop) if "SYNCS.ARRIVE" in text)
    arrival += len(loop) if arrival < wait else 0
    for i, text in enumerate(loop[:wait]):
        if found := re.match(r"LDS\.128 R(\d+),", text):
            quad = {f"R{int(found[1]) + e}" for e in range(4)}
            operands = (later.partition(" ")[2].partition(",")[2] for later in (loop + loop)[i + 1 : arrival])
            assert any(quad & set(re.findall(r"\bR\d+\b", text)) for text in operands), text
