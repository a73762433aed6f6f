"""Principal components of smoothed features: their number and what they are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch

pytest.importorskip("sklearn", minversion="1.6")

from sklearn.metrics import adjusted_rand_score

from warpwise.apps.clustering import SpatialMixture, count_features, generators, grid, spatial_components
from warpwise.apps.clustering.smoothing import smooth

SHAPE = (40, 30)


def noise(features: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(SHAPE[0] * SHAPE[1], features))


def waves(features: int) -> np.ndarray:
    """Two patterns in space, mixed into ``features`` noisy features of different units."""
    y, x = np.divmod(np.arange(SHAPE[0] * SHAPE[1]), SHAPE[1])
    patterns = np.stack([np.sin(y / 6), np.cos(x / 5)], 1)
    mixed = patterns @ np.random.default_rng(1).normal(size=(2, features))
    return (mixed + noise(features)) * 10.0 ** np.arange(features)[None] % 1e6


def test_as_many_as_the_patterns():
    found = spatial_components(waves(6), shape=SHAPE, random_state=0)
    assert found.shape == (SHAPE[0] * SHAPE[1], 2)
    assert found.dtype == np.float32
    assert abs(np.corrcoef(found.T)[0, 1]) < 1e-5
    assert found[:, 0].var() > found[:, 1].var()


def test_noise_alone_keeps_few():
    assert spatial_components(noise(20), shape=SHAPE, random_state=0).shape[1] <= 3
    assert spatial_components(noise(20), shape=SHAPE, min_components=5, random_state=0).shape[1] == 5
    assert spatial_components(noise(4), shape=SHAPE, min_components=40, random_state=0).shape[1] == 4


def test_units_offsets_and_constants_do_not_matter():
    X = waves(5)
    other = np.concatenate([3 * X + 7, np.full((len(X), 1), 4.0)], 1)
    graph = grid(SHAPE)
    np.testing.assert_allclose(
        spatial_components(X, graph=graph, random_state=0),
        spatial_components(other, graph=graph, random_state=0),
        atol=1e-4,
    )


def test_tensors_and_no_hops():
    X = torch.from_numpy(waves(4))
    made = spatial_components(X, shape=SHAPE, hops=0, random_state=0)
    assert isinstance(made, torch.Tensor)
    assert made.shape[0] == len(X)


def test_domains_of_many_noisy_features():
    data = generators.layered(1.5, SHAPE, n_domains=3)
    X = np.concatenate([data.X, 3 * noise(200)], 1)
    components = spatial_components(X, shape=SHAPE, random_state=0)
    assert components.shape[1] < 12
    labels = SpatialMixture(3, random_state=0).fit(components, shape=SHAPE).labels_
    assert adjusted_rand_score(data.labels, labels) > 0.9


def test_integers_of_numpy_and_a_reversed_array():
    X = waves(3)
    reverse = spatial_components(X[::-1].copy(), shape=SHAPE, random_state=0)
    found = spatial_components(X[::-1], shape=SHAPE, hops=np.int64(2), min_components=np.int64(1), random_state=0)
    assert np.array_equal(found, reverse)


@pytest.mark.parametrize("change,error,match", [
    ({"hops": -1}, ValueError, "hops: expected an integer of at least 0, got -1"),
    ({"min_components": 0}, ValueError, "min_components: expected an integer of at least 1, got 0"),
    ({"X": np.ones((1200, 3))}, ValueError, "expected a feature that varies"),
    ({"X": np.full((1200, 3), np.nan)}, ValueError, "contains NaN"),
    ({"shape": (2, 3)}, ValueError, "has 6 points, but X has 1200"),
])  # fmt: skip
def test_bad_input(change, error, match):
    given = {"X": waves(3), "shape": SHAPE, **change}
    with pytest.raises(error, match=match):
        spatial_components(given.pop("X"), **given)


def test_random_generators():
    X = waves(3)
    found = [spatial_components(X, shape=SHAPE, random_state=np.random.default_rng(3)) for _ in range(2)]
    assert np.array_equal(*found)
    assert spatial_components(X, shape=SHAPE, random_state=np.random.RandomState(3)).shape == found[0].shape


@pytest.mark.parametrize("sparse", [False, True])
def test_counts_of_molecules(sparse: bool) -> None:
    data = generators.layered(1.5, SHAPE, n_domains=3, n_features=20)
    counts = np.random.default_rng(0).poisson(np.exp(data.X - 1))
    features = count_features(scipy.sparse.csr_matrix(counts) if sparse else counts)
    assert features.shape == (1200, 60) and features.dtype == np.float32 and np.isfinite(features).all()
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    residual = (counts - expected) / np.sqrt(expected + expected**2 / 100)
    np.testing.assert_allclose(features[:, 40:], residual.clip(-(1200**0.5), 1200**0.5), rtol=1e-4, atol=1e-5)
    components = spatial_components(features, shape=SHAPE, random_state=0)
    labels = SpatialMixture(3, random_state=0).fit(components, shape=SHAPE).labels_
    assert adjusted_rand_score(data.labels, labels) > 0.9


def test_counts_that_are_negative_and_genes_without_counts() -> None:
    with pytest.raises(ValueError, match=r"expected counts of at least 0, got -1"):
        count_features(np.array([[0, 1], [2, -1]]))
    assert (count_features(np.array([[0, 1], [0, 3], [0, 0]]))[:, [0, 2, 4]] == 0).all()


def test_components_are_those_of_a_full_decomposition() -> None:
    X = waves(80)
    found = spatial_components(X, shape=SHAPE, random_state=0)
    standard = torch.from_numpy((X - X.mean(0)) / X.std(0))
    smoothed = smooth(grid(SHAPE), standard, 2)
    smoothed = smoothed - smoothed.mean(0)
    left, values, _ = torch.linalg.svd(smoothed, full_matrices=False)
    expected = (left * values)[:, : found.shape[1]].numpy()
    np.testing.assert_allclose(np.abs(found), np.abs(expected), atol=2e-2 * expected.std())
