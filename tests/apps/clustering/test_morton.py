"""Points of a colour along a Morton curve: a permutation of the colour, fewer rows for a tile, and the same fits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

from warpwise.apps.clustering import SpatialMixture, from_edges, generators, grid, knn, morton, radius, starts
from warpwise.apps.clustering.graph import Graph

TILE = 128


def check(graph: Graph) -> None:
    """The order is a permutation of the points of each colour, and ``drawn`` finds the points of a stable sort."""
    before = torch.argsort(graph.colours, stable=True)
    order, found = graph.by_colour
    assert (graph.colours[order] == graph.colours[before]).all()
    assert (order.sort()[0] == torch.arange(graph.n_points)).all()
    places = torch.arange(graph.n_points)
    assert (order[found.drawn(places)] == before).all()


@settings(max_examples=examples(20), deadline=None)
@given(n=st.integers(1, 300), axes=st.integers(2, 3), k=st.integers(1, 9), distinct=st.integers(1, 300))
def test_the_order_is_a_permutation_of_each_colour(n: int, axes: int, k: int, distinct: int) -> None:
    points = np.random.default_rng(n).random((distinct, axes))[np.arange(n) % distinct]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(morton, "FEWEST", 1)
        for graph in (knn(points, k), radius(points, 0.1)):
            check(graph)


def test_other_points_keep_their_order() -> None:
    few = knn(np.random.default_rng(0).random((300, 2)), 8)
    for graph in (few, grid((280, 280)), from_edges([[0, 1], [1, 2]], morton.FEWEST)):
        assert (graph.order == torch.argsort(graph.colours, stable=True)).all()
        assert graph.moved_order[1] is None
        check(graph)


def rows_of_a_tile(graph: Graph) -> float:
    """The distinct neighbours of the points of a tile, for each point."""
    found, bounds = graph.by_colour[1], np.cumsum([0, *graph.colour_counts])
    tiles = [first for a, b in pairwise(bounds) for first in range(a, b - TILE + 1, TILE)]
    ends = found.rowptr[tiles].tolist(), found.rowptr[[first + TILE for first in tiles]].tolist()
    distinct = [len(torch.unique(found.columns[a:b])) for a, b in zip(*ends, strict=True)]
    return sum(distinct) / len(distinct) / TILE


def test_points_of_a_tile_share_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(0).random((30_000, 2))
    before = rows_of_a_tile(knn(points, 8))
    monkeypatch.setattr(morton, "FEWEST", 1)
    assert rows_of_a_tile(knn(points, 8)) < 0.75 * before


@pytest.mark.parametrize("options", [{}, {"n_types": 5}, {"prior": "layers"}, {"block_size": 1000}])
def test_the_curve_does_not_change_a_fit(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """k-means of the starts draws the same points, so that only the order of sums differs."""
    monkeypatch.setattr(starts, "_SAMPLE", 2000)
    data, fits = generators.layered(0.8, (50, 70), n_features=4, n_domains=4), []
    coords = np.indices(data.shape).reshape(2, -1).T + np.random.default_rng(0).random((3500, 2)) * 0.3
    shuffled = np.random.default_rng(1).permutation(3500)
    for fewest in (1, 1, morton.FEWEST):
        monkeypatch.setattr(morton, "FEWEST", fewest)
        model = SpatialMixture(4, n_init=4, random_state=0, **options)
        fits.append(model.fit(data.X[shuffled], coords=coords[shuffled]))
    assert (fits[0].probabilities_ == fits[1].probabilities_).all() and fits[0].elbo_ == fits[1].elbo_
    assert (fits[0].labels_ == fits[2].labels_).mean() > 0.999
    assert fits[0].elbo_ == pytest.approx(fits[2].elbo_, abs=1e-5 * len(data.X))  # a sum over the points
