"""potts_em_step beyond its cases: random sizes, one colour, limits and errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ops.potts_em_step import OP, WEIGHTED, agrees_with_pytorch, arguments, rounds_each_colour_once
from tests.sampled import examples

from warpwise import ops
from warpwise.ops.potts_em_step import rungs, spec, tiles

FEW = settings(max_examples=examples(6), deadline=None)


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
