"""The rung of transpose chosen without tables, and the tiles of k09, follow from the matrix, on a GPU of 132 SMs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.ops.chosen import SMS, default, matrix

from warpwise import ops
from warpwise.operation import assume_sm_count
from warpwise.ops.transpose.rungs import unaligned_tiles
from warpwise.ops.transpose.tiles import equal_tile, unaligned_tile


@pytest.mark.parametrize(
    "rows,columns,rung",
    [
        (1, 2000000, None),
        (2000000, 1, None),
        (1, 100000, "k08_fitted_blocks"),
        (4, 1000000, "k07_strips"),
        (4, 100000, "k10_short_sides"),
        (8, 131000, "k07_strips"),
        (14143, 5, "k10_short_sides"),
        (20, 5219, "k08_fitted_blocks"),
        (20001, 14, "k07_strips"),
        (14143, 7, "k10_short_sides"),
        (20, 25219, "k07_strips"),
        (60000, 12, "k07_strips"),
        (7, 131000, "k07_strips"),
        (15, 90693, "k07_strips"),
        (1300, 42466, "k05_register_blocks"),
        (205, 6154, "k09_unaligned_tiles"),
        (100000, 65, "k09_unaligned_tiles"),
        (70, 7573, "k09_unaligned_tiles"),
        (5, 40, "k08_fitted_blocks"),
        (64, 100000, "k05_register_blocks"),
        (200, 300, "k09_unaligned_tiles"),
        (4096, 4096, "k05_register_blocks"),
        (4095, 4097, "k09_unaligned_tiles"),
        (352, 21156, "k05_register_blocks"),
        (232, 20000, "k09_unaligned_tiles"),
        (60000, 136, "k05_register_blocks"),
        (112, 100000, "k09_unaligned_tiles"),
    ],
)
def test_a_thin_transpose_is_not_tiled(rows, columns, rung):
    assert default("transpose", matrix(rows, columns)) == rung


@pytest.mark.parametrize("few", [2, 3, 8, 31, 33, 100, 128])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("sms", [1, SMS])
def test_strips_and_fitted_blocks_of_every_width(few, dtype, sms):
    with assume_sm_count(sms):
        for length in (few, 130, 1027):
            values = torch.arange(few * length).to(dtype)
            for shape in ((few, length), (length, few)):
                x = values.view(shape)
                if min(shape) <= 128:
                    assert torch.equal(ops.transpose(x, rung="k07"), x.t())
                if min(shape) <= 8:
                    assert torch.equal(ops.transpose(x, rung="k10"), x.t())
                assert torch.equal(ops.transpose(x, rung="k08"), x.t())
                assert torch.equal(ops.transpose(x, rung="k09"), x.t())


@pytest.mark.parametrize("rows,columns,itemsize,tile", [
    (150, 15662, 4, (64, 32)), (85, 69551, 4, (128, 32)), (9120, 839, 4, (32, 64)), (10384, 3749, 4, (32, 64)),
    (3749, 10384, 4, (256, 32)), (5001, 7001, 8, (128, 32)), (20004, 1501, 8, (32, 64)),
    (1824, 1528, 4, (32, 64)), (1530, 1820, 4, (64, 32)), (700, 9001, 4, (64, 128)), (144, 35363, 4, (64, 128)),
    (352, 21156, 4, (256, 32)), (168, 98045, 4, (64, 128)), (48, 117344, 4, (64, 128)), (1501, 2003, 8, (64, 32)),
    (164, 45272, 4, (256, 32)), (232, 20000, 4, (256, 32)), (100, 60001, 4, (128, 32)), (104, 60001, 4, (64, 128)),
    (300, 60000, 8, (64, 32)), (45272, 164, 4, (32, 64)), (260, 8000, 4, (64, 32)),
    (100001, 24, 2, (64, 32)), (24, 100001, 2, (32, 64)), (150, 15662, 2, (32, 64)), (9120, 839, 2, (32, 64)),
    (1766, 9131, 2, (64, 64)), (144, 90001, 2, (64, 128)), (1501, 20000, 1, (64, 128)),
    (100001, 40, 2, (128, 32)), (10384, 3749, 2, (64, 128)), (3749, 10384, 2, (128, 32)), (5001, 7001, 1, (128, 64)),
])  # fmt: skip
def test_tiles_of_large_matrices_are_wide_or_high(rows, columns, itemsize, tile):
    dtype = {1: torch.uint8, 2: torch.float16, 4: torch.float32, 8: torch.float64}[itemsize]
    assert unaligned_tile(matrix(rows, columns, dtype)) == tile


@pytest.mark.parametrize("rows,columns,dtype,tile", [
    (176, 117997, torch.float32, (64, 128)), (200, 90001, torch.float32, (56, 128)),
    (150, 15662, torch.float32, (50, 32)), (176, 117997, torch.float16, (64, 128)),
    (368, 66272, torch.float16, (64, 128)),
])  # fmt: skip
def test_tiles_are_equal_and_whole_sectors_of_aligned_rows(rows, columns, dtype, tile):
    x = matrix(rows, columns, dtype)
    assert equal_tile(x, unaligned_tile(x)) == tile


@given(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from([torch.int8, torch.float16, torch.float32]))
def test_no_two_tiles_share_a_sector_of_aligned_rows(rows, columns, dtype):
    x = matrix(rows, columns, dtype)
    most = unaligned_tile(x)
    tile = equal_tile(x, most)
    assert all(1 <= each <= limit for each, limit in zip(tile, most, strict=True))
    assert rows * x.element_size() % 32 or tile[0] * x.element_size() % 32 == 0


@pytest.mark.parametrize("rows,columns,rung", [
    (3, 100001, "k10_short_sides"), (100001, 7, "k10_short_sides"), (5, 100001, "k07_strips"), (7, 20000, "k07_strips"),
    (2, 3000, "k08_fitted_blocks"), (12, 100001, "k07_strips"), (16, 3000, "k08_fitted_blocks"),
    (24, 20000, "k09_unaligned_tiles"), (20000, 31, "k09_unaligned_tiles"), (31, 2000, "k08_fitted_blocks"),
    (64, 20000, "k09_unaligned_tiles"), (20000, 64, "k09_unaligned_tiles"), (300, 801, "k09_unaligned_tiles"),
    (4096, 4096, "k05_register_blocks"), (20240, 10976, "k05_register_blocks"), (200, 40000, "k09_unaligned_tiles"),
    (368, 60000, "k05_register_blocks"), (3000, 3000, "k05_register_blocks"), (1824, 1528, "k09_unaligned_tiles"),
    (1, 3000000, None), (1, 3000, "k08_fitted_blocks"),
])  # fmt: skip
def test_transposes_of_2_byte_elements(rows, columns, rung):
    assert default("transpose", matrix(rows, columns, torch.bfloat16)) == rung


@pytest.mark.parametrize("tile", [(64, 32), (128, 32), (32, 64), (256, 32), (64, 128), (128, 64), (64, 64)])
def test_tiles_of_every_form(tile, monkeypatch):
    monkeypatch.setitem(unaligned_tiles.__globals__, "unaligned_tile", lambda input: tile)
    for rows, columns in ((300, 70), (37, 129)):
        x = torch.arange(rows * columns, dtype=torch.int32).view(rows, columns)
        assert torch.equal(ops.transpose(x, rung="k09"), x.t())
