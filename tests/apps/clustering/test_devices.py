"""Fits by the kernels: emulated on the CPU, and on a GPU, where fits are repeatable and do not synchronise."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from warpwise import ops
from warpwise.apps.clustering import (
    SmoothedKMeans,
    SpatialMixture,
    emission,
    field,
    generators,
    grid,
    kmeans,
    rounding,
    smoothed_kmeans,
    smoothing,
    starts,
)
from warpwise.apps.clustering.emission import Emission
from warpwise.apps.clustering.field import MeanField
from warpwise.apps.clustering.kmeans import drawn, raced

SMALL = generators.layered(0.8, (20, 15), n_domains=3)
LAYERS = generators.layered(1.0, (60, 50), n_domains=4)


def _on_int32(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Kernels take graphs of int32."""
    given = [value.int() if isinstance(value, torch.Tensor) and value.dtype == torch.int64 else value for value in args]
    return function(*given, **named)


CALLS = (
    (field, "potts_em_step", "k02"),
    (smoothing, "smooth_features", "k02"),
    (kmeans, "kmeans_assign", "k02"),
    (kmeans, "kmeans_update", "k02"),
    (starts, "kmeans_update", "k02"),
    (emission, "potts_m_step", "k02"),
)


@pytest.fixture
def by_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "kernels_take", lambda X, graph: False)  # k02 takes float32
    for module, name, rung in CALLS:
        monkeypatch.setattr(module, name, functools.partial(_on_int32, getattr(ops, name), rung=rung))


def fit(data: generators.Sample = SMALL, **options: Any) -> SpatialMixture:
    k = int(data.labels.max()) + 1
    return SpatialMixture(k, **{"n_init": 2, "random_state": 0, **options}).fit(data.X, shape=data.shape)


@pytest.mark.parametrize("covariance", ["tied", "diag"])
def test_kernels_find_the_domains_that_pytorch_finds(covariance: str, by_kernels: None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module, name, _ in CALLS:
            patch.setattr(module, name, getattr(ops, name))
        expected = fit(covariance=covariance)
    found = fit(covariance=covariance)
    assert np.array_equal(found.labels_, expected.labels_)
    assert np.allclose(found.probabilities_, expected.probabilities_, atol=1e-3)
    assert found.elbo_ == pytest.approx(expected.elbo_, rel=1e-4)
    assert found.beta_ == pytest.approx(expected.beta_, rel=1e-3)


def test_features_that_are_smoothed_in_parts_give_the_same_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: half of the columns at a time, and labels of a block of points."""
    expected = fit(n_init=6)
    monkeypatch.setattr(starts, "width_of_parts", lambda width, device: 4)
    monkeypatch.setattr(starts, "_BLOCK", 70)
    found = fit(n_init=6)
    assert np.array_equal(found.labels_, expected.labels_) and found.elbo_ == pytest.approx(expected.elbo_, rel=1e-6)


@pytest.mark.parametrize("features", [2, 6])
def test_starts_one_after_another_give_the_same_fit(features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with many points. With more domains than features the best start runs again, so that one q is in memory."""
    data = generators.layered(0.8, (20, 15), n_domains=3, n_features=features)
    expected = fit(data, n_init=9)
    monkeypatch.setattr(starts, "_ELEMENTS", 1)
    found = fit(data, n_init=9)
    assert adjusted_rand_score(found.labels_, expected.labels_) > 0.99  # two starts may find the same domains
    assert found.elbo_ == pytest.approx(expected.elbo_, rel=1e-4)


def test_smoothed_kmeans_starts_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with many points, and on a GPU: columns in parts, and distances of a block of points at a time."""
    expected = SmoothedKMeans(4, random_state=0).fit(LAYERS.X, shape=LAYERS.shape)
    monkeypatch.setattr(kmeans, "_SAMPLE", len(LAYERS.X) // 2)
    monkeypatch.setattr(kmeans, "_BLOCK", 70)
    monkeypatch.setattr(smoothed_kmeans, "width_of_parts", lambda width, device: 4)
    found, again = (SmoothedKMeans(4, random_state=0).fit(LAYERS.X, shape=LAYERS.shape) for _ in range(2))
    assert np.array_equal(found.labels_, again.labels_)
    assert found.inertia_ == pytest.approx(expected.inertia_, rel=1e-2)


def test_draws_are_in_proportion_to_the_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.tensor([0.0, 1, 2, 5, 0, 0, 8]).expand(20_000, -1)
    draws = torch.rand(len(weights), 1, generator=generator, dtype=torch.float64)
    for found in (raced(weights, generator), drawn(weights, draws)[0][:, 0]):
        shares = torch.bincount(found, minlength=7) / len(weights)
        assert torch.allclose(shares, weights[0] / 16, atol=0.015)
        assert not shares[[0, 4, 5]].any()
    uniform = raced(torch.zeros(20_000, 4), generator)
    assert torch.allclose(torch.bincount(uniform) / len(uniform), torch.full((4,), 0.25), atol=0.015)


def test_a_graph_on_a_device_has_indices_of_int32() -> None:
    moved = grid((5, 4)).to(torch.device("meta"))
    assert moved.rowptr.dtype == moved.columns.dtype == torch.int32
    assert moved.unit_weights and moved.degree.shape == (20,)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_present() -> None:
    for estimator in (SpatialMixture, SmoothedKMeans):
        with pytest.raises(ValueError, match="device: got 'cuda', but PyTorch finds no CUDA device"):
            estimator(2, device="cuda").fit(SMALL.X)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"covariance": "diag"},
    {"covariance": "full"},
    {"covariance": "t"},
    {"prior": "layers"},
    {"sizes": np.bincount(LAYERS.labels)},
    {"field": np.eye(4)[LAYERS.labels]},
    {"smoothing": 2},
    {"n_types": 6},
    {"min_region": 20, "contiguous": True},
]


@pytest.mark.gpu
@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_fits_on_a_gpu_are_equal_bit_for_bit(
    options: dict[str, Any], kernels: bool, request: pytest.FixtureRequest
) -> None:
    if kernels:
        request.getfixturevalue("by_kernels")
    first, second = (fit(LAYERS, n_init=4, device="cuda", **options) for _ in range(2))
    assert adjusted_rand_score(LAYERS.labels, first.labels_) > 0.93
    assert adjusted_rand_score(fit(LAYERS, n_init=4, **options).labels_, first.labels_) > 0.95
    for name in ("labels_", "probabilities_", "uncertainty_", "means_"):
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert (first.elbo_, first.bic_, first.beta_) == (second.elbo_, second.bic_, second.beta_)
    again = first.predict(LAYERS.X, shape=LAYERS.shape)
    assert isinstance(again, np.ndarray) and (again == second.predict(LAYERS.X, shape=LAYERS.shape)).all()


@pytest.mark.gpu
def test_tensors_on_a_gpu_give_tensors_on_a_gpu() -> None:
    X = torch.from_numpy(LAYERS.X).cuda()
    model = SpatialMixture(4, n_init=4, random_state=0).fit(X, shape=LAYERS.shape)
    assert model.labels_.is_cuda and model.probabilities_.is_cuda
    assert adjusted_rand_score(LAYERS.labels, model.labels_.cpu()) > 0.93
    fast = SmoothedKMeans(4, random_state=0).fit(X, shape=LAYERS.shape)
    again = SmoothedKMeans(4, random_state=0).fit(X, shape=LAYERS.shape)
    assert fast.labels_.is_cuda and torch.equal(fast.labels_, again.labels_)
    assert adjusted_rand_score(LAYERS.labels, fast.labels_.cpu()) > 0.85
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X * torch.nan, shape=LAYERS.shape)
    with pytest.raises(ValueError, match="2D"):
        model.fit(X[0])


@pytest.mark.gpu
def test_iterations_on_a_gpu_do_not_synchronise(by_kernels: None) -> None:
    device = torch.device("cuda")
    graph = grid((60, 50))
    graph = graph.permuted(torch.argsort(graph.colours, stable=True)).to(device)
    X = torch.randn(3000, 8, device=device)
    q = torch.softmax(torch.randn(3000, 2, 5, device=device), 2)
    beta, external = torch.full((2,), 0.5, device=device), torch.zeros(1, 1, 5, device=device)
    model = MeanField(X, graph, q, Emission("tied", X, q), None, beta, external)
    model.run(2, 1.5)
    before = torch.cuda.get_sync_debug_mode()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        model.run(4, 1.5)
    finally:
        torch.cuda.set_sync_debug_mode(before)
