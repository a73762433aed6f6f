"""The rung and configuration of matvec without tables follow from the geometry, on a GPU of 132 SMs."""

from __future__ import annotations

import pytest
import torch
from tests.ops.chosen import SMS, default, matrix

from warpwise import operation
from warpwise.operation import assume_sm_count
from warpwise.ops.matvec.k03_rows_together import configs, splits_of
from warpwise.ops.matvec.k06_unaligned_rows import configs as unaligned_configs


@pytest.mark.parametrize("rows,columns,config", [
    (146, 5112, "t320_r1_u4"), (600, 4000, "t128_r1_u4"), (1856, 14048, "t128_r1_u4"), (700, 12000, "t384_r1_u4"),
    (132, 20000, "t768_r1_u4"), (60, 20000, "t768_r1_u4"), (70, 50000, "t192_r1_u4"), (156, 78576, "t192_r1_u4"),
    (8, 20000, "t128_r1_u2"),
])  # fmt: skip
def test_a_long_row_has_a_block_or_is_shared(rows, columns, config):
    with assume_sm_count(SMS):
        assert configs(matrix(rows, columns), matrix(1, columns)[0])[0] == config


def test_rows_of_a_batch_are_read_by_fours():
    with assume_sm_count(SMS):
        for m, k, config in ((1432, 576, "t128_r4_u2"), (600, 1600, "t256_r4_u2"), (200, 1000, "t256_r1_u1")):
            assert configs(matrix(m, k), matrix(1, k)[0])[0] == config


def test_full_batches_of_unaligned_rows():
    with assume_sm_count(SMS):
        for m, k, dtype, config in (
            (472, 8690, torch.bfloat16, "t288_r2_u2"), (526, 13437, torch.float32, "t288_r2_u2"),
            (200, 30001, torch.float32, "t512_r1_u4"), (140, 20001, torch.float32, "t448_r1_u4"),
            (700, 9002, torch.float32, "t288_r2_u2"),
            (30000, 701, torch.bfloat16, "t96_r4_u1"), (3000, 1501, torch.float32, "t128_r4_u1"),
            (63750, 806, torch.float32, "t128_r4_u1"), (100000, 401, torch.float32, "t64_r4_u1"),
            (50000, 603, torch.float32, "t160_r4_u1"), (30000, 2003, torch.bfloat16, "t128_r4_u1"),
        ):  # fmt: skip
            assert unaligned_configs(matrix(m, k, dtype), matrix(1, k)[0])[0] == config


@pytest.mark.parametrize("rows,columns,dtype,rung,config", [
    (126989, 191, torch.bfloat16, "k08_packed_rows", None), (60000, 75, torch.bfloat16, "k08_packed_rows", None),
    (60000, 129, torch.float32, "k03_rows_together", "t32_r4_u2"),
    (120924, 7, torch.float32, "k08_packed_rows", None), (100001, 15, torch.bfloat16, "k08_packed_rows", None),
    (100001, 23, torch.float32, "k03_rows_together", "t8_r4_u1"), (1000, 7, torch.float32, "k03_rows_together", None),
    (8000, 223, torch.bfloat16, "k03_rows_together", "t64_r4_u1"),
    (20000, 453, torch.bfloat16, "k06_unaligned_rows", "t32_r2_u2"),
    (444, 52306, torch.float32, "k03_rows_together", "t320_r1_u2"),
    (347, 16178, torch.float32, "k03_rows_together", "t384_r1_u2"),
    (544, 38412, torch.bfloat16, "k03_rows_together", "t256_r1_u2"),
    (453, 5468, torch.bfloat16, "k06_unaligned_rows", None), (12920, 8540, torch.bfloat16, "k06_unaligned_rows", None),
    (20985, 906, torch.float32, "k03_rows_together", "t128_r8_u1"),
    (44591, 2428, torch.bfloat16, "k03_rows_together", "t128_r8_u1"),
    (7000, 906, torch.float32, "k06_unaligned_rows", None),
    (428, 12140, torch.float32, "k03_rows_together", "t320_r1_u2"),
    (724, 7122, torch.float32, "k06_unaligned_rows", None), (347, 16177, torch.float32, "k06_unaligned_rows", None),
    (819, 31298, torch.float32, "k06_unaligned_rows", "t256_r2_u2"),
    (679, 58859, torch.float32, "k06_unaligned_rows", "t320_r2_u2"),
    (1763, 11123, torch.float32, "k06_unaligned_rows", "t160_r2_u2"),
    (1117, 47102, torch.float32, "k06_unaligned_rows", "t320_r2_u2"),
    (20000, 9001, torch.bfloat16, "k06_unaligned_rows", "t192_r2_u2"),
    (32, 53586, torch.float32, "k06_unaligned_rows", "t256_r1_u4"),
    (4, 20710, torch.bfloat16, "k06_unaligned_rows", "t128_r1_u2"),
    (6, 8001, torch.float32, "k06_unaligned_rows", None), (40, 5001, torch.bfloat16, "k06_unaligned_rows", None),
    (1, 60001, torch.float32, "k03_rows_together", "t128_r1_u2"),
])  # fmt: skip
def test_unaligned_rows_of_matvec(rows, columns, dtype, rung, config):
    with assume_sm_count(SMS):
        args = matrix(rows, columns, dtype), torch.empty(columns, dtype=dtype, device="meta")
        assert default("matvec", *args) == rung
        assert not config or operation.get("matvec").rung(rung).configs(*args)[0] == config


@pytest.mark.parametrize("rows,columns,dtype,config", [
    (16996, 156, torch.bfloat16, "l16_u8"), (13455, 174, torch.bfloat16, "l8_u8"), (32482, 75, torch.float32, "l32_u8"),
    (1369, 5062, torch.bfloat16, "l32_u8"), (2001, 500, torch.float32, "l8_u8"), (4153, 2695, torch.float32, "l32_u8"),
    (80001, 100, torch.float32, "l16_u8"), (40001, 3001, torch.bfloat16, "l32_u4"),
    (131017, 408, torch.float32, "l32_u8"), (200001, 401, torch.bfloat16, "l32_u8"),
    (40001, 1001, torch.float32, "l64_u4"),
])  # fmt: skip
def test_unaligned_columns_of_matvec_are_read_in_one_launch_if_they_can_be(rows, columns, dtype, config):
    with assume_sm_count(SMS):
        a = matrix(columns, rows, dtype).t()
        assert operation.get("matvec").rung("k07").configs(a, a[0])[0] == config


@pytest.mark.parametrize("rows,columns,dtype,by_columns,rung", [
    (6931, 1121, torch.bfloat16, False, "k06_unaligned_rows"), (963, 303, torch.bfloat16, False, "k03_rows_together"),
    (4, 50001, torch.bfloat16, False, "k06_unaligned_rows"), (1, 9574, torch.bfloat16, False, "k03_rows_together"),
    (2171, 46094, torch.bfloat16, False, "k06_unaligned_rows"), (5001, 20, torch.float32, True, "k09_few_columns"),
    (2000, 50001, torch.float32, False, "k06_unaligned_rows"),
    (700, 9001, torch.float32, False, "k06_unaligned_rows"), (242, 823, torch.float32, False, "k03_rows_together"),
    (1369, 5062, torch.bfloat16, True, "k07_unaligned_columns"), (1295, 115, torch.bfloat16, True, "k04_columns"),
    (764, 1734, torch.bfloat16, True, "k07_unaligned_columns"), (92272, 2455, torch.float32, True, "k04_columns"),
    (25348, 292, torch.float32, True, "k07_unaligned_columns"),
    (50000, 300, torch.bfloat16, True, "k07_unaligned_columns"),
    (16000, 500, torch.float32, True, "k04_columns"), (8000, 2000, torch.float32, True, "k04_columns"),
    (82103, 12, torch.bfloat16, True, "k09_few_columns"), (83379, 16, torch.float32, True, "k09_few_columns"),
    (83379, 49, torch.float32, True, "k07_unaligned_columns"), (5, 3, torch.float32, True, "k09_few_columns"),
])  # fmt: skip
def test_unaligned_matrices_are_read_in_packs(rows, columns, dtype, by_columns, rung):
    a = matrix(columns, rows, dtype).t() if by_columns else matrix(rows, columns, dtype)
    assert default("matvec", a, torch.empty(columns, dtype=dtype, device="meta")) == rung


@pytest.mark.parametrize("m,batches,splits", [(74, 2, 1), (74, 4, 3), (1, 6, 6), (1, 3, 1), (3000, 8, 1)])
def test_a_row_of_few_batches_is_not_split(m, batches, splits):
    with assume_sm_count(SMS):
        assert splits_of(matrix(m, 8), 512 * m, batches, 1) == splits


@pytest.mark.parametrize("rows,columns,dtype,config", [
    (33, 43166, torch.bfloat16, "l8_u16"), (28, 4325, torch.bfloat16, "l8_u4"), (7, 2136, torch.float32, "l8_u4"),
    (10, 60000, torch.float32, "l8_u8"), (3, 20000, torch.float32, "l4_u4"), (63, 131071, torch.float32, "l32_u16"),
])  # fmt: skip
def test_long_rows_of_a_column_major_matrix_are_one_batch_of_each_block(rows, columns, dtype, config):
    with assume_sm_count(SMS):
        a = matrix(columns, rows, dtype).t()
        assert operation.get("matvec").rung("k04").configs(a, a[0])[0] == config


@pytest.mark.parametrize("rows,columns,dtype,config", [
    (82103, 12, torch.bfloat16, "t64_p2"), (9001, 12, torch.float32, "t64_p2"), (700, 13, torch.float32, "t64_p1"),
    (71334, 34, torch.bfloat16, "t128_p1"), (82690, 18, torch.float32, "t128_p2"),
    (131072, 16, torch.float32, "t128_p1"),
])  # fmt: skip
def test_blocks_of_few_columns_follow_the_size(rows, columns, dtype, config):
    with assume_sm_count(SMS):
        a = matrix(columns, rows, dtype).t()
        assert operation.get("matvec").rung("k09").configs(a, a[0])[0] == config
