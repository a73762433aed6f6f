"""GemmConfig: names and fields, the names in shipped tables, the order of configurations by the model."""

from __future__ import annotations

import pytest
import torch

from warpwise import operation, tuned
from warpwise.device import limits
from warpwise.device.target import assume_sm_count
from warpwise.gemm import persistent
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.time_model import OVERLAPPED, Family, Product, partial_wave, skinny
from warpwise.operation import Case

PRODUCTS = ("matmul", "matmul_tf32", "scaled_matmul", "batched_matmul", "linear", "addmm")
POINTS = [
    (operation.get(op), point)
    for op in PRODUCTS
    for path in sorted(operation.get(op).tables.folder.glob("*.json"))
    for point in tuned.load(path).points
]


@pytest.mark.parametrize(
    "name,config",
    [
        ("128x256x64_s4_c2x1", GemmConfig(128, 256, 64, 4, cluster=(2, 1))),
        ("128x256x64_w64x64_s4", GemmConfig(128, 256, 64, 4, warps=(64, 64))),
        ("64x16x64_s8_c1x2_k2_p3", GemmConfig(64, 16, 64, 8, cluster=(1, 2), cluster_splits=2, splits=3)),
        ("256x128x64_s4_n17_f", GemmConfig(256, 128, 64, 4, tile_rows=17, flat=True)),
        ("128x256x64_s3_whole", GemmConfig(128, 256, 64, 3, whole=True)),
        ("r16_p8", GemmConfig(16, splits=8)),
    ],
)
def test_names_are_fields(name, config):
    assert GemmConfig.parse(name) == config
    assert config.name == name


def test_names_of_earlier_versions():
    for old, new in (
        ("64x8x64_s8_k1_o3_c2x1", "64x8x64_s8_c2x1_p3"),
        ("128x256x64_s3_w8", "128x256x64_w8_s3"),
        ("256x128x64_s4_n17f", "256x128x64_s4_n17_f"),
        ("r1_p1", "r1"),
    ):
        assert GemmConfig.parse(old).name == new


@pytest.mark.parametrize("name", ["", "quick", "7x7", "128", "1x2x3x4_s4", "128x256x64_q4", "128x256x64_s4!", "r4x4"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="matmul: expected a configuration of the form MxNxK.* got "):
        GemmConfig.parse(name)


def test_tables_use_these_names():
    """The text is compared with the candidates' names; a point with another name would lose its configuration."""
    for op, point in POINTS:
        for name in {point.winner, point.rival} - {tuned.TORCH, ""}:
            _, _, config = name.partition("@")
            assert not config or GemmConfig.parse(config).name == config, (op.name, name)


@pytest.mark.parametrize("op", PRODUCTS)
def test_every_winner_is_a_candidate(op):
    """At its own point a winner's configuration is among those of its rung."""
    tried = 0
    for found, point in POINTS:
        arranged = found.tables.arrangements.get(point.kind)
        rung, _, config = point.winner.partition("@")
        if found.name != op or arranged is None or not config:
            continue
        dtype = getattr(torch, point.dtype)
        case = Case("point", dict(point.sizes))
        args = arranged(*found.spec.arguments(case, dtype, torch.device("meta"), 0))
        with assume_sm_count(132):
            assert config in found.rung(rung).configs(*args), point
        tried += 1
    assert tried or op == "linear", "kinds of linear's points begin with a layout"


def test_nominal_times_count_what_there_is():
    small, large = (GemmConfig.parse(name) for name in ("64x64x64_s8_c1x1", "128x256x64_s4_c2x1"))
    with assume_sm_count(132):
        for side, first in ((512, small), (8192, large)):
            a = torch.empty(side, side, dtype=torch.bfloat16, device="meta")
            assert persistent.configs(a, a)[0] == first.name

    def time(config, *sizes, batch=1, family=OVERLAPPED):
        return family.nominal(Product(*sizes, 2, 2, batch=batch), config)

    assert 1.8 < time(large, 4096, 4096, 8192) / time(large, 4096, 4096, 4096) < 2
    assert time(large, 1024, 1024, 1024, batch=64) > time(large, 1024, 1024, 1024)
    split = GemmConfig.parse("64x64x64_s8_p8")
    assert time(split, 64, 64, 16384) < time(split._replace(splits=1), 64, 64, 16384)
    tile, rows = GemmConfig(64, 16, 64, 8), Family(skinny)
    assert time(tile, 16, 4096, 4096, family=rows) < time(tile, 4096, 16, 4096, family=rows), "m counts columns of C"


def test_the_splits_of_a_partial_wave_are_added_to_whole_waves():
    product, family = Product(128 * 132 + 128, 256, 8192, 4, 4), Family(partial_wave)
    tile = GemmConfig(128, 256, 16, 8)
    waves = [family.nominal(product._replace(m=128 * tiles), tile) for tiles in (132, 133)]
    assert waves[0] < family.nominal(product, tile._replace(splits=32)) < waves[0] + 0.2 * (waves[1] - waves[0])
    assert family.nominal(product, tile) == waves[1]


@pytest.mark.parametrize(
    "name,dtype,side,rung",
    [
        ("matmul", torch.bfloat16, 4096, "k12_overlapped_epilogue"),
        ("matmul", torch.bfloat16, 512, "k14_cluster_split_k"),
        ("matmul", torch.bfloat16, 4095, "k11_mma_sync"),
        ("matmul", torch.float32, 4096, "k13_warp_specialised"),
        ("matmul", torch.float32, 512, "k14_cluster_split_k"),
        ("matmul", torch.int8, 4096, "k18_warpgroups_int8"),
        ("matmul", torch.int8, 512, "k11_mma_sync"),
        ("matmul_tf32", torch.float32, 4096, "k02_transposed_in_registers"),
        ("matmul_tf32", torch.float32, 512, "k04_cluster_split_k"),
        ("matmul", torch.float64, 4096, None),
    ],
)
def test_large_products_have_another_default(name, dtype, side, rung):
    a = torch.empty(side, side, dtype=dtype, device="meta")
    with assume_sm_count(132):
        assert operation.get(name).default(a, a) == rung


@pytest.mark.parametrize("blocks", [1, 132, 133, 264, 265, 528])
def test_no_sm_has_more_than_its_share_of_blocks(monkeypatch, blocks):
    monkeypatch.setattr(limits, "is_hopper", lambda tensor: True)
    with assume_sm_count(132):
        bytes = limits.even_shared(torch.empty(0), blocks, 4096) + limits.RESERVED
    share = -(-blocks // 132)
    assert share * bytes <= limits.SM_SHARED < (share + 1) * bytes
    assert limits.even_shared(torch.empty(0), blocks, 200_000) == 200_000


@pytest.mark.parametrize("name", [*PRODUCTS, "grouped_matmul"])
def test_rungs_are_numbered_without_gaps(name):
    rungs = operation.get(name).rungs
    assert [int(rung.name[1:3]) for rung in rungs] == list(range(1, len(rungs) + 1))
