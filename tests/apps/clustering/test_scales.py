"""Features of any scale and offset, without noise, and that depend on each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture, generators
from warpwise.apps.clustering.inputs import clipped

SHAPE = (60, 50)
LAYERS = generators.layered(1.0, SHAPE, n_domains=4)


def fit(X: np.ndarray = LAYERS.X, whiten: bool = True) -> SpatialMixture:
    return SpatialMixture(4, n_init=4, whiten=whiten, random_state=0).fit(X, shape=SHAPE)


@pytest.mark.parametrize("covariance", ["tied", "diag", "full", "t"])
@pytest.mark.parametrize("width", [1, 5, 40])
def test_features_without_noise(covariance: str, width: int) -> None:
    labels = np.repeat(np.arange(4), 750)
    X = labels[:, None] if width == 1 else np.random.default_rng(0).normal(size=(4, width))[labels]
    for whiten in (True, False):
        model = SpatialMixture(4, n_init=4, covariance=covariance, whiten=whiten, random_state=0).fit(X, shape=SHAPE)
        assert adjusted_rand_score(labels, model.labels_) == 1
        assert np.isfinite([model.elbo_, model.bic_]).all()


def test_selection_without_noise() -> None:
    X = np.repeat(np.arange(4.0), 750)[:, None]
    for ks in ([2, 3, 4], [4, 3, 2]):
        assert SpatialMixture(n_init=4, random_state=0).select(X, ks, shape=SHAPE).n_domains == 4


@pytest.mark.parametrize("scale, offset", [(1e-30, 0), (1e30, 0), (1e-170, 0), (1e160, 0), (1, 1e7), (1e-3, 1e10)])
@pytest.mark.parametrize("whiten", [True, False])
def test_scale_and_offset_of_the_features(scale: float, offset: float, whiten: bool) -> None:
    X = LAYERS.X.astype(np.float64) * scale + offset
    assert adjusted_rand_score(LAYERS.labels, fit(X, whiten).labels_) > 0.93
    smoothed = SmoothedKMeans(4, whiten=whiten, random_state=0).fit(X, shape=SHAPE)
    assert adjusted_rand_score(LAYERS.labels, smoothed.labels_) > 0.85


def test_features_that_vary_only_by_rounding() -> None:
    rounded = np.float32(1e6) + np.random.default_rng(0).integers(2, size=3000) / 16
    with pytest.warns(UserWarning, match="1 features, feature 15 first, vary only within the precision"):
        model = fit(np.c_[LAYERS.X, rounded].astype(np.float32))
    assert np.array_equal(model.labels_, fit().labels_)
    with pytest.raises(ValueError, match="X: expected features whose sum is finite"):
        SpatialMixture().fit(np.linspace(1, 1.1, 30)[:, None] * 1e308, shape=(6, 5))


@pytest.mark.parametrize("options", [{}, {"n_types": 6}, {"smoothing": 1}, {"block_size": 900}], ids=str)
def test_outliers_do_not_determine_the_starts(options: dict[str, int]) -> None:
    random = np.random.default_rng(2)
    single = LAYERS.X + (random.random(LAYERS.X.shape) < 0.01) * random.normal(0, 100, LAYERS.X.shape)
    heavy = LAYERS.X + random.standard_t(1.2, LAYERS.X.shape) / 2
    for X in (single, heavy):
        model = SpatialMixture(4, n_init=8, covariance="t", random_state=0, **options).fit(X, shape=SHAPE)
        assert adjusted_rand_score(LAYERS.labels, model.labels_) > 0.85


def test_fences_of_features() -> None:
    X = torch.arange(401.0)[:, None] * torch.tensor([1.0, -2.0, 0.0])
    X[0] = torch.tensor([1e6, -1e6, 5.0])
    found = clipped(X)
    assert found[0].tolist() == [pytest.approx(600, abs=3), pytest.approx(-1200, abs=6), 5]  # equal quartiles: as given
    assert torch.equal(found[1:], X[1:])
    assert torch.equal(clipped(X[:50], X.numpy())[0], found[0])  # a part, by the quartiles of all


def test_means_of_features_that_depend_on_each_other() -> None:
    X = np.c_[LAYERS.X[:, :3], 10 * LAYERS.X[:, :1] + 5, np.full(3000, 7.0)]
    model = fit(X)
    shares = model.probabilities_ / model.probabilities_.sum(0)
    np.testing.assert_allclose(model.means_, shares.T @ X, atol=0.02)


@pytest.mark.parametrize("scale", [1e-4, 10, 1e4])
@pytest.mark.parametrize("options", [{}, {"contiguous": True, "min_region": 20}], ids=str)
def test_scale_of_a_prior_matrix(scale: float, options: dict[str, Any]) -> None:
    for matrix in (np.eye(4), np.diag([1, 2, 2, 1]) + 0.5):
        one, other = (
            SpatialMixture(4, prior=prior, n_init=4, random_state=0, **options).fit(LAYERS.X, shape=SHAPE)
            for prior in (matrix, scale * matrix)
        )
        assert other.beta_ * scale == pytest.approx(one.beta_, rel=1e-3)
        assert np.array_equal(one.labels_, other.labels_)
        assert np.allclose(one.probabilities_, other.probabilities_, atol=1e-3)


def test_a_matrix_equal_to_a_named_prior_gives_its_fit() -> None:
    place = np.arange(4)
    for name, matrix in ("potts", np.eye(4)), ("layers", -abs(place[:, None] - place)):
        one, other = (
            SpatialMixture(4, prior=prior, n_init=4, random_state=0).fit(LAYERS.X, shape=SHAPE)
            for prior in (name, matrix)
        )
        assert other.beta_ == pytest.approx(one.beta_, rel=1e-3)
        assert (one.labels_ == other.labels_).all() or name == "potts"  # its starts number the domains


def test_matrices_without_a_scale() -> None:
    for prior in (np.zeros((4, 4)), np.ones((4, 4))):
        model = SpatialMixture(4, prior=prior, n_init=4, random_state=0).fit(LAYERS.X, shape=SHAPE)
        assert np.isfinite(model.beta_)
    assert SpatialMixture(1, prior=[[5.0]], random_state=0).fit(LAYERS.X, shape=SHAPE).labels_.max() == 0
