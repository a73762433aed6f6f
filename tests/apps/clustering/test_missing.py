"""Missing features: marginal densities, the EM step that integrates them out, and fits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, multivariate_t
from sklearn.metrics import adjusted_rand_score

from warpwise.apps.clustering import SpatialMixture, generators, grid
from warpwise.apps.clustering.emission import DEGREES_OF_FREEDOM, Emission
from warpwise.apps.clustering.marginal import MarginalEmission, Missing, filled

COVARIANCES = ["tied", "diag", "full", "t"]
SHAPE = (40, 30)
LAYERS = generators.layered(1.2, SHAPE, n_domains=3, n_features=6)


def with_gaps(X: np.ndarray, fraction: float, seed: int = 0) -> np.ndarray:
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < fraction] = np.nan
    return X


def small(covariance: str, missing: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, MarginalEmission]:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(len(missing), 4, generator=generator)
    q = torch.softmax(2 * torch.randn(len(missing), 1, 3, generator=generator), 2)
    return X, q, MarginalEmission(Emission(covariance, X, q), Missing(missing, torch.eye(4, dtype=torch.float64)))


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_scores_are_marginal_densities(covariance: str) -> None:
    missing = torch.rand(40, 4, generator=torch.Generator().manual_seed(1)) < 0.4
    missing[0] = True
    X, _, emission = small(covariance, missing)
    found = emission.scores(X)[:, 0]
    scale = emission.scale[0].double()
    for c in range(3):
        matrix = scale if covariance in ("tied", "t") else torch.diag(scale[c]) if covariance == "diag" else scale[c]
        for i in range(40):
            seen = ~missing[i]
            if not seen.any():
                assert found[i, c] == pytest.approx(0, abs=1e-5)
                continue
            mean, part = emission.mean[0, c, seen].numpy(), matrix[seen][:, seen].numpy()
            known = (
                multivariate_t(mean, part, DEGREES_OF_FREEDOM) if covariance == "t" else multivariate_normal(mean, part)
            )
            assert found[i, c] == pytest.approx(known.logpdf(X[i, seen].numpy()), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_without_gaps_it_is_the_ordinary_step(covariance: str) -> None:
    X, q, emission = small(covariance, torch.zeros(60, 4, dtype=torch.bool))
    plain = Emission(covariance, X, q)
    plain.scores(X), emission.scores(X)
    plain.update(X, q), emission.update(X, q)
    torch.testing.assert_close(emission.mean, plain.mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(emission.scale, plain.scale, rtol=1e-4, atol=1e-4)


def test_em_raises_the_likelihood_of_the_observed_features() -> None:
    missing = torch.rand(200, 4, generator=torch.Generator().manual_seed(2)) < 0.3
    X, _, emission = small("tied", missing)
    bounds = []
    for _ in range(8):
        scores = emission.scores(X)
        bounds.append(float(torch.logsumexp(scores, 2).double().sum()))
        emission.update(X, torch.softmax(scores, 2))
    assert np.diff(bounds).min() > -1e-3


@pytest.mark.parametrize("options", [{}, {"covariance": "full"}, {"n_types": 4}, {"prior": "layers"}], ids=str)
def test_fits(options: dict) -> None:
    model = SpatialMixture(3, missing="marginalise", n_init=4, random_state=0, **options)
    X = with_gaps(LAYERS.X, 0.4)
    X[7] = np.nan
    assert adjusted_rand_score(LAYERS.labels, model.fit(X, shape=SHAPE).labels_) > 0.9
    assert (model.predict(X, shape=SHAPE) == model.labels_).mean() > 0.98
    assert (model.predict(LAYERS.X, shape=SHAPE) == model.labels_).mean() > 0.9


def test_values_that_are_missing_by_their_size_do_not_shift_the_means() -> None:
    """Of two features that agree, the second is missing where the first is large: its mean is not that of the rest."""
    random = np.random.default_rng(0)
    x = random.normal(size=4000)
    X = np.stack([x, x + 0.1 * random.normal(size=4000)], 1)
    X[x > 0.5, 1] = np.nan
    model = SpatialMixture(1, missing="marginalise").fit(X)
    assert np.nanmean(X[:, 1]) < -0.4
    assert abs(model.means_[0, 1]) < 0.05


def test_without_gaps_the_fit_is_unchanged() -> None:
    first, second = (
        SpatialMixture(3, n_init=2, missing=missing, random_state=0).fit(LAYERS.X, shape=SHAPE)
        for missing in ("error", "marginalise")
    )
    assert np.array_equal(first.probabilities_, second.probabilities_)


def test_filling() -> None:
    X = torch.tensor([[1.0], [torch.nan], [3.0], [torch.nan]])
    assert filled(X, X.isnan(), grid((1, 4))).flatten().tolist() == [1, 2, 3, 3]
    none = SpatialMixture(1, missing="marginalise").fit(X.numpy())
    assert none.means_[0, 0] == pytest.approx(2)
