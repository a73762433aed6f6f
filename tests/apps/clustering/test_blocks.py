"""Fits whose points are copied to the device in blocks: the labels are those of a fit in one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from warpwise.apps.clustering import SpatialMixture, generators, grid, knn
from warpwise.apps.clustering.parallel import Streams, morton_blocks

SHAPE = (24, 20)
DATA = generators.layered(1.2, SHAPE, n_domains=3, n_features=4)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prior": "layers", "covariance": "diag"},
        {"n_types": 4},
        {"field": np.eye(3)[DATA.labels], "min_region": 9},
        {"missing": "marginalise"},
    ],
    ids=str,
)
def test_labels_are_those_of_one_piece(options: dict[str, Any]) -> None:
    X = DATA.X.copy()
    if "missing" in options:
        X[::7, 1] = np.nan
    whole, blocks = (
        SpatialMixture(3, n_init=2, random_state=0, block_size=size, **options).fit(X, shape=SHAPE)
        for size in (None, 50)
    )
    assert np.array_equal(whole.labels_, blocks.labels_) and whole.n_iter_ == blocks.n_iter_
    assert np.allclose(whole.probabilities_, blocks.probabilities_, atol=1e-3)
    assert blocks.elbo_ == pytest.approx(whole.elbo_, rel=1e-4)


@pytest.mark.parametrize("graph", [grid(SHAPE), knn(np.random.default_rng(0).random((480, 2)), 6)], ids=["grid", "knn"])
def test_chunks_are_small_and_hold_every_edge(graph: Any) -> None:
    graph = graph.permuted(torch.argsort(graph.colours, stable=True))
    chunks = Streams(graph, torch.device("cpu"), morton_blocks(None, 480, 10)).chunks
    assert torch.equal(torch.cat([chunk.ids[: chunk.own] for chunk in chunks]).sort()[0], torch.arange(480))
    edges = set()
    for chunk in chunks:
        assert chunk.own <= 48 and len(chunk.graph.rowptr) == chunk.own + chunk.halo + 1
        assert graph.colours[chunk.ids[: chunk.own]].unique().numel() == 1
        edges |= set(zip(chunk.ids[chunk.graph.rows].tolist(), chunk.ids[chunk.graph.columns].tolist(), strict=True))
    assert edges == set(zip(graph.rows.tolist(), graph.columns.tolist(), strict=True))


def test_wrong_block_sizes() -> None:
    with pytest.raises(ValueError, match="block_size: expected an integer of at least 1"):
        SpatialMixture(3, block_size=0).fit(DATA.X)
    with pytest.raises(ValueError, match="smoothing"):
        SpatialMixture(3, block_size=9, smoothing=1).fit(DATA.X)


@pytest.mark.gpu
def test_blocks_on_a_gpu() -> None:
    model = SpatialMixture(3, n_init=2, random_state=0, block_size=100, device="cuda").fit(DATA.X, shape=SHAPE)
    expected = SpatialMixture(3, n_init=2, random_state=0).fit(DATA.X, shape=SHAPE)
    assert (model.labels_ == expected.labels_).mean() > 0.99
    assert (model.predict(DATA.X, shape=SHAPE) == model.labels_).mean() > 0.99
