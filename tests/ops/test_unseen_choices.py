"""The rung chosen without tables follows from the geometry of the arguments, on a GPU of 132 SMs."""

from __future__ import annotations

import math

import pytest
import torch
from tests.ops.chosen import SMS, default, matrix

from warpwise import operation, ops
from warpwise.operation import assume_sm_count, cdiv
from warpwise.ops._columns import geometry
from warpwise.ops._packs import PACK_BLOCK, pack_blocks
from warpwise.ops.reduce_sum.column_geometry import column_geometry, word_geometry
from warpwise.ops.reduce_sum.row_geometry import batch_of, sharing_blocks, team_of, threads_of, vector_parts
from warpwise.ops.rgb_to_grayscale.rungs import pack_bytes
from warpwise.ops.softmax._columns import cluster_geometry
from warpwise.ops.softmax._columns import geometry as softmax_geometry
from warpwise.ops.softmax._launch import row_tile
from warpwise.ops.softmax._packed_rows import shape_of as packed_rows_shape


def test_another_dimension_is_summed_without_a_copy():
    for name, rows in (("softmax", "k05_row_in_registers"), ("reduce_sum", "k06_two_passes")):
        columns = operation.get(name).rung("columns").name
        assert default(name, matrix(300, 40), 0) == columns
        assert default(name, torch.empty(3, 4, 5, device="meta"), 1) == columns
        assert default(name, matrix(300, 40), 1) == default(name, matrix(300, 1), 0) == rows
        ones = "k11_short_rows" if name == "reduce_sum" else rows
        assert default(name, matrix(1, 300), 0) == ones, "columns of one element are rows of one"


@pytest.mark.parametrize("rows,columns,threads", [
    (131072, 4, 1), (131072, 8, 2), (131072, 16, 4), (131072, 128, 8), (131072, 512, 32), (7132, 3880, 256),
    (1563, 4278, 160), (900, 6001, 192), (40000, 4278, 128),
    (40410, 1800, 32), (2000, 8192, 256), (547, 1289, 128), (979, 807, 64), (60, 4500, 512),
    (1, 3000, 256), (1, 32768, 1024),
])  # fmt: skip
def test_lanes_of_a_row(rows, columns, threads):
    with assume_sm_count(SMS):
        assert threads_of(matrix(rows, columns)) == threads


@pytest.mark.parametrize("rows,columns,threads,batch", [
    (553, 7506, 256, 8), (600, 9001, 288, 8), (900, 20000, 160, 8), (3000, 12001, 384, 8), (20, 24000, 1024, 8),
    (9000, 9001, 256, 4), (375, 9084, 320, 8), (300, 12001, 768, 4), (240, 9001, 288, 8),
    (264, 20000, 640, 4), (150, 20000, 320, 8), (120, 28969, 512, 8), (40, 131072, 512, 8), (304, 94354, 512, 8),
])  # fmt: skip
def test_batches_of_a_long_row_are_full(rows, columns, threads, batch):
    x = matrix(rows, columns)
    with assume_sm_count(SMS):
        assert (threads_of(x), batch_of(x, threads)) == (threads, batch)


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("columns", [1, 2, 3, 31, 33, 100, 1000, 5000, 131072])
@pytest.mark.parametrize("length", [1, 2, 16, 17, 100, 3000, 131072])
def test_blocks_cover_columns(columns, length, itemsize):
    threads, values, width, parts, share = geometry(columns, length, itemsize, SMS, 8192)
    assert 1 <= width <= threads and parts * share >= length > (parts - 1) * share
    if parts > 1:
        blocks = cdiv(columns, width) * parts
        assert blocks <= 5 * SMS and 16 * parts * parts <= length and width * length >= 8192
    if length <= 16:
        assert threads // width * values >= length, "one batch"


@pytest.mark.parametrize("columns,length,itemsize,width,values,lines", [
    (7, 2, 2, 7, 4, 1), (2, 38, 4, 2, 8, 5), (771, 73, 2, 32, 16, 5), (398, 115, 4, 32, 16, 8), (40, 600, 4, 8, 16, 38),
])  # fmt: skip
def test_small_columns_are_one_batch(columns, length, itemsize, width, values, lines):
    shape = geometry(columns, length, itemsize, SMS, 16384)
    assert (shape.width, shape.values, cdiv(length, shape.values), shape.parts) == (width, values, lines, 1)
    assert width * lines <= shape.threads


def test_short_columns_have_one_part_if_they_fill_the_gpu():
    for length, columns, itemsize, width, values in (
        (141, 45138, 4, 64, 32), (283, 6675, 4, 56, 32), (60, 100000, 4, 128, 32), (250, 100001, 4, 760, 16),
        (75, 120419, 2, 64, 24), (20, 300001, 2, 256, 24), (300, 60001, 2, 232, 16), (200, 60001, 4, 64, 32),
        (300, 12001, 2, 32, 32),
    ):  # fmt: skip
        shape = column_geometry(columns, length, itemsize, SMS)
        assert (shape.width, shape.values, shape.parts) == (width, values, 1)
    assert column_geometry(2048, 513, 4, SMS).parts > 1
    for shape, dim, rung in (
        ((75, 120419), 0, "k08_columns"), ((3, 500_000), 0, "k12_adjacent_columns"), ((3, 500_001), 0, "k08_columns"),
        ((16, 3, 512, 512), 1, "k12_adjacent_columns"), ((2, 64_000), 0, "k08_columns"),
    ):  # fmt: skip
        assert default("reduce_sum", torch.empty(shape, dtype=torch.bfloat16, device="meta"), dim) == rung


@pytest.mark.parametrize("rows,columns,blocks", [
    (1, 100_001, (256, 4, 25)), (1, 600_000, (512, 8, 132)), (1, 20_000_000, (512, 8, 264)), (33, 60001, (256, 8, 8)),
    (18, 53784, (256, 4, 14)), (20, 1_000_000, (512, 8, 13)),
    (60, 150_001, (512, 8, 4)), (143, 200_000, (512, 8, 5)), (300, 150_001, (512, 8, 4)),
])  # fmt: skip
def test_sums_have_as_many_blocks_on_each_processor(rows, columns, blocks):
    with assume_sm_count(SMS):
        x = torch.empty(rows, columns, device="meta")
        assert sharing_blocks(x) == blocks and default("reduce_sum", x, -1) == "k09_last_block"
        waves = rows * blocks[2] / (2 * SMS)
        assert waves <= 1 or waves >= 0.9 * math.ceil(waves)


@pytest.mark.parametrize("rows,columns", [(40, 131072), (120, 28969), (143, 47730), (304, 94354), (33, 24576)])
def test_a_block_reads_a_row_if_rows_are_as_many_as_processors(rows, columns):
    with assume_sm_count(SMS):
        assert default("reduce_sum", matrix(rows, columns), -1) == "k06_two_passes"
        assert vector_parts(matrix(rows, columns)) == 1


@pytest.mark.parametrize("itemsize,packed", [(2, 1), (2, 2), (4, 1)])
@pytest.mark.parametrize("columns", [2, 30, 100, 1000, 5000, 131072])
@pytest.mark.parametrize("length", [1, 2, 17, 100, 1100, 3000, 131072])
def test_blocks_of_softmax_cover_columns(columns, length, itemsize, packed):
    clusters = cluster_geometry(columns, length, itemsize, packed, SMS)
    for shape in filter(None, (softmax_geometry(columns, length, itemsize, packed, SMS), clusters)):
        assert shape.lanes * shape.height <= shape.threads <= 1024 and shape.parts * shape.share >= length
        if shape is clusters:
            assert shape.height * shape.values >= shape.share and shape.lanes * packed <= 64
        elif shape.parts > 1:
            blocks = cdiv(columns, shape.lanes * packed) * shape.parts
            assert blocks <= 4 * SMS and (shape.parts - 1) * shape.share < length


@pytest.mark.parametrize("length,columns,packed,most,lanes,values", [
    (44, 90443, 1, 48, 128, 48), (58, 40001, 1, 64, 64, 64), (16, 67240, 2, 64, 64, 16), (3, 200000, 1, 64, 256, 4),
    (30, 90001, 1, 32, 128, 32), (2, 1000000, 1, 48, 256, 2), (2, 1000000, 2, 64, 256, 2),
    (2, 1000000, 4, 48, 256, 2), (4, 1000000, 4, 32, 256, 4), (30, 1000000, 1, 48, 256, 32),
])  # fmt: skip
def test_a_thread_holds_a_column_if_they_are_many(length, columns, packed, most, lanes, values):
    shape = softmax_geometry(columns, length, 4 // packed, packed, SMS, most)
    assert (shape.lanes, shape.height, shape.values, shape.parts) == (lanes, 1, values, 1)


def test_a_part_of_a_long_column_is_whole_batches():
    shape = softmax_geometry(39, 11005, 2, 1, SMS)
    assert shape.share <= shape.height * shape.values, "58 parts of one batch, not 52 of two, the second a tenth"


def test_long_columns_are_held_by_a_cluster():
    for rows, columns, held in ((2589, 450, True), (1103, 72, True), (64, 906, False), (30000, 10000, False)):
        x = matrix(rows, columns)
        assert (default("softmax", x, 0) == "k10_cluster_columns") == held
        assert (default("softmax_backward", x, x, 0) == "k09_cluster_columns") == held


@pytest.mark.parametrize("rows,columns,dtype,forward,backward", [
    (61183, 5, torch.bfloat16, "k11_short_rows", "k11_short_rows"),
    (19953, 61, torch.float32, "k14_packed_rows", "k12_packed_rows"),
    (19953, 60, torch.float32, "k11_short_rows", "k11_short_rows"),
    (19953, 31, torch.float32, "k11_short_rows", "k11_short_rows"),
    (3000, 61, torch.float32, "k14_packed_rows", "k12_packed_rows"),
    (3000, 31, torch.float32, "k05_row_in_registers", "k03_row_in_registers"),
    (38360, 3, torch.bfloat16, "k11_short_rows", "k11_short_rows"),
    (15000, 3, torch.bfloat16, "k05_row_in_registers", "k03_row_in_registers"),
    (131072, 4, torch.float32, "k05_row_in_registers", "k03_row_in_registers"),
    (5000, 70, torch.bfloat16, "k14_packed_rows", "k12_packed_rows"),
    (19953, 130, torch.float32, "k14_packed_rows", "k12_packed_rows"),
    (19953, 132, torch.float32, "k05_row_in_registers", "k03_row_in_registers"),
    (16, 50489, torch.bfloat16, "k14_packed_rows", "k12_packed_rows"),
    (131, 90000, torch.bfloat16, "k14_packed_rows", "k12_packed_rows"),
    (1000, 30000, torch.float32, "k05_row_in_registers", "k12_packed_rows"),
    (3, 30000, torch.float32, "k14_packed_rows", "k12_packed_rows"),
    (3, 300000, torch.float32, "k12_split_rows", "k08_split_rows"),
    (300, 300000, torch.float32, "k06_long_rows", "k04_long_rows"),
])  # fmt: skip
def test_short_and_long_rows_of_softmax(rows, columns, dtype, forward, backward):
    x = matrix(rows, columns, dtype)
    assert default("softmax", x, -1) == forward and default("softmax_backward", x, x, -1) == backward


@pytest.mark.parametrize("rows,columns,rung", [
    (121536, 4, "k11_short_rows"), (3000, 64, "k11_short_rows"), (3000, 65, "k06_two_passes"),
])  # fmt: skip
def test_sums_of_short_rows(rows, columns, rung):
    assert default("reduce_sum", matrix(rows, columns, torch.bfloat16), -1) == rung
    assert default("reduce_sum", matrix(rows, columns // 4), -1) == "k11_short_rows"


@pytest.mark.parametrize("rows,columns,itemsize,lanes,values", [
    (100000, 48, 2, 2, 24), (100000, 64, 2, 2, 32), (60000, 48, 2, 4, 16), (131000, 32, 2, 2, 16),
    (131000, 16, 4, 1, 16),
])  # fmt: skip
def test_lanes_of_many_short_rows_are_few(rows, columns, itemsize, lanes, values):
    assert team_of(rows, columns, itemsize, SMS) == (lanes, values)


@pytest.mark.parametrize("rows,columns,rung", [
    (60367, 1292, "k13_packed_columns"), (700, 30000, "k15_shared_columns"), (100000, 20, "k13_packed_columns"),
    (10000, 20, "k09_columns"),
    (18062, 69, "k09_columns"), (60001, 69, "k13_packed_columns"), (7491, 272, "k10_cluster_columns"),
    (17749, 80, "k13_packed_columns"), (4000, 69, "k10_cluster_columns"), (4000, 33, "k10_cluster_columns"),
])  # fmt: skip
def test_long_columns_of_a_large_softmax_are_read_in_packs(rows, columns, rung):
    assert default("softmax", matrix(rows, columns, torch.bfloat16), 0) == rung


@pytest.mark.parametrize("rows,columns,dtype,rung", [
    (46730, 259, torch.float32, "k10_packed_columns"), (14878, 2749, torch.bfloat16, "k10_packed_columns"),
    (51723, 2, torch.float32, "k07_columns"), (222, 44237, torch.bfloat16, "k07_columns"),
    (36619, 39, torch.float32, "k10_packed_columns"), (40001, 50, torch.bfloat16, "k10_packed_columns"),
    (60001, 16, torch.bfloat16, "k10_packed_columns"), (20001, 17, torch.bfloat16, "k07_columns"),
    (25722, 16, torch.bfloat16, "k10_packed_columns"), (50000, 8, torch.bfloat16, "k07_columns"),
    (80000, 8, torch.bfloat16, "k10_packed_columns"),
    (9001, 61, torch.float32, "k09_cluster_columns"),
])  # fmt: skip
def test_long_columns_of_a_large_gradient_are_read_in_packs(rows, columns, dtype, rung):
    x = matrix(rows, columns, dtype)
    assert default("softmax_backward", x, x, 0) == rung


@pytest.mark.parametrize("rows,columns,rung", [
    (1331, 42139, "k10_packed_columns"), (47099, 294, "k10_packed_columns"), (3000, 30000, "k12_adjacent_columns"),
    (4015, 17, "k10_packed_columns"), (8000, 2, "k10_packed_columns"), (1000, 2, "k08_columns"),
    (7528, 158, "k08_columns"),
])  # fmt: skip
def test_sums_of_long_columns_of_2_byte_elements(rows, columns, rung):
    assert default("reduce_sum", matrix(rows, columns, torch.bfloat16), 0) == rung


@pytest.mark.parametrize("rows,columns,itemsize,threads,width", [
    (753, 119981, 4, 1024, 912), (513, 89052, 4, 1024, 680), (400, 30001, 4, 512, 232), (1500, 9001, 4, 512, 72),
    (300, 200001, 4, 1024, 760), (330, 16001, 2, 512, 64), (125, 117798, 2, 512, 448),
])  # fmt: skip
def test_columns_of_large_matrices_are_even_blocks(rows, columns, itemsize, threads, width):
    shape = column_geometry(columns, rows, itemsize, SMS)
    assert (shape.threads, shape.width, shape.parts) == (threads, width, 1)
    blocks = cdiv(columns, width)
    assert 0.9 * SMS * cdiv(blocks, SMS) <= blocks


@pytest.mark.parametrize("rows,columns,itemsize,rung", [
    (600, 40000, 4, "k12_adjacent_columns"), (635, 39606, 4, "k12_adjacent_columns"), (700, 30001, 4, "k08_columns"),
    (3000, 60000, 4, "k12_adjacent_columns"), (256, 80000, 4, "k12_adjacent_columns"), (100, 40000, 4, "k08_columns"),
    (64, 131072, 4, "k12_adjacent_columns"), (20000, 5000, 4, "k10_packed_columns"), (400, 200000, 4, "k08_columns"),
    (1000, 4300, 4, "k12_adjacent_columns"), (1000, 4000, 4, "k08_columns"), (500, 100000, 2, "k12_adjacent_columns"),
    (100, 131072, 2, "k12_adjacent_columns"), (1000, 50002, 2, "k12_adjacent_columns"),
    (157, 87698, 2, "k12_adjacent_columns"), (500, 10002, 2, "k12_adjacent_columns"), (90, 50002, 2, "k08_columns"),
    (20000, 4402, 2, "k10_packed_columns"), (20000, 4400, 2, "k10_packed_columns"),
])  # fmt: skip
def test_long_columns_are_read_in_words_by_two_blocks_for_each_sm(rows, columns, itemsize, rung):
    with assume_sm_count(SMS):
        x = matrix(rows, columns, torch.float32 if itemsize == 4 else torch.bfloat16)
        assert default("reduce_sum", x, 0) == rung
    if rung.startswith("k12"):
        shape = word_geometry(columns, columns * itemsize, rows, itemsize, SMS)
        assert SMS <= cdiv(columns * itemsize, shape.bytes * shape.width) <= 2 * SMS
        assert shape.threads // 2 <= shape.width * shape.height <= shape.threads


@pytest.mark.parametrize("rows,columns,itemsize,threads,width,parts", [
    (2458, 194, 4, 256, 32, 20), (3000, 300, 4, 256, 32, 12), (1500, 130, 4, 256, 64, 24), (2000, 70, 4, 256, 64, 32),
    (9000, 100, 4, 256, 32, 36), (8000, 150, 2, 512, 32, 16), (4000, 400, 2, 512, 32, 8), (20000, 90, 2, 512, 32, 40),
])  # fmt: skip
def test_one_launch_adds_the_parts_of_small_columns(rows, columns, itemsize, threads, width, parts):
    shape = column_geometry(columns, rows, itemsize, SMS)
    assert (shape.threads, shape.width, shape.parts) == (threads, width, parts)
    assert (parts - 1) * columns <= 4096 and parts <= 8 * (threads // width)


@pytest.mark.parametrize("rows,columns,rung,config", [
    (16710, 3, "k10_packed_columns", "u2"), (30000, 30, "k10_packed_columns", "u8"),
    (3000, 64, "k10_packed_columns", "u4"), (17388, 43, "k10_packed_columns", "u4"),
    (40000, 60, "k10_packed_columns", "u8"), (331, 54, "k08_columns", None), (28327, 1928, "k10_packed_columns", "u8"),
])  # fmt: skip
def test_sums_of_few_columns_are_read_in_packs(rows, columns, rung, config):
    with assume_sm_count(SMS):
        x = matrix(rows, columns)
        assert default("reduce_sum", x, 0) == rung
        assert operation.get("reduce_sum").rung(rung).configs(x, 0)[:1] == ((config,) if config else ())


@pytest.mark.parametrize("rows,columns,dtype,forward,config,backward", [
    (726, 88162, torch.float32, "k15_shared_columns", "b128_t512", "k09_cluster_columns"),
    (300, 50002, torch.float32, "k15_shared_columns", "b256_t512", "k09_cluster_columns"),
    (1100, 50000, torch.float32, "k15_shared_columns", "b64_t512", "k10_packed_columns"),
    (450, 70001, torch.bfloat16, "k15_shared_columns", "b128_t512", "k10_packed_columns"),
    (450, 70002, torch.bfloat16, "k09_columns", None, "k09_cluster_columns"),
    (764, 106596, torch.bfloat16, "k10_cluster_columns", None, "k09_cluster_columns"),
    (501, 75889, torch.float32, "k10_cluster_columns", None, "k09_cluster_columns"),
    (501, 75888, torch.float32, "k15_shared_columns", "b128_t512", "k09_cluster_columns"),
    (326, 15354, torch.float32, "k09_columns", None, "k09_cluster_columns"),
    (326, 15360, torch.float32, "k09_columns", None, "k07_columns"),
    (900, 60001, torch.float32, "k13_packed_columns", None, "k09_cluster_columns"),
    (228, 40399, torch.float32, "k09_columns", None, "k07_columns"),
    (400, 8001, torch.float32, "k09_columns", None, "k09_cluster_columns"),
])  # fmt: skip
def test_columns_of_narrow_pieces_in_large_tensors(rows, columns, dtype, forward, config, backward):
    with assume_sm_count(SMS):
        x = matrix(rows, columns, dtype)
        assert default("softmax", x, 0) == forward and default("softmax_backward", x, x, 0) == backward
        assert operation.get("softmax").rung(forward).configs(x, 0)[:1] == ((config,) if config else ())


@pytest.mark.parametrize("plane,rung", [((16, 16), "k02_planar_packs"), ((5, 7), "k05_shifted_words")])
def test_unaligned_planes_are_shifted(plane, rung):
    assert default("rgb_to_grayscale", torch.empty(2, 3, *plane, dtype=torch.uint8)) == rung


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [1, 3, 16, 127, 13398, 2**20 + 7])
def test_every_element_after_the_last_pack_has_a_thread(count, itemsize):
    packs, rest = divmod(count, 16 // itemsize)
    blocks = pack_blocks(count, itemsize)
    assert (blocks - 1) * PACK_BLOCK < packs + rest <= blocks * PACK_BLOCK


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_elementwise_kernels_compute_every_element(dtype):
    """Whole blocks, whole packs of a last block, last elements, and pointers that are not aligned."""
    for count in (1, 31, 130, 1024, 4099):
        for shift in (0, 1):
            x = torch.randn(count + shift).to(dtype)[shift:]
            assert torch.equal(ops.square(x, rung="k03"), x.square())


@pytest.mark.parametrize("pixels,bytes", [(24211, 4), (2**17, 4), (2**18, 8), (2**21, 8), (2**24, 16)])
def test_packs_of_small_images_are_small(pixels, bytes):
    with assume_sm_count(SMS):
        assert pack_bytes(torch.empty(pixels, dtype=torch.uint8, device="meta")) == bytes
        assert pack_bytes(torch.empty(8, dtype=torch.float64, device="meta")) == 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 8, 11, 16, 25, 32, 33, 128, 1000, 1024, 32768])
@pytest.mark.parametrize("inputs", [1, 2])
def test_a_row_in_registers_is_held_as_a_whole(columns, dtype, inputs):
    row = torch.empty(3, columns, dtype=dtype)
    threads, vectors, whole, bytes = row_tile(row, *[row] * inputs)
    held = threads * vectors * bytes // row.element_size()
    assert columns <= held < max(2 * columns, 5) and threads <= 1024
    assert not whole or columns * row.element_size() % bytes == 0
    if columns <= 4 and columns & (columns - 1) == 0:
        assert (threads, vectors, whole) == (1, 1, True), "one access a row"


@pytest.mark.parametrize("rows,columns,itemsize,inputs,shape", [
    (122205, 565, 4, 1, (128, 32, 5, 0)), (300, 565, 4, 1, (512, 160, 1, 1)), (100992, 138, 2, 2, (128, 8, 3, 0)),
    (466, 25435, 4, 2, (512, 416, 4, 4)), (11742, 12607, 2, 2, (512, 416, 4, 1)),
])  # fmt: skip
def test_a_packed_row_has_lanes_a_block_or_a_cluster(rows, columns, itemsize, inputs, shape):
    assert packed_rows_shape(rows, columns, itemsize, inputs, SMS) == shape
