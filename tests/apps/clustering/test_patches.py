"""Patches of the points of a colour: a permutation of the colour, fewer rows for a tile, and the same fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

from warpwise.apps.clustering import SpatialMixture, from_edges, generators, grid, hexagonal, knn, patches, starts
from warpwise.apps.clustering.graph import Graph

TILE = 128


def points(n: int, axes: int) -> Graph:
    return knn(np.random.default_rng(0).random((n, axes)), 8)


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches, "FEWEST", 1)


def check(graph: Graph) -> None:
    """The order is a permutation of the points of each colour, and ``drawn`` finds the points of a stable sort."""
    before = torch.argsort(graph.colours, stable=True)
    order, found = graph.by_colour
    assert (graph.colours[order] == graph.colours[before]).all()
    assert (order.sort()[0] == torch.arange(graph.n_points)).all()
    places = torch.arange(graph.n_points)
    assert (order[found.drawn(places)] == before).all()


@settings(max_examples=examples(20), deadline=None)
@given(
    shape=st.lists(st.integers(1, 70), min_size=2, max_size=2) | st.lists(st.integers(1, 20), min_size=3, max_size=3),
    connectivity=st.sampled_from(["full", "faces"]),
)
def test_a_lattice_keeps_its_colours(shape: list[int], connectivity: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patches, "FEWEST", 1)
        check(grid(shape, connectivity))


@pytest.mark.usefixtures("patched")
def test_other_graphs_keep_their_colours() -> None:
    for graph in (hexagonal(30, 50), points(300, 2), points(300, 3), knn(np.zeros((9, 2)), 3)):
        check(graph)


def rows_of_a_tile(graph: Graph) -> float:
    """The distinct neighbours of the points of a tile, for each point."""
    found, bounds = graph.by_colour[1], np.cumsum([0, *graph.colour_counts])
    tiles = [first for a, b in zip(bounds, bounds[1:], strict=False) for first in range(a, b - TILE + 1, TILE)]
    ends = found.rowptr[tiles].tolist(), found.rowptr[[first + TILE for first in tiles]].tolist()
    distinct = [len(torch.unique(found.columns[a:b])) for a, b in zip(*ends, strict=True)]
    return sum(distinct) / len(distinct) / TILE


@pytest.mark.parametrize(
    "graph, most",
    [
        (lambda: grid((300, 300)), 3.5),
        (lambda: grid((300, 300), "faces"), 1.4),
        (lambda: hexagonal(300, 300), 2.5),
        (lambda: grid((48, 48, 48)), 10.0),
        (lambda: grid((48, 48, 48), "faces"), 2.0),
        (lambda: points(70_000, 2), 4.5),
    ],
)
@pytest.mark.one_in(2)
def test_points_of_a_tile_share_neighbours(graph: Any, most: float) -> None:
    assert rows_of_a_tile(graph()) < most


def test_few_points_and_points_without_places_keep_their_order() -> None:
    for graph in (grid((70, 90)), from_edges([[0, 1], [1, 2]], patches.FEWEST)):
        assert (graph.order == torch.argsort(graph.colours, stable=True)).all()
        assert graph.moved_order[1] is None


@pytest.mark.parametrize("options", [{}, {"n_types": 5}, {"prior": "layers"}, {"block_size": 1000}])
def test_patches_do_not_change_a_fit(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """k-means of the starts draws the same points, so that only the order of sums differs."""
    monkeypatch.setattr(starts, "_SAMPLE", 2000)
    data, fits = generators.layered(0.8, (50, 70), n_features=4, n_domains=4), []
    for fewest in (1, 1, patches.FEWEST):
        monkeypatch.setattr(patches, "FEWEST", fewest)
        fits.append(SpatialMixture(4, n_init=4, random_state=0, **options).fit(data.X, shape=data.shape))
    assert (fits[0].probabilities_ == fits[1].probabilities_).all() and fits[0].elbo_ == fits[1].elbo_
    assert (fits[0].labels_ == fits[2].labels_).mean() > 0.999
    assert fits[0].elbo_ == pytest.approx(fits[2].elbo_, rel=1e-5)
