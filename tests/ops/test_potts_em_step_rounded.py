"""The rungs of potts_em_step that take q and features in bfloat16: k07 to k10."""

from __future__ import annotations

import math

import pytest
import torch
from tests.ops.potts_em_step import WEIGHTED, arguments, rounds_features_too

from warpwise import ops
from warpwise.ops.potts_em_step import launches, spec

SIZES = [
    # Rows of 8 bytes and of vectors of 16 bytes; one and several steps; more tiles of a colour than warps, whose rows
    # are loaded ahead; moments of a warp's own points, and of several warps.
    ("k07", 150, 13, 3, 3, WEIGHTED),
    ("k07", 150, 7, 30, 8, {}),
    ("k07", 150, 22, 9, 11, {}),
    ("k07", 300, 32, 16, 8, {}),
    ("k07", 600, 40, 10, 8, {}),
    ("k07", 600, 50, 16, 11, WEIGHTED),
    ("k07", 150, 59, 70, 11, WEIGHTED),
    ("k07", 300, 77, 50, 8, {"field": True}),
    ("k07", 200, 100, 127, 3, {}),
    # Rows of 8 and of 16 bytes, whole and padded; one vector of features, an odd and an even number; fewer and more
    # edges than are copied ahead, all eight of each point.
    ("k08", 300, 8, 16, 8, {}),
    ("k08", 150, 7, 30, 3, WEIGHTED),
    ("k08", 200, 3, 5, 8, {}),
    ("k08", 350, 8, 50, 11, {}),
    ("k08", 300, 5, 128, 8, {"field": True}),
    ("k08", 200, 4, 24, 12, WEIGHTED),
    # One and two units of 64 features, an odd number of vectors; two and three updating warpgroups; domains in one and
    # two units of 64; warps without points; fewer and more edges than are copied ahead, all eight of each point.
    ("k09", 150, 13, 3, 3, WEIGHTED),
    ("k09", 150, 22, 9, 11, {}),
    ("k09", 300, 33, 64, 8, {}),
    ("k09", 600, 50, 70, 11, WEIGHTED),
    ("k09", 300, 77, 50, 8, {"field": True}),
    ("k09", 200, 100, 127, 3, {}),
    ("k09", 900, 90, 128, 8, {}),
    ("k09", 200, 120, 20, 8, {}),
    # Rows of 8 and of 16 bytes; loads of eight and of 16 bytes per lane, and vectors of a load that do not exist;
    # moments in registers and in shared memory; fewer and more edges than are copied ahead, all eight of each point.
    ("k10", 300, 40, 16, 8, {}),
    ("k10", 150, 16, 3, 3, {"field": True}),
    ("k10", 150, 24, 9, 11, {}),
    ("k10", 600, 56, 20, 11, {"field": True}),
    ("k10", 900, 96, 20, 8, {}),
    ("k10", 300, 72, 5, 8, {"field": True}),
    ("k10", 200, 104, 16, 3, {}),
    ("k10", 900, 128, 20, 8, {}),
]


@pytest.mark.parametrize("rung,n,domains,width,degree,options", SIZES)
@pytest.mark.one_in(3)
def test_rounded_features(rung: str, n: int, domains: int, width: int, degree: int, options: dict[str, bool]) -> None:
    given_ = arguments(n, domains, width, 2, degree=degree, bfloat16=True, bfloat16_features=True, **options)
    rounds_features_too(rung, given_)


@pytest.mark.parametrize("domains,width", [(40, 20), (100, 80)])
def test_warpgroups_with_many_tiles_of_a_block(domains: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tiles of a colour are those of one block, so that its moments are added to shared memory several times."""
    monkeypatch.setattr(launches, "sm_count", lambda tensor: 1)
    given_ = arguments(2500, domains, width, 1, degree=8, bfloat16=True, bfloat16_features=True)
    rounds_features_too("k09", given_)


@pytest.mark.full
def test_counts_of_many_points_of_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum in float32 of 10^5 equal probabilities, one by one, would be inexact by 10^-3."""
    monkeypatch.setattr(launches, "sm_count", lambda tensor: 1)
    n, domains = 200_000, 8
    q, features = spec.empty_rows(n, 1, domains).fill_(0.5), spec.empty_rows(n, 1, 2)[:, 0].fill_(1.0)
    rowptr, columns = torch.zeros(n + 1, dtype=torch.int32), torch.zeros(0, dtype=torch.int32)
    linear, constant = torch.zeros(1, domains, 2), torch.tensor([[0.9901, *[0.0099 / 7] * 7]]).log()
    graph = rowptr, columns, None
    counts, sums, *_ = ops.potts_em_step(
        q, features, linear, constant, *graph, torch.zeros(1), torch.zeros(1, 1, domains), None, (0, n), rung="k09"
    )
    torch.testing.assert_close(counts, q.double().sum(0).float(), rtol=1e-5, atol=0)
    torch.testing.assert_close(sums, counts[..., None].expand(1, domains, 2), rtol=1e-5, atol=0)


def test_eight_lanes_with_many_tiles_of_a_warp(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tiles of a colour are those of one block: rows are loaded ahead, and kept moments added several times."""
    monkeypatch.setattr(launches, "sm_count", lambda tensor: 1)
    for domains, width in ((80, 6), (80, 20)):
        given_ = arguments(2500, domains, width, 1, degree=8, bfloat16=True, bfloat16_features=True)
        rounds_features_too("k10", given_)


# Rows that are an odd multiple of 16 bytes apart, multiples of 32 and of 64 bytes; last vectors of four with one and
# three domains, of eight with one to seven; a lane for each point.
PITCHES = [
    (3, 4), (5, 8), (13, 16), (18, 32), (43, 48), (51, 56), (52, 64), (58, 64), (61, 64), (62, 64), (63, 64), (75, 80),
    (89, 96),
]  # fmt: skip


@pytest.mark.parametrize(
    "rung,domains,pitch",
    [("k08" if domains <= 8 else "k07", domains, pitch) for domains, pitch in PITCHES]
    + [("k09", domains, pitch) for domains, pitch in PITCHES if pitch >= 8],
)
@pytest.mark.one_in(3)
def test_padding_does_not_count(rung: str, domains: int, pitch: int) -> None:
    """NaN in the padding of q changes nothing and stays there, also after one column of zeros; columns of zeros remain
    zeros."""
    given_ = arguments(60, domains, 5, 1, degree=8, bfloat16=True, bfloat16_features=True, return_derivatives=True)
    given_["features"], found = spec.padded(given_["features"]), list[tuple[torch.Tensor, ...]]()
    for padding, columns in ((0.0, pitch), (0.0, domains), (math.nan, domains), (math.nan, domains + 1)):
        rows = torch.full((60, 1, pitch), padding, dtype=torch.bfloat16)
        rows[..., domains:columns] = 0
        before = rows.clone()
        q = rows[..., :domains].copy_(given_["q"])
        outputs = ops.potts_em_step(**{**given_, "q": rows[..., :columns]}, rung=rung)
        found.append((q.clone(), *(part for part in outputs if part is not None)))
        torch.testing.assert_close(rows[..., domains:], before[..., domains:], equal_nan=True)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert torch.equal(one, two)


@pytest.mark.parametrize("domains,columns,pitch", [(13, 16, 24), (61, 64, 72), (75, 80, 96)])
@pytest.mark.one_in(3)
def test_padding_after_columns_of_zeros(domains: int, columns: int, pitch: int) -> None:
    """k10 reads and writes the columns of zeros up to a multiple of eight, and no others."""
    given_ = arguments(60, domains, 5, 1, degree=8, bfloat16=True, bfloat16_features=True, return_derivatives=True)
    given_["features"], found = spec.padded(given_["features"]), list[tuple[torch.Tensor, ...]]()
    for padding in (0.0, math.nan):
        rows = torch.full((60, 1, pitch), padding, dtype=torch.bfloat16)
        rows[..., :columns] = torch.nn.functional.pad(given_["q"], (0, columns - domains))
        counts, sums, slopes, _ = ops.potts_em_step(**{**given_, "q": rows[..., :columns]}, rung="k10")
        found.append((rows[..., :domains].clone(), counts, sums, slopes))
        assert not rows[..., domains:columns].any()
        assert rows[..., columns:].isnan().all() or padding == 0
    for one, two in zip(*found, strict=True):
        assert torch.equal(one, two)


def test_rounded_features_that_no_kernel_takes() -> None:
    """PyTorch computes, and a rung by name says what it takes."""
    given_ = arguments(40, 20, 3, bfloat16=True, bfloat16_features=True)
    before = given_["q"].clone()
    counts = ops.potts_em_step(**given_)[0]
    assert counts is not None and counts.dtype == torch.float32 and not torch.equal(given_["q"], before)
    with pytest.raises(ValueError, match="features of torch.bfloat16 in rows of empty_rows"):
        ops.potts_em_step(**{**given_, "q": spec.padded(given_["q"])}, rung="k07")
    whole = {**given_, "q": spec.padded(given_["q"]), "features": spec.padded(given_["features"])}
    with pytest.raises(ValueError, match="k10_eight_lanes takes q with columns of zeros up to 24"):
        ops.potts_em_step(**whole, rung="k10")
    weighted = arguments(40, 16, 8, bfloat16=True, bfloat16_features=True, weighted=True)
    with pytest.raises(ValueError, match="k10_eight_lanes takes no weights"):
        ops.potts_em_step(**weighted, rung="k10")
    wide = arguments(40, 16, 136, bfloat16=True, bfloat16_features=True)
    with pytest.raises(ValueError, match="k09_warpgroup_products takes up to 128 domains, and features in rows of"):
        ops.potts_em_step(**wide, rung="k09")
    few = arguments(40, 4, 8, bfloat16=True, bfloat16_features=True)
    with pytest.raises(ValueError, match="features of torch.float32, not torch.bfloat16"):
        ops.potts_em_step(**few, rung="k03")
