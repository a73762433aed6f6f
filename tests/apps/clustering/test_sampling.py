"""Gibbs sampling at the parameters of a fit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from warpwise.apps.clustering import SpatialMixture, generators, grid
from warpwise.apps.clustering.emission import Emission
from warpwise.apps.clustering.field import MeanField
from warpwise.apps.clustering.prediction import sampled


def test_fractions_are_the_marginals_of_an_enumeration() -> None:
    """2 x 3 points with 8 neighbours and three labels: all 729 labelings."""
    graph = grid((2, 3)).by_colour[1]
    generator = torch.Generator().manual_seed(0)
    X, q = torch.randn(6, 3, generator=generator), torch.full((6, 1, 3), 1 / 3)
    interaction = -(torch.arange(3)[:, None] - torch.arange(3)).abs().float()
    emission = Emission("tied", X, torch.eye(3)[[0, 0, 1, 1, 2, 2], None])
    model = MeanField(X, graph, q, emission, None, torch.tensor([0.7]), torch.zeros(1, 1, 3), interaction)
    scores, edges = model.scores()[:, 0].double(), graph.rows < graph.columns
    labelings = torch.tensor(list(itertools.product(range(3), repeat=6)))
    logits = scores[torch.arange(6), labelings].sum(1)
    for i, j in zip(graph.rows[edges], graph.columns[edges], strict=True):
        logits += 0.7 * interaction[labelings[:, i], labelings[:, j]]
    weights = torch.softmax(logits, 0)
    exact = torch.stack([(weights[:, None] * (labelings == k)).sum(0) for k in range(3)], 1)
    found = sampled(model, 4000, 100, generator)
    assert float((found - exact).abs().max()) < 0.04  # 4000 dependent draws
    assert torch.allclose(found.sum(1), torch.ones(6))


def test_fractions_and_the_probabilities_of_a_fit() -> None:
    data = generators.layered(1.2, (24, 20), n_domains=3, n_features=4)
    model = SpatialMixture(3, n_init=2, random_state=0).fit(data.X, shape=data.shape)
    fractions = model.sample_proba(data.X, shape=data.shape, sweeps=50, burn_in=10)
    assert isinstance(fractions, np.ndarray) and fractions.shape == (480, 3)
    assert (fractions.argmax(1) == model.labels_).mean() > 0.97
    assert np.array_equal(fractions, model.sample_proba(data.X, shape=data.shape, sweeps=50, burn_in=10))
    with pytest.raises(ValueError, match="sweeps"):
        model.sample_proba(data.X, shape=data.shape, sweeps=0)


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    """Regions are merged there, and a chain is the same in each run."""
    data = generators.layered(1.0, (60, 50), n_domains=4, n_features=6)
    X = torch.from_numpy(data.X).cuda()
    model = SpatialMixture(4, min_region=20, contiguous=True, random_state=0).fit(X, shape=data.shape)
    assert model.labels_.is_cuda and len(model.labels_.unique()) <= 4
    first, second = (model.sample_proba(X, shape=data.shape, sweeps=30) for _ in range(2))
    assert torch.equal(first, second)
    assert float((first.argmax(1) == model.labels_).float().mean()) > 0.95
