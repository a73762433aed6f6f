"""Fits that store probabilities and features in bfloat16 while they iterate, as on a GPU, here by PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from warpwise.apps.clustering import SpatialMixture, field, generators, grid, rounding
from warpwise.apps.clustering.emission import Emission
from warpwise.apps.clustering.field import MeanField
from warpwise.apps.clustering.parallel import Alone, Part

SHAPE = (60, 50)
LAYERS = generators.layered(1.0, SHAPE, n_domains=4)


def fit(n_domains: int, **options: Any) -> SpatialMixture:
    return SpatialMixture(n_domains, n_init=4, random_state=0, **options).fit(LAYERS.X, shape=SHAPE)


def rounds_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, for any number of points."""
    monkeypatch.setattr(rounding, "kernels_take", lambda X, graph: True)
    monkeypatch.setattr(rounding, "_LEAST_WORK", 0)


class Colours(Alone):
    """Processes that exchange nothing: the arrays whose halo they would fetch are recorded."""

    def __init__(self, n_points: int) -> None:
        super().__init__(n_points)
        self.exchanged: list[torch.Tensor] = []

    def steps(self, q: torch.Tensor, bounds: tuple[int, ...]) -> Iterator[Part]:
        for part in pairwise(bounds):
            yield part
            self.exchanged.append(q)


def test_probabilities_that_are_rounded_while_a_fit_iterates(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, here by PyTorch: all that is returned is float32, and the domains are those of float32."""
    exact = fit(4, max_iter=6)
    monkeypatch.setattr(rounding, "kernels_take", lambda X, graph: True)
    stored, step = list[torch.dtype](), field.potts_em_step
    monkeypatch.setattr(
        field, "potts_em_step", lambda q, *rest, **named: stored.append(q.dtype) or step(q, *rest, **named)
    )
    rounded, again = fit(4, max_iter=6), fit(4, max_iter=6)
    assert torch.bfloat16 in stored and stored[-1] == torch.float32
    assert (rounded.labels_ == again.labels_).all() and (rounded.probabilities_ == again.probabilities_).all()
    assert adjusted_rand_score(rounded.labels_, exact.labels_) > 0.99
    assert rounded.probabilities_.dtype == np.float32
    np.testing.assert_allclose(rounded.probabilities_.sum(1), 1, atol=1e-6)
    assert rounded.beta_ == pytest.approx(exact.beta_, rel=1e-3)


def test_features_that_are_rounded_while_a_fit_iterates(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU with many points."""
    exact = fit(10, max_iter=8)
    monkeypatch.setattr(rounding, "kernels_take", lambda X, graph: True)
    assert not rounding.saves_time(torch.empty(1000, 16), grid((25, 40)), 10, 1000)
    rounds_features(monkeypatch)
    stored, step = list[torch.dtype](), field.potts_em_step
    monkeypatch.setattr(
        field, "potts_em_step", lambda q, X, *rest, **named: stored.append(X.dtype) or step(q, X, *rest, **named)
    )
    rounded = fit(10, max_iter=8)
    assert torch.bfloat16 in stored and stored[-1] == torch.float32
    assert adjusted_rand_score(rounded.labels_, exact.labels_) > 0.98
    assert rounded.beta_ == pytest.approx(exact.beta_, rel=1e-2)
    np.testing.assert_allclose(rounded.means_, exact.means_, atol=0.05 * np.abs(exact.means_).max())


def test_features_are_not_rounded_where_domains_are_far_apart_and_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six pairs of domains, 3000 units of noise from each other; the two of a pair are five apart."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(12), 250)
    means = np.repeat(generator.normal(size=(6, 4)) * 3000, 2, 0)
    means[1::2, 0] += 5
    X = (means[labels] + generator.normal(size=(3000, 4))).astype(np.float32)
    exact = SpatialMixture(12, n_init=8, random_state=0).fit(X, shape=(60, 50))
    rounds_features(monkeypatch)
    stored, step = set[torch.dtype](), field.potts_em_step
    monkeypatch.setattr(
        field, "potts_em_step", lambda q, X, *rest, **named: stored.add(X.dtype) or step(q, X, *rest, **named)
    )
    model = SpatialMixture(12, n_init=8, random_state=0).fit(X, shape=(60, 50))
    assert stored == {torch.float32}
    assert adjusted_rand_score(exact.labels_, model.labels_) > 0.99


def test_a_rounded_halo_is_exchanged_as_words(monkeypatch: pytest.MonkeyPatch) -> None:
    order, graph = grid(SHAPE).by_colour
    X = torch.from_numpy(LAYERS.X)[order]
    q = torch.softmax(torch.randn(len(X), 1, 5), 2)
    parallel, emission = Colours(len(X)), Emission("tied", X, q)
    model = MeanField(X, graph, q, emission, None, torch.ones(1) / 8, torch.zeros(1, 1, 5), parallel=parallel)
    monkeypatch.setattr(rounding, "kernels_take", lambda X, graph: True)
    model.run(5)
    rounded, last = parallel.exchanged[0], parallel.exchanged[-1]
    assert all(words.dtype == torch.float32 and words.is_contiguous() for words in (rounded, last))
    assert rounded.shape == (len(X), 1, 4) and last is model.q
