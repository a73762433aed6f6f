"""potts_em_step beyond its cases: random sizes, one colour, limits and errors."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

from warpwise import operation, ops
from warpwise.operation import Case
from warpwise.ops.potts_em_step import launches, rungs, spec, tiles
from warpwise.ops.potts_em_step.reference import reference

WEIGHTED = {"weighted": True, "field": True}
FEW = settings(max_examples=examples(6), deadline=None)
OP = operation.get("potts_em_step")


def arguments(n: int = 40, domains: int = 4, width: int = 3, restarts: int = 2, **attributes: Any) -> dict[str, Any]:
    sizes = {"n": n, "domains": domains, "width": width, "restarts": restarts}
    return OP.spec.named(OP.spec.arguments(Case("drawn", sizes, attributes), torch.float32, torch.device("cpu"), 1))


@FEW
@given(
    n=st.integers(2, 150),
    domains=st.integers(1, 40),
    width=st.integers(1, 40),
    restarts=st.integers(1, 3),
    scored=st.booleans(),
    interaction=st.booleans(),
)
def test_tiles_agree_with_pytorch(
    n: int, domains: int, width: int, restarts: int, scored: bool, interaction: bool
) -> None:
    given_ = arguments(
        n, domains, width, restarts, scored=scored, interaction=interaction, return_derivatives=True, return_near=True
    )
    agrees_with_pytorch(given_, "k02")


# One or two lanes a point, full or not, two or eight tiles of 16 features, and more edges than are in flight.
@pytest.mark.parametrize(
    "n,domains,width,degree", [(200, 3, 5, 4), (150, 8, 70, 12), (140, 6, 40, 3), (100, 2, 20, 9), (64, 8, 16, 2)]
)
@pytest.mark.one_in(2)
def test_one_launch_agrees_with_pytorch(n: int, domains: int, width: int, degree: int) -> None:
    given_ = arguments(
        n, domains, width, 2, degree=degree, weighted=True, field=True, return_derivatives=True, return_near=True
    )
    agrees_with_pytorch(given_, "k03")


# Vectors of 4, 2 and 1 domains, even and odd numbers of tiles, fewer and more edges than are copied ahead.
@pytest.mark.parametrize(
    "n,domains,width,degree",
    [
        (150, 36, 20, 3),
        (150, 22, 9, 11),
        (200, 77, 5, 8),
        (300, 100, 16, 8),
        (150, 50, 70, 3),
        (150, 21, 100, 11),
        (200, 68, 127, 3),
    ],
)
@pytest.mark.parametrize("rung", ["k04", "k06"])
@pytest.mark.one_in(3)
def test_fragments_agree_with_pytorch(rung: str, n: int, domains: int, width: int, degree: int) -> None:
    given_ = arguments(
        n, domains, width, 2, degree=degree, weighted=True, field=True, return_derivatives=True, return_near=True
    )
    agrees_with_pytorch(given_, rung)


@pytest.mark.parametrize("n,domains,width", [(450, 20, 10), (300, 52, 17)])
def test_gathering_warps_take_full_tiles(n: int, domains: int, width: int) -> None:
    """Each point has eight neighbours of weight 1: the rows of several vectors are in flight."""
    agrees_with_pytorch(arguments(n, domains, width, 1, degree=8, return_derivatives=True), "k06")


def test_fragments_in_blocks_for_many_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "FEW_WARPS", ())
    agrees_with_pytorch(arguments(300, 36, 20, 1, degree=8, return_derivatives=True), "k04")


@pytest.mark.parametrize("rung", ["k04", "k06"])
def test_fragments_of_large_priors(rung: str) -> None:
    """Powers of beta * near + external that overflow, or are all zero, without the largest exponent subtracted.

    The kernels are those of the first sizes of ``test_fragments_agree_with_pytorch``.
    """
    for level in (100.0, -100.0):
        given_ = arguments(
            60, 36, 20, 2, degree=3, weighted=True, field=True, return_derivatives=True, return_near=True
        )
        given_["external"] = given_["external"] + level
        agrees_with_pytorch(given_, rung)


def agrees_with_pytorch(given_: dict[str, Any], rung: str) -> None:
    expected_q, actual_q = given_["q"].clone(), given_["q"].clone()
    expected = ops.potts_em_step(**{**given_, "q": expected_q})
    actual = ops.potts_em_step(**{**given_, "q": actual_q}, rung=rung)
    torch.testing.assert_close(actual_q, expected_q)
    for found, wanted in zip(actual, expected, strict=True):
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4 * max(1.0, float(wanted.abs().max())))


# Padded rows and rows without gaps, of one, two and four words, and lanes that share a row.
@pytest.mark.parametrize("n,domains,width", [(200, 8, 16), (100, 5, 9), (150, 3, 5), (90, 8, 70), (60, 3, 40)])
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("rung", [None, "k03"])
def test_rounded_probabilities_of_each_colour(rung: str | None, padded: bool, n: int, domains: int, width: int) -> None:
    rounds_each_colour_once(rung, padded, arguments(n, domains, width, 2, bfloat16=True, **WEIGHTED))


# Loads of one, two and four words, whole and ending within a vector; fewer and more edges than are copied ahead, all
# eight of each point; own and shared moments, with a tile of features for the counts and without.
@pytest.mark.parametrize(
    "n,domains,width,degree,options",
    [
        (150, 13, 6, 3, WEIGHTED),
        (150, 22, 9, 11, {}),
        (300, 32, 16, 8, {}),
        (200, 41, 24, 8, {"field": True}),
        (150, 59, 70, 11, WEIGHTED),
        (300, 77, 50, 8, {}),
        (200, 100, 127, 3, {"field": True}),
    ],
)
@pytest.mark.one_in(3)
def test_selections_round_each_colour_once(
    n: int, domains: int, width: int, degree: int, options: dict[str, bool]
) -> None:
    rounds_each_colour_once("k07", True, arguments(n, domains, width, 2, degree=degree, bfloat16=True, **options))


# Rows of 8 bytes and of vectors of 16 bytes; one and several steps; more tiles of a colour than warps, whose rows are
# loaded ahead; moments of a warp's own points, and of several warps.
@pytest.mark.parametrize(
    "n,domains,width,degree,options",
    [
        (150, 13, 3, 3, WEIGHTED),
        (150, 7, 30, 8, {}),
        (150, 22, 9, 11, {}),
        (300, 32, 16, 8, {}),
        (600, 40, 10, 8, {}),
        (600, 50, 16, 11, WEIGHTED),
        (150, 59, 70, 11, WEIGHTED),
        (300, 77, 50, 8, {"field": True}),
        (200, 100, 127, 3, {}),
    ],
)
@pytest.mark.one_in(3)
def test_selections_of_rounded_features(
    n: int, domains: int, width: int, degree: int, options: dict[str, bool]
) -> None:
    given_ = arguments(n, domains, width, 2, degree=degree, bfloat16=True, bfloat16_features=True, **options)
    rounds_features_too("k07", given_)


# One and two units of 64 features, an odd number of vectors; two and three updating warpgroups; domains in one and two
# units of 64; warps without points; fewer and more edges than are copied ahead, all eight of each point.
@pytest.mark.parametrize(
    "n,domains,width,degree,options",
    [
        (150, 13, 3, 3, WEIGHTED),
        (150, 22, 9, 11, {}),
        (300, 33, 64, 8, {}),
        (600, 50, 70, 11, WEIGHTED),
        (300, 77, 50, 8, {"field": True}),
        (200, 100, 127, 3, {}),
        (900, 90, 128, 8, {}),
        (200, 120, 20, 8, {}),
    ],
)
@pytest.mark.one_in(3)
def test_warpgroups_of_rounded_features(
    n: int, domains: int, width: int, degree: int, options: dict[str, bool]
) -> None:
    given_ = arguments(n, domains, width, 2, degree=degree, bfloat16=True, bfloat16_features=True, **options)
    rounds_features_too("k09", given_)


@pytest.mark.parametrize("domains,width", [(40, 20), (100, 80)])
def test_warpgroups_with_many_tiles_of_a_block(domains: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tiles of a colour are those of one block, so that its moments are added to shared memory several times."""
    monkeypatch.setattr(launches, "sm_count", lambda tensor: 1)
    given_ = arguments(2500, domains, width, 1, degree=8, bfloat16=True, bfloat16_features=True)
    rounds_features_too("k09", given_)


# Rows of 8 and of 16 bytes; loads of eight and of 16 bytes per lane, and vectors of a load that do not exist; moments in
# registers and in shared memory; fewer and more edges than are copied ahead, all eight of each point.
@pytest.mark.parametrize(
    "n,domains,width,degree,options",
    [
        (300, 40, 16, 8, {}),
        (150, 16, 3, 3, {"field": True}),
        (150, 24, 9, 11, {}),
        (600, 56, 20, 11, {"field": True}),
        (900, 96, 20, 8, {}),
        (300, 72, 5, 8, {"field": True}),
        (200, 104, 16, 3, {}),
        (900, 128, 20, 8, {}),
    ],
)
@pytest.mark.one_in(3)
def test_eight_lanes_of_rounded_features(
    n: int, domains: int, width: int, degree: int, options: dict[str, bool]
) -> None:
    given_ = arguments(n, domains, width, 2, degree=degree, bfloat16=True, bfloat16_features=True, **options)
    rounds_features_too("k10", given_)


def test_eight_lanes_with_many_tiles_of_a_warp(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tiles of a colour are those of one block: rows are loaded ahead, and kept moments added several times."""
    monkeypatch.setattr(launches, "sm_count", lambda tensor: 1)
    for domains, width in ((80, 6), (80, 20)):
        given_ = arguments(2500, domains, width, 1, degree=8, bfloat16=True, bfloat16_features=True)
        rounds_features_too("k10", given_)


# Rows of 8 and of 16 bytes, whole and padded; one vector of features, an odd and an even number; fewer and more edges
# than are copied ahead, all eight of each point.
@pytest.mark.parametrize(
    "n,domains,width,degree,options",
    [
        (300, 8, 16, 8, {}),
        (150, 7, 30, 3, WEIGHTED),
        (200, 3, 5, 8, {}),
        (350, 8, 50, 11, {}),
        (300, 5, 128, 8, {"field": True}),
        (200, 4, 24, 12, WEIGHTED),
    ],
)
@pytest.mark.one_in(3)
def test_lanes_of_rounded_features(n: int, domains: int, width: int, degree: int, options: dict[str, bool]) -> None:
    given_ = arguments(n, domains, width, 2, degree=degree, bfloat16=True, bfloat16_features=True, **options)
    rounds_features_too("k08", given_)


def rounds_features_too(rung: str, given_: dict[str, Any]) -> None:
    """Each colour is rounded once, and the moments are those of the stored probabilities and features."""
    rounds_each_colour_once(rung, True, given_, 4e-3)
    counts, sums = ops.potts_em_step(**given_, rung=rung)[:2]
    stored, features = given_["q"].double(), given_["features"].double()
    torch.testing.assert_close(counts, stored.sum(0).float(), rtol=1e-5, atol=0)
    torch.testing.assert_close(sums, torch.einsum("nrk,nd->rkd", stored, features).float(), rtol=1e-4, atol=1e-4)


# Rows that are an odd multiple of 16 bytes apart, multiples of 32 and of 64 bytes; last vectors of four with one and
# three domains, of eight with one to seven; a lane for each point.
@pytest.mark.parametrize(
    "domains,pitch",
    [
        (3, 4),
        (5, 8),
        (13, 16),
        (18, 32),
        (43, 48),
        (51, 56),
        (52, 64),
        (58, 64),
        (61, 64),
        (62, 64),
        (63, 64),
        (75, 80),
        (89, 96),
    ],
)
@pytest.mark.parametrize("warpgroups", [False, True])
@pytest.mark.one_in(3)
def test_padding_does_not_count(warpgroups: bool, domains: int, pitch: int) -> None:
    """NaN in the padding of q changes nothing and stays there, also after one column of zeros; columns of zeros remain
    zeros."""
    if warpgroups and pitch < 8:
        pytest.skip("k09 takes rows of 16 bytes")
    rung = "k09" if warpgroups else "k07" if domains > 8 else "k08"
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


def test_rounded_features_that_no_kernel_takes() -> None:
    """PyTorch computes, and a rung by name says what it takes."""
    given_ = arguments(40, 20, 3, bfloat16=True, bfloat16_features=True)
    before = given_["q"].clone()
    counts = ops.potts_em_step(**given_)[0]
    assert counts is not None and counts.dtype == torch.float32 and not torch.equal(given_["q"], before)
    with pytest.raises(ValueError, match="features of torch.bfloat16 in rows of empty_rows"):
        ops.potts_em_step(**{**given_, "q": spec.padded(given_["q"])}, rung="k07")
    few = arguments(40, 4, 8, bfloat16=True, bfloat16_features=True)
    with pytest.raises(ValueError, match="features of torch.float32, not torch.bfloat16"):
        ops.potts_em_step(**few, rung="k03")


def rounds_each_colour_once(rung: str | None, padded: bool, given_: dict[str, Any], of_scores: float = 0.0) -> None:
    """Given the stored probabilities of the colours before, those of a colour are the reference's, rounded once.

    ``of_scores``: the relative error of q by rounded coefficients, in units of 2^-7.
    """
    given_ |= {"return_derivatives": True, "return_near": True}
    if padded:
        given_["q"] = spec.padded(given_["q"])
        if given_["features"].dtype == torch.bfloat16:
            given_["features"] = spec.padded(given_["features"])
    before, bounds = given_["q"].clone(), given_["bounds"]
    near = ops.potts_em_step(**given_, rung=rung)[3]
    assert near is not None
    seen, whole = before.double(), {**given_, "return_derivatives": False}
    for begin, end in pairwise(bounds):
        found = reference(*{**whole, "q": seen, "bounds": (begin, end)}.values())
        rtol = (0.502 + of_scores) * 2**-7
        torch.testing.assert_close(given_["q"][begin:end].double(), found[4][begin:end], rtol=rtol, atol=1e-30)
        torch.testing.assert_close(near[begin - bounds[0] : end - bounds[0]].double(), found[3], rtol=1e-5, atol=1e-6)
        seen[begin:end] = given_["q"][begin:end].double()


def test_a_lane_for_each_rounded_point_of_many_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with many points."""
    monkeypatch.setattr(tiles, "WIDE_POINTS", 0)
    assert tiles.warp_tile_of(7, 50, torch.bfloat16, 1) != tiles.warp_tile_of(7, 50, torch.bfloat16)
    test_rounded_probabilities_of_each_colour("k03", True, 90, 7, 50)
    given_ = arguments(150, 8, 40, 1, degree=11, bfloat16=True, return_derivatives=True)
    agrees_with_pytorch(given_, "k03")


@pytest.mark.parametrize("rung", [None, "k01", "k02", "k03", "k04", "k06"])
def test_points_outside_the_bounds_keep_their_probabilities(rung: str | None) -> None:
    given_ = arguments()
    before = given_["q"].clone()
    counts, _, derivatives, near = ops.potts_em_step(**{**given_, "bounds": (3, 9)}, rung=rung)
    changed = (given_["q"] != before).flatten(1).any(1)
    assert changed.nonzero().flatten().tolist() == list(range(3, 9))
    assert counts is not None and counts.sum().item() == pytest.approx(6 * 2, rel=1e-5)
    assert derivatives is None and near is None


def test_no_points_give_zeros() -> None:
    for rung in (None, "k01", "k02", "k03", "k04", "k06"):
        counts, sums, derivatives, _ = ops.potts_em_step(
            **{**arguments(), "bounds": (7, 7), "return_derivatives": True}, rung=rung
        )
        assert counts is not None and sums is not None and derivatives is not None
        assert not counts.any() and not sums.any() and not derivatives.any()


# Of k03, features that fit and do not; of k07, 16 points of a warp, 8, and none; then other limits. Features in
# bfloat16 pay too with k08 (up to 8 domains and 128 features) or k07 (more than 4 domains).
@pytest.mark.parametrize(
    "domains,width,restarts,colours,pays,features_pay",
    [
        (8, 256, 2, 4, True, True), (8, 257, 2, 4, False, True), (4, 128, 2, 4, True, True),
        (4, 129, 2, 4, True, False), (64, 16, 2, 4, True, True), (128, 100, 2, 4, False, True),
        (128, 600, 2, 4, False, False), (129, 4, 2, 4, False, False), (16, 16, 64, 32, True, True),
        (16, 16, 65, 4, False, False), (16, 16, 2, 33, False, False),
    ],
)  # fmt: skip
def test_bfloat16_pays_only_where_a_rung_takes_it(
    domains: int, width: int, restarts: int, colours: int, pays: bool, features_pay: bool
) -> None:
    assert rungs.rounding_pays(tiles.Shape(2 * colours, restarts, domains, width), colours) == pays
    given_ = arguments(2 * colours, domains, width, restarts) | {"bounds": tuple(range(0, 2 * colours + 1, 2))}
    given_["q"] = spec.empty_rows(2 * colours, restarts, domains)
    assert OP.default(*given_.values()) is not None or not pays
    assert rungs.rounding_features_pays(tiles.Shape(2 * colours, restarts, domains, width), colours) == features_pay
    given_["features"] = spec.padded(given_["features"].bfloat16())
    chosen = OP.default(*given_.values())
    assert chosen is not None or not features_pay
    assert (chosen == "k08_point_lanes") == (domains <= 8 and width <= 128)


@pytest.mark.parametrize(
    "changed,message",
    [
        ({"columns": torch.zeros(3, dtype=torch.int64), "rowptr": torch.zeros(41, dtype=torch.int64)}, "int32"),
        ({"q": torch.ones(40, 2, 200), "linear": torch.ones(2, 200, 3), "constant": torch.ones(2, 200),
          "external": torch.zeros(1, 1, 200)}, "up to 128 domains"),
    ],
)  # fmt: skip
def test_limits(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ops.potts_em_step(**{**arguments(), **changed}, rung="k02")


@pytest.mark.parametrize(
    "changed,error,message",
    [
        ({"q": torch.ones(40, 4)}, ValueError, "q with 3 dimensions"),
        ({"q": torch.ones(40, 2, 3)}, ValueError, r"each of the 4 domains of linear, got \(40, 2, 3\)"),
        ({"constant": None}, ValueError, "both linear and constant"),
        ({"features": torch.ones(40, 2)}, ValueError, r"linear \(2, 4, 2\)"),
        ({"beta": torch.ones(3)}, ValueError, r"beta \(2,\)"),
        ({"beta": torch.ones(2).double()}, TypeError, "dtype"),
        ({"external": torch.ones(3, 1, 4)}, ValueError, r"external \(40, 1, 4\)"),
        ({"rowptr": torch.zeros(40, dtype=torch.int32)}, ValueError, r"rowptr \(41,\)"),
        ({"q": torch.ones(40, 2, 4, dtype=torch.float16)}, TypeError, "dtype"),
        ({"bounds": (0, 50)}, ValueError, "bounds that rise"),
        ({"bounds": (9, 3)}, ValueError, "bounds that rise"),
    ],
    ids=str,
)
def test_wrong_arguments(changed: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ops.potts_em_step(**{**arguments(), **changed})
