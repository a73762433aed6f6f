"""The estimators: recovery of known domains, options, results of the kind of X, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture, connected_components, generators, grid
from warpwise.apps.clustering.emission import Emission
from warpwise.apps.clustering.field import MeanField

SHAPE = (60, 50)
LAYERS = generators.layered(1.0, SHAPE, n_domains=4)
MIXED = generators.composed(2.0, SHAPE, n_domains=4, random_state=3)


def fit(data: generators.Sample = LAYERS, **options: Any) -> SpatialMixture:
    return SpatialMixture(4, n_init=4, random_state=0, **options).fit(data.X, shape=data.shape)


def score(model: Any, data: generators.Sample = LAYERS) -> float:
    return adjusted_rand_score(data.labels, model.labels_)


@parametrize_with_checks([SpatialMixture(n_init=4, max_iter=20), SmoothedKMeans()])
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"covariance": "diag"},
        {"covariance": "full"},
        {"covariance": "t"},
        {"prior": "layers"},
        {"prior": 2 * np.eye(4)},
        {"sizes": np.bincount(LAYERS.labels)},
        {"field": np.eye(4)[LAYERS.labels]},
        {"smoothing": 2},
        {"n_types": 6},
        {"whiten": False},
    ],
    ids=str,
)
def test_each_option_recovers_layers(options: dict[str, Any]) -> None:
    assert score(fit(**options)) > 0.93


def test_kinds_of_domains() -> None:
    assert score(fit(MIXED, n_types=12), MIXED) > 0.9
    assert score(fit(MIXED), MIXED) < 0.6  # domains that are mixtures need types
    sample = generators.potts(1.2, SHAPE, n_domains=4)
    assert score(fit(sample), sample) > 0.8


def test_baseline() -> None:
    model = SmoothedKMeans(4, random_state=0).fit(LAYERS.X, shape=SHAPE)
    assert score(model) > 0.85


def test_layers_are_numbered_in_order() -> None:
    depth = [LAYERS.coords[fit(prior="layers").labels_ == k, 0].mean() for k in range(4)]
    assert depth == sorted(depth) or depth == sorted(depth, reverse=True)


def test_field_names_the_domains() -> None:
    model = fit(field=2 * np.eye(4)[LAYERS.labels])
    assert (model.labels_ == LAYERS.labels).mean() > 0.97


def test_sizes_are_approached() -> None:
    wanted = np.array([0.4, 0.3, 0.2, 0.1])
    noise = generators.layered(0.2, SHAPE, n_domains=4)
    found = fit(noise, sizes=wanted).probabilities_.mean(0)
    assert np.abs(found - wanted).max() < 0.05


def test_sizes_have_any_unit() -> None:
    counts = np.bincount(LAYERS.labels)
    one, other = (fit(sizes=sizes).probabilities_ for sizes in (counts / 1024, counts))
    assert np.array_equal(one, other)


@pytest.mark.parametrize("wanted", [[0.1, 0.1, 0.1, 0.7], [0.25, 0.25, 0.25, 0.25]], ids=str)
@pytest.mark.parametrize("options", [{}, {"covariance": "t"}, {"n_types": 6}, {"smoothing": 1}], ids=str)
def test_sizes_are_reached_where_they_are_not_those_of_the_data(wanted: list[float], options: dict[str, Any]) -> None:
    sample = generators.layered(1.2, (40, 30), n_domains=4, random_state=5)
    model = SpatialMixture(4, sizes=wanted, random_state=1, **options).fit(sample.X, shape=sample.shape)
    assert np.abs(model.probabilities_.mean(0) - wanted).max() < 0.015


def test_a_warning_of_sizes_that_are_not_reached() -> None:
    with pytest.warns(UserWarning, match=r"sizes: expected \[0.1, 0.1, 0.1, 0.7\], reached"):
        fit(sizes=[1, 1, 1, 7], max_iter=1)


def test_contiguous_and_min_region() -> None:
    graph = grid(SHAPE)
    sample = generators.potts(0.8, SHAPE, n_domains=4)
    single = torch.from_numpy(fit(sample, contiguous=True).labels_)
    assert int(connected_components(graph, single).max()) + 1 == single.unique().numel()
    large = torch.from_numpy(fit(sample, min_region=25).labels_)
    assert torch.bincount(connected_components(graph, large)).min() >= 25


def test_results_have_the_kind_of_x() -> None:
    X = torch.from_numpy(LAYERS.X)
    first, second = fit(), SpatialMixture(4, n_init=4, random_state=0).fit(X, shape=SHAPE)
    for name in ("labels_", "uncertainty_", "probabilities_", "means_"):
        assert isinstance(getattr(first, name), np.ndarray) and isinstance(getattr(second, name), torch.Tensor)
        assert np.array_equal(getattr(first, name), getattr(second, name).numpy())  # one seed, one result
    assert isinstance(second.predict(X, shape=SHAPE), torch.Tensor)


def test_coordinates_a_graph_and_a_shape_agree() -> None:
    graph = grid(SHAPE)
    matrix = scipy.sparse.csr_matrix(
        (graph.weights.numpy(), graph.columns.numpy(), graph.rowptr.numpy()), shape=(3000, 3000)
    )
    model = clone(fit())
    labels = model.fit(LAYERS.X, graph=graph).labels_
    assert np.array_equal(labels, fit().labels_)
    # The colouring of a matrix is another one, and so is the order of the updates.
    assert adjusted_rand_score(labels, model.fit(LAYERS.X, graph=matrix).labels_) > 0.98
    assert score(model.fit(LAYERS.X, coords=LAYERS.coords)) > 0.93


@pytest.mark.parametrize("seed", range(3))
def test_the_domains_of_overlapping_features_are_found_again(seed: int) -> None:
    """Three strips whose means are 0.8 standard deviations apart: a point alone says little about its domain."""
    rng = np.random.default_rng(seed)
    coords = rng.uniform(size=(6000, 2))
    strips = (3 * coords[:, 0]).astype(int)
    X = 0.8 * strips[:, None] + rng.normal(size=(6000, 1))
    model = SpatialMixture(3, random_state=0).fit(X, coords=coords)
    assert (model.predict(X, coords=coords) != model.labels_).mean() < 0.03


def test_prediction() -> None:
    model = fit()
    assert (model.predict(LAYERS.X, shape=SHAPE) == model.labels_).mean() > 0.99
    probabilities = model.predict_proba(LAYERS.X[:50])  # without neighbours
    assert probabilities.shape == (50, 4) and np.allclose(probabilities.sum(1), 1, atol=1e-5)
    assert np.allclose(model.uncertainty_, 1 - model.probabilities_.max(1))


def test_units_do_not_matter() -> None:
    scaled = LAYERS.X * np.logspace(-3, 3, 15) + 7
    model = clone(fit()).fit(scaled, shape=SHAPE)
    assert (model.labels_ == fit().labels_).mean() > 0.995
    within = scaled[model.labels_ == 0].mean(0)
    assert np.allclose(model.means_[0], within, atol=0.2 * scaled.std(0))


def test_selection_of_the_number_of_domains() -> None:
    sample = generators.layered(1.5, SHAPE, n_domains=3)
    model = SpatialMixture(n_init=4, random_state=0).select(sample.X, [2, 3, 5], shape=SHAPE)
    assert model.n_domains == 3 == len(np.unique(model.labels_)) and min(model.bics_, key=model.bics_.get) == 3


@pytest.mark.parametrize("types", [None, 5])
@pytest.mark.parametrize("layers", [False, True])
def test_no_update_of_a_colour_lowers_the_bound(types: int | None, layers: bool) -> None:
    graph = grid((20, 15))
    graph = graph.permuted(torch.argsort(graph.colours, stable=True))
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(300, 3, generator=generator)
    q = torch.softmax(torch.randn(300, 2, 4, generator=generator), 2)
    classes = q if types is None else torch.softmax(torch.randn(300, 2, 5, generator=generator), 2)
    mix = None if types is None else torch.softmax(torch.randn(2, 4, 5, generator=generator), 2)
    places = torch.arange(4.0)
    interaction = -(places[:, None] - places).abs() if layers else None
    external = torch.randn(300, 2, 4, generator=generator)
    beta = torch.tensor([0.3, 1.1])
    model = MeanField(X, graph, q, Emission("tied", X, classes), mix, beta, external, interaction)
    bound = model.elbo()
    for _ in range(3):
        for begin, end in model.colours:
            model.update_colour(begin, end)
            new = model.elbo()
            assert (new >= bound - 1e-5 * bound.abs()).all()
            bound = new
    for _ in range(3):
        model.update_parameters()
        assert (model.elbo() >= bound - 1e-5 * bound.abs()).all()
        model.update_domains()
        bound = model.elbo()


def test_smoothing_does_not_drive_beta_to_its_bound() -> None:
    sample = generators.potts(0.9, SHAPE, n_domains=4)
    plain, smoothed = fit(sample).beta_, fit(sample, smoothing=2).beta_
    assert abs(smoothed - plain) < 0.25 * plain


def test_isolated_points_duplicates_and_constant_features() -> None:
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 60)
    X = np.column_stack([labels * 8 + random.normal(size=120), np.full(120, 3.0), np.zeros(120)])
    edges = [[i, i + 1] for i in range(100) if i != 59]  # the last points have no neighbours
    graph = scipy.sparse.coo_matrix((np.ones(len(edges)), np.array(edges).T), shape=(120, 120))
    model = SpatialMixture(2, random_state=0).fit(X, graph=graph)
    assert adjusted_rand_score(labels, model.labels_) == 1
    coords = np.repeat([[0.0, 0.0], [1.0, 1.0]], 60, axis=0)
    assert adjusted_rand_score(labels, model.fit(X, coords=coords).labels_) == 1


def test_an_empty_domain_and_one_domain() -> None:
    X = np.repeat([[0.0], [5.0], [5.1]], [40, 40, 1], axis=0) + np.random.default_rng(0).normal(size=(81, 1)) * 0.01
    model = SpatialMixture(6, random_state=0).fit(X, coords=np.random.default_rng(1).random((81, 2)))
    assert np.isfinite(model.probabilities_).all() and np.isfinite(model.elbo_)
    assert (SpatialMixture(1).fit(X).labels_ == 0).all()


def test_one_point_and_no_variance() -> None:
    assert SpatialMixture(1, whiten=False).fit(np.ones((30, 2)), shape=(6, 5)).labels_.tolist() == [0] * 30
    assert SpatialMixture(1).fit([[1.0, 2.0]], coords=[[0, 0]]).labels_.tolist() == [0]
    model = SpatialMixture(1).fit(np.ones((30, 2)), coords=np.random.default_rng(0).random((30, 2)))
    assert (model.labels_ == 0).all() and np.allclose(model.means_, 1)
    points = SpatialMixture(2, random_state=0).fit([[1.0], [2.0]], coords=[[0, 0], [1, 0]])
    assert sorted(points.labels_) == [0, 1]


def test_a_graph_that_is_not_symmetric_is_made_so() -> None:
    graph = grid(SHAPE)
    parts = (graph.weights.numpy(), graph.columns.numpy(), graph.rowptr.numpy())
    both = scipy.sparse.csr_matrix(parts, shape=(3000, 3000))
    model = clone(fit())
    labels = model.fit(LAYERS.X, graph=both).labels_
    assert np.array_equal(labels, model.fit(LAYERS.X, graph=scipy.sparse.triu(both)).labels_)


def test_a_graph_whose_weights_are_zero_has_no_edges() -> None:
    ring = scipy.sparse.csr_matrix((np.zeros(3000), np.roll(np.arange(3000), 1), np.arange(3001)), shape=(3000, 3000))
    model = clone(fit())
    assert np.array_equal(model.fit(LAYERS.X, graph=ring).labels_, clone(model).fit(LAYERS.X).labels_)
    assert model.beta_ == 0


def test_starts_in_the_metric_of_x() -> None:
    """Of two patterns whiten=False finds that of the larger variance; whitening, that with less of it in neighbours."""
    X = np.zeros((3000, 2))
    y, x = np.divmod(np.arange(3000), 50)
    X[:, 0], X[:, 1] = 10 * (x // 5 % 2), y >= 30
    X += np.random.default_rng(0).normal(scale=0.05, size=X.shape)
    for whiten, pattern in ((False, X[:, 0] > 5), (True, y >= 30)):
        found = SmoothedKMeans(2, hops=0, whiten=whiten, random_state=0).fit(X, shape=SHAPE).labels_
        assert adjusted_rand_score(pattern, found) > 0.99


def bad(value: float) -> np.ndarray:
    X = LAYERS.X.copy()
    X[5, 3] = value
    return X


@pytest.mark.parametrize(
    "options, X, structure, message",
    [
        ({}, bad(np.nan), {}, "NaN"),
        ({}, bad(np.inf), {}, "infinity in 1 of"),
        ({}, LAYERS.X[0], {}, "2D"),
        ({}, LAYERS.X, {"coords": LAYERS.coords[:-1]}, "coords: expected 3000 rows"),
        ({}, LAYERS.X, {"coords": LAYERS.coords * np.nan}, "finite"),
        ({}, LAYERS.X, {"shape": (60, 49)}, "2940 points, but X has 3000"),
        ({}, LAYERS.X, {"graph": scipy.sparse.eye(10)}, "graph: expected 3000"),
        ({}, LAYERS.X, {"shape": SHAPE, "coords": LAYERS.coords}, "coords and shape"),
        ({}, LAYERS.X, {"coords": LAYERS.coords.astype(str) + "a"}, "coords: expected numbers"),
        ({}, LAYERS.X, {"shape": 3000}, "two or three positive integers"),
        ({}, LAYERS.X, {"shape": (60.5, 50)}, "two or three positive integers"),
        ({"n_domains": 3001}, LAYERS.X, {}, "n_samples=3000"),
        ({"n_domains": 10**12}, LAYERS.X, {}, "n_domains: expected at most n_samples=3000, got 1000000000000"),
        ({"n_domains": 10**30}, LAYERS.X, {"shape": SHAPE}, "n_domains: expected at most n_samples=3000, got 10"),
        ({"n_domains": 10**6, "prior": "layers"}, LAYERS.X, {}, "n_domains: expected at most n_samples=3000"),
        ({"n_types": 10**30}, LAYERS.X, {}, "n_types: expected at most n_samples=3000, got 10"),
        ({"n_domains": 4}, np.repeat([[0.0], [1.0], [2.0]], 9, axis=0), {}, "at most 3, the number of distinct rows"),
        ({"n_domains": 2}, np.ones((9, 2)), {}, "distinct"),
        ({"n_domains": 0}, LAYERS.X, {}, "n_domains: expected an integer of at least 1"),
        ({"n_init": 0}, LAYERS.X, {}, "n_init"),
        ({"covariance": "spherical"}, LAYERS.X, {}, "covariance"),
        ({"prior": "rings"}, LAYERS.X, {}, "prior"),
        ({"prior": np.eye(3)}, LAYERS.X, {}, r"a \(4, 4\) matrix, got shape \(3, 3\)"),
        ({"prior": np.triu(np.ones((4, 4)))}, LAYERS.X, {}, "symmetric"),
        ({"beta": -1}, LAYERS.X, {}, "beta"),
        ({"beta": "guess"}, LAYERS.X, {}, "beta"),
        ({"field": np.zeros((3000, 3))}, LAYERS.X, {}, "field"),
        ({"sizes": [1, 2, 0, 1]}, LAYERS.X, {}, "sizes"),
        ({"sizes": [1, 2, 3, 1], "prior": "layers"}, LAYERS.X, {}, 'only with prior="potts"'),
        ({"beta": None}, LAYERS.X, {}, "beta"),
        ({"beta": True}, LAYERS.X, {}, "beta"),
        ({"missing": "impute"}, LAYERS.X, {}, 'expected "error" or "marginalise"'),
        ({"missing": "marginalise", "smoothing": 1}, LAYERS.X, {}, "smoothing"),
        ({"missing": "marginalise"}, bad(np.inf), {}, "infinity"),
        ({"missing": "marginalise"}, np.full((9, 2), [1, np.nan]), {}, "none in feature 1"),
        ({"device": "meta"}, LAYERS.X, {}, "device"),
        ({"smoothing": 1, "n_types": 8}, LAYERS.X, {}, "smoothing"),
        ({"whiten": "no"}, LAYERS.X, {}, "whiten: expected True or False"),
        ({"contiguous": "no"}, LAYERS.X, {}, "contiguous: expected True or False"),
        ({"random_state": "abc"}, LAYERS.X, {}, "random_state: expected None, an int"),
        ({"random_state": 2**70}, LAYERS.X, {}, "random_state: expected None, an int of at most 64 bits"),
        ({"device": "foo"}, LAYERS.X, {}, "device: expected None"),
        ({"prior": None}, LAYERS.X, {}, 'prior: expected "potts"'),
        ({"sizes": "abc"}, LAYERS.X, {}, "sizes: expected 4 positive numbers, got 'abc'"),
        ({"field": [["a"]]}, LAYERS.X, {}, "field: expected numbers"),
        ({}, LAYERS.X, {"coords": LAYERS.coords * 1e300}, "coords: expected an extent of at most 1e"),
    ],
    ids=lambda value: str(value)[:30].replace("\n", " ") if isinstance(value, dict | str) else "X",
)
def test_errors(options: dict[str, Any], X: Any, structure: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SpatialMixture(**{"n_domains": 4, **options}).fit(X, **structure)


def test_numbers_and_arrays_of_numpy() -> None:
    five, one = np.int64(5), np.int64(1)
    options = {"n_domains": np.int64(4), "n_init": np.int64(2), "max_iter": five, "min_region": five, "random_state": 0}
    X, coords, sizes = LAYERS.X[::-1], LAYERS.coords[::-1], np.array([1, 2, 3, 4])[::-1]
    for more in ({"n_types": five}, {"smoothing": one}, {"sizes": sizes, "contiguous": np.bool_(True)}):
        model = SpatialMixture(**options, **more).fit(X, coords=coords)
        plain = {name: value.tolist() for name, value in (options | more).items() if name != "random_state"}
        again = SpatialMixture(**plain, random_state=np.int64(0)).fit(X.copy(), coords=coords.copy())
        assert np.array_equal(model.labels_, again.labels_)
        assert model.predict(X[:, ::-1], coords=coords).shape == (3000,)


def test_a_generator_of_numpy_draws_the_seed() -> None:
    first, second = (SpatialMixture(4, random_state=np.random.default_rng(3)).fit(LAYERS.X, shape=SHAPE) for _ in "ab")
    assert np.array_equal(first.probabilities_, second.probabilities_)


def test_a_failing_selection_changes_nothing() -> None:
    model = SpatialMixture(3, random_state=0).fit(LAYERS.X[:100])
    before = dict(model.__dict__)
    for ks in ([2, 200], [2.5]):
        with pytest.raises(ValueError, match="expected"):
            model.select(LAYERS.X[:100], ks)
        assert model.__dict__ == before


def test_wrong_selection() -> None:
    for ks in [], 5, None:
        with pytest.raises(ValueError, match=r"ks: expected numbers of domains, such as range\(3, 10\)"):
            SpatialMixture().select(np.eye(4), ks)
    with pytest.raises(ValueError, match="ks"):
        SpatialMixture().select(LAYERS.X, [])
    with pytest.raises(ValueError, match="single K"):
        SpatialMixture(sizes=[1, 1]).select(LAYERS.X, [2, 3])
