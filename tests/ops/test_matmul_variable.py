"""Tiles of two sizes, k22's and k12's: every element of C in one tile, balanced SMs, and exact results."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda, ops
from warpwise.gemm.persistent import CONFIGS, two_widths, wide_columns
from warpwise.gemm.time_model import Product
from warpwise.operation import cdiv
from warpwise.ops.matmul import k12_overlapped_epilogue as k12
from warpwise.ops.matmul import k22_variable_m_tiles as k22
from warpwise.ops.matmul.k22_variable_m_tiles import TILE_N, tile_count, variable, wide_rows

SIZES = [
    (4096, 4096),
    (4090, 4096),
    (8192, 8192),
    (8192, 512),
    (6144, 6144),
    (4096, 14336),
    (4000, 4104),
    (16384, 1000),
]
WALK = """
#include <cuda_bf16.h>
#include <warpwise/sm90/gemm_variable.cuh>
// Of each block the number of its tiles, and of each tile its first row and column, rows and columns.
__global__ void walk(int* out, int tile_columns, int tile_rows, int wide, int flats, int most) {
  int *const to = out + blockIdx.x * most, count = 0;
  using Tiles = warpwise::sm90::VariableMTiles<__nv_bfloat16, false>;
  Tiles{{tile_columns, tile_rows, tile_columns}, wide, flats, 1}.for_each([&](auto work) {
    using Config = typename decltype(work)::Config;
    to[1 + 4 * count] = work.row, to[2 + 4 * count] = work.column;
    to[3 + 4 * count] = work.transposed ? Config::width : Config::bm;
    to[4 + 4 * count] = work.transposed ? Config::bm : Config::width;
    ++count;
  });
  to[0] = count;
}
"""


@pytest.mark.parametrize("m, n", SIZES)
def test_every_element_has_one_tile(m, n):
    """Also balanced: blocks differ by less work than with tiles of 256 rows."""
    for config in k22.shorter(m, n, 132):
        name = config.name
        found = k22.parsed(name)
        flats, most = cdiv(n, 2 * TILE_N) * found.flat, 4 * cdiv(tile_count(found, n), 132) + 1
        out = torch.zeros(132, most, dtype=torch.int32)
        arguments = cdiv(n, TILE_N), found.tile_rows, wide_rows(found, m), flats, most
        cuda.load(WALK)["walk"][132, 1](out, *arguments)
        seen = torch.zeros(cdiv(m, 8), cdiv(n, TILE_N), dtype=torch.int32)  # groups of 8 rows, tile_columns
        for numbers in out.tolist():
            for i in range(numbers[0]):
                row, column, rows, columns = numbers[1 + 4 * i : 5 + 4 * i]
                seen[row // 8 : (row + rows) // 8, column // TILE_N : (column + columns) // TILE_N] += 1
        assert (seen == 1).all(), name


def test_stages_that_k_tiles_fill():
    assert [k for k in range(0, 1100, 64) if k22.whole_rings(k)] == [256, 512, 768, 1024]
    assert not k22.whole_rings(520)


def test_variable_tiles_shorten_the_busiest_sm():
    assert wide_rows(variable(16, flat=True), 4096) == 0 and tile_count(variable(16, flat=True), 4096) == 4 * 132
    assert wide_rows(variable(33), 8192) == 1 and tile_count(variable(33), 8192) == 16 * 132
    assert wide_rows(variable(33), 8193) == 2 and wide_rows(variable(31), 8192) is None
    assert wide_rows(variable(1), 40) == 0
    assert not list(k22.shorter(1024, 1024, 132))
    with pytest.raises(ValueError, match="expected a configuration of the form"):
        k22.parsed("128x256x64_s4_c2x1")


@pytest.mark.gpu
@pytest.mark.parametrize("b_layout", ["n", "t"])
@pytest.mark.parametrize("m, n", SIZES)
@pytest.mark.parametrize("k", [64, 200, 512, 1032, 1280])
def test_products_are_those_of_k17(m, n, k, b_layout):
    """Each sum adds the same products, every second tile of a block from the last k-tile on: small integers."""
    dtype = torch.float16 if m == 6144 else torch.bfloat16
    a, b = (torch.randint(-1, 2, shape, device="cuda").to(dtype) for shape in ((m, k), (k, n)))
    if b_layout == "t":
        b = b.t().contiguous().t()
    truth = ops.matmul(a, b, rung="k12_overlapped_epilogue")
    names = k22.configs(a, b)
    if torch.cuda.get_device_properties(0).multi_processor_count == 132:
        assert names
    for name in names:
        assert torch.equal(ops.matmul(a, b, rung=f"k22_variable_m_tiles@{name}"), truth), name


def test_columns_of_two_widths_fill_the_waves():
    (found,) = two_widths(CONFIGS[0], Product(512, 128256, 4096, 2, 2), (256, 248))
    assert found.name == "128x248x64_s4_c2x1_n528" and wide_columns(found, 128256) == 192
    assert not two_widths(CONFIGS[0], Product(4096, 4096, 4096, 2, 2), (256, 248)), "no room for another column"
    assert not two_widths(CONFIGS[0], Product(256, 28672, 8192, 2, 2), (256, 248)), "217 columns are another kernel's"
    with pytest.raises(ValueError, match="expected one for 800 columns, got 128x248x64_s4_c2x1_n3"):
        wide_columns(CONFIGS[0]._replace(n=248, tile_rows=3), 800)


@pytest.mark.parametrize("transposed", [False, pytest.param(True, marks=pytest.mark.one_in(2))])
def test_products_by_two_widths(transposed):
    a, b = (torch.randint(-3, 4, shape).half() for shape in ((130, 72), (72, 504)))
    if transposed:
        a, b = a.t().contiguous().t(), b.t().contiguous().t()
    made = torch.empty(130, 504, dtype=torch.half)
    k12.launch(made, a, b, config="128x256x64_s4_c2x1_n2")
    assert torch.equal(made, (a.float() @ b.float()).half())


@pytest.mark.gpu
@pytest.mark.parametrize("config", ["128x248x64_s4_c2x1_n99", "128x256x64_s4_c2x1_n96"])
@pytest.mark.parametrize("layouts", ["nn", "tt"])
def test_products_by_two_widths_on_the_gpu(config, layouts):
    a, b = (torch.randint(-1, 2, shape, device="cuda").bfloat16() for shape in ((1000, 520), (520, 24040)))
    if layouts == "tt":
        a, b = a.t().contiguous().t(), b.t().contiguous().t()
    made = torch.empty(1000, 24040, dtype=torch.bfloat16, device="cuda")
    k12.launch(made, a, b, config=config)
    assert torch.equal(made, (a.float() @ b.float()).bfloat16())
