"""Hopper's kernels for batches, k02 and k03 of batched_matmul and k02 of grouped_matmul_backward: what they compile to
and take, and on a GPU every tile and layout, exactly."""

from __future__ import annotations

import pytest
import torch

from warpwise import operation, ops, tuned
from warpwise.device.limits import HOPPER_SHARED
from warpwise.gemm import cluster_split_k
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.operands import describe
from warpwise.gemm.persistent import BATCHED
from warpwise.gemm.simt import K_MAJOR, MN_MAJOR, TMA
from warpwise.ops.batched_matmul import k02_warp_specialised as k02
from warpwise.ops.batched_matmul._tables import TABLES
from warpwise.ops.batched_matmul.k02_warp_specialised import CONFIGS, operand

OP = operation.get("batched_matmul")
BATCHES = [(3, 64, 64, 64), (9, 512, 520, 128), (5, 300, 260, 100), (2, 1, 1, 1), (4, 129, 67, 35), (70, 136, 72, 16)]


def template(tiling: GemmConfig) -> str:
    return f"{tiling.m}, {tiling.n}, {tiling.k}, {tiling.stages}"


def test_every_ring_fits_hopper():
    assert max(map(k02.shared_bytes, CONFIGS)) <= 113 * 1024
    assert max(config.shared for config in BATCHED) <= HOPPER_SHARED


def test_how_an_operand_is_loaded():
    a = torch.empty(3, 8, 12)
    assert operand(a)[1:] == (K_MAJOR, 12, 96)
    assert operand(a.mT)[1:] == (TMA, 12, 96)
    assert operand(a[0].t())[1:] == (TMA, 12, 0), "one matrix for all"
    assert operand(a[:1].mT.expand(3, 12, 8))[1:] == (TMA, 12, 0)
    assert operand(torch.empty(3, 8, 13)[:, :, 1:].mT)[1:] == (MN_MAJOR, 13, 104), "lines begin anywhere"
    assert operand(torch.empty(3, 100)[:, :97].unfold(1, 12, 12).mT).load == TMA
    assert operand(torch.empty(3, 101)[:, 1:].unfold(1, 12, 12).mT).load == MN_MAJOR, "as do matrices"
    assert operand(a[:, ::2, ::2]).lines.is_contiguous(), "neighbours along neither dimension: copied"


def test_what_they_take():
    a = torch.empty(2, 16, 16)
    for rung, dtype in (("k02", torch.float32), ("k03", torch.bfloat16)):
        given = a.to(dtype)
        assert OP.rung(rung).limits(given, given) is None
    short = a.bfloat16()
    assert "takes n in multiples of 8" in OP.rung("k03").limits(short, short[:, :, :12])
    assert "begin at multiples of 8 elements" in OP.rung("k03").limits(short[:, :, ::2], short[:, :8])


def integers(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """Small integers: every partial sum is exact, so results must be equal and not merely close."""
    return torch.randint(-3, 4, shape, device="cuda", generator=torch.Generator("cuda").manual_seed(len(shape))).to(
        dtype
    )


def layouts(batch: int, rows: int, columns: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """An operand in every layout: transposed, shared, broadcast, unaligned lines."""
    return [
        integers(batch, rows, columns, dtype=dtype),
        integers(batch, columns, rows, dtype=dtype).mT,
        integers(rows, columns, dtype=dtype),
        integers(1, columns, rows, dtype=dtype).mT.expand(batch, rows, columns),
        integers(batch, rows, columns + 1, dtype=dtype)[:, :, 1:],
        integers(batch, columns, rows + 1, dtype=dtype)[:, :, 1:].mT,
    ]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "rung,config,dtype",
    [
        *(("k02", tiling.name, torch.float32) for tiling in CONFIGS),
        *(("k03", config.name, torch.bfloat16) for config in BATCHED),
    ],
)
@pytest.mark.parametrize("batch,m,n,k", BATCHES)
def test_tiles_and_layouts(rung, config, dtype, batch, m, n, k):
    found = OP.rung(f"{rung}@{config}")
    every = config in (
        CONFIGS[0].name,
        BATCHED[0].name,
        BATCHED[1].name,
    )  # each kind of load is a kernel to compile
    a_layouts, b_layouts = layouts(batch, m, k, dtype), layouts(batch, k, n, dtype)
    for i, a in enumerate(a_layouts if every else a_layouts[:1]):
        for j, b in enumerate(b_layouts if every else b_layouts[:2]):
            if (a.dim() == 2 and b.dim() == 2) or OP.refusal(found, a, b):
                continue
            product = ops.batched_matmul(a, b, rung=found.name)
            assert torch.equal(product, (a.double() @ b.double()).to(dtype)), (i, j)


@pytest.mark.gpu
@pytest.mark.parametrize("rung,dtype", [("k02", torch.float32), ("k03", torch.float16)])
def test_infinity_stays_in_its_row_and_matrix(rung, dtype):
    """Zeros that pad a k-tile must not be multiplied by an infinity, also not by a neighbouring matrix's."""
    a, b = (torch.ones(3, size, 8, device="cuda", dtype=dtype) for size in (5, 8))
    a[1, 1, 6] = float("inf")
    product = ops.batched_matmul(a, b, rung=rung)
    assert product[1, 1].tolist() == [float("inf")] * 8
    assert (product[1, [0, 2, 3, 4]] == 8).all()
    assert (product[[0, 2]] == 8).all()


@pytest.mark.gpu
@pytest.mark.parametrize("config", [config.name for config in BATCHED if not config.whole])
@pytest.mark.parametrize(
    "k,n,ends",
    [
        (64, 64, [3, 64, 64, 200]),
        (136, 264, [0, 1, 130, 131, 400, 400]),
        (72, 520, [700, 701]),
        (128, 256, [5, 70, 600]),
    ],
)
def test_gradients_of_groups(config, k, n, ends):
    """Groups of no rows, of odd numbers of rows, and an infinity in a neighbour."""
    a, grad = (integers(ends[-1] + 7, size, dtype=torch.bfloat16) for size in (k, n))
    a[ends[-1] :] = float("inf")
    offsets = torch.tensor(ends, dtype=torch.int32, device="cuda")
    made = ops.grouped_matmul_backward(a, grad, offsets, rung=f"k02@{config}")
    for group, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        expected = a[start:end].double().t() @ grad[start:end].double()
        assert torch.equal(made[group], expected.bfloat16()), group


def test_kinds_of_batches():
    a, b = torch.empty(3, 8, 16), torch.empty(3, 16, 24)
    assert describe(a, b) == ("nn", {"batch": 3, "m": 8, "n": 24, "k": 16})
    assert describe(b.mT, a.mT) == ("tt", {"batch": 3, "m": 24, "n": 8, "k": 16})
    assert describe(a, b[0])[0] == "nn", "a broadcast operand has its own layout"
    assert describe(a[:, :, :15], b[:, :15])[0] == "nn", "lines begin on 16 bytes whatever they hold"
    assert describe(torch.empty(3, 8, 15), b[:, :15])[0] == "nn unaligned"
    assert describe(torch.empty(3, 8 * 16 + 1)[:, 1:].unflatten(1, (8, 16)), b)[0] == "nn unaligned", (
        "matrices begin anywhere"
    )
    assert describe(a[:0], b[:0])[1]["batch"] == 0
    for kind, arranged in TABLES.arrangements.items():
        assert describe(*arranged(a, b))[0] == kind


@pytest.mark.parametrize("path", sorted(TABLES.folder.glob("*.json")), ids=lambda path: path.stem)
def test_shipped_points_name_rungs_and_configurations(path):
    """A point of a rung that is gone would be passed over in silence."""
    table = tuned.load(path)
    assert table is not None
    for point in table.points:
        for name in {point.winner, point.rival} - {tuned.TORCH}:
            rung, _, config = name.partition("@")
            found = OP.rung(rung)
            assert getattr(torch, point.dtype) in found.dtypes, point
            known = {tiling.name for tiling in (*CONFIGS, *BATCHED, *cluster_split_k.HALF)}
            assert not config or GemmConfig.parse(config)._replace(cluster_splits=1).name in known, point
        assert point.rival_seconds >= point.seconds, point
