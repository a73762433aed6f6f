"""Results do not depend on the default dtype of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture, from_edges, generators, segment, spatial_components

SMALL = generators.layered(1.2, (30, 24), n_domains=3, n_features=4, random_state=1)


@pytest.fixture
def float64_by_default() -> Iterator[Callable[[], None]]:
    yield lambda: torch.set_default_dtype(torch.float64)
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_types": 4},
        {"covariance": "full"},
        {"covariance": "diag"},
        {"covariance": "t"},
        {"covariance": "t", "missing": "marginalise"},
        {"missing": "marginalise"},
        {"smoothing": 2},
        {"prior": "layers", "field": [[0.1, 0.2, 0.3]] * 720},
        {"prior": [[2, 0, 1], [0, 1, 0], [1, 0, 1]], "beta": 0.3},
        {"sizes": [1, 2, 3], "contiguous": True, "min_region": 5},
        {"block_size": 300},
        {"whiten": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("structure", ["coords", "shape", "graph", None])
@pytest.mark.filterwarnings("ignore:sizes")
def test_the_default_dtype_does_not_matter(
    options: dict[str, Any], structure: str | None, float64_by_default: Callable[[], None]
) -> None:
    X = SMALL.X.copy()
    if "missing" in options:
        X[::7, 1] = np.nan
    graph = from_edges(np.stack([np.arange(719), np.arange(1, 720)], 1), 720, np.linspace(0.5, 1, 719))
    given = {"coords": SMALL.coords, "shape": SMALL.shape, "graph": graph}
    kwargs = {} if structure is None else {structure: given[structure]}

    def results() -> list[Any]:
        model = SpatialMixture(3, n_init=2, random_state=0, **options).fit(X, **kwargs)
        sampled = model.sample_proba(X, sweeps=3, burn_in=1, **kwargs)
        return [model.labels_, model.probabilities_, model.beta_, model.elbo_, model.predict(X, **kwargs), sampled]

    expected = results()
    float64_by_default()
    found = results()
    for one, other in zip(expected, found, strict=True):
        assert np.array_equal(one, other) and np.asarray(one).dtype == np.asarray(other).dtype


def test_the_default_dtype_does_not_matter_to_other_functions(float64_by_default: Callable[[], None]) -> None:
    def results() -> list[Any]:
        model = SmoothedKMeans(3, random_state=0).fit(SMALL.X, coords=SMALL.coords)
        components = spatial_components(SMALL.X, shape=SMALL.shape, random_state=0)
        return [
            model.labels_,
            model.inertia_,
            components,
            segment(SMALL.X.reshape(*SMALL.shape, -1), 3, random_state=0),
        ]

    expected = results()
    float64_by_default()
    for one, other in zip(expected, results(), strict=True):
        assert np.array_equal(one, other) and np.asarray(one).dtype == np.asarray(other).dtype
