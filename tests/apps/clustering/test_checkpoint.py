"""Fits that are interrupted between starts continue with the same result; progress; errors of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture, generators, starts

DATA = generators.layered(1.5, (20, 15), n_domains=3, n_features=4)


class Stop(Exception):
    """Raised by a report of progress, as Ctrl-C would be."""


@pytest.fixture(autouse=True)
def _one_start_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "_ELEMENTS", 1)


def fit(**options: Any) -> SpatialMixture:
    types = options.pop("n_types", None)
    return SpatialMixture(3, n_types=types, n_init=6, random_state=0).fit(DATA.X, shape=DATA.shape, **options)


@pytest.mark.parametrize("types,stop", [(None, 4), (4, 4), (None, 6)])
def test_an_interrupted_fit_continues(tmp_path: Path, types: int | None, stop: int) -> None:
    path, seen = tmp_path / "fit.pt", []

    def interrupt(done: int, total: int) -> None:
        seen.append((done, total))
        if len(seen) == stop:
            raise Stop

    with pytest.raises(Stop):
        fit(n_types=types, checkpoint=path, progress=interrupt)
    assert seen == [(done, 6) for done in range(1, stop + 1)] and path.exists()
    resumed = fit(n_types=types, checkpoint=path, progress=lambda *at: seen.append(at))
    assert seen[stop:] == [(done, 6) for done in range(stop, 7)] and not path.exists()
    whole = fit(n_types=types)
    assert np.array_equal(resumed.probabilities_, whole.probabilities_) and resumed.elbo_ == whole.elbo_


def test_wrong_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "fit.pt"

    def interrupt(done: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        fit(checkpoint=path, progress=interrupt)
    with pytest.raises(ValueError, match="of other data or parameters; delete the file to start again"):
        SpatialMixture(3, random_state=1).fit(DATA.X, shape=DATA.shape, checkpoint=path)
    path.write_text("text")
    with pytest.raises(ValueError, match="not a checkpoint"):
        fit(checkpoint=path)
    with pytest.raises(TypeError, match="random_state"):
        SpatialMixture(3).fit(DATA.X, checkpoint=path)


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["progress", "_keep"])
def test_an_interrupted_refit_leaves_the_former_fit(
    error: type[BaseException], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise error

    model, keep = fit(), SpatialMixture._keep
    before, predicted = dict(model.__dict__), model.predict(DATA.X, shape=DATA.shape)
    if where == "_keep":  # after the attributes are set
        monkeypatch.setattr(SpatialMixture, "_keep", lambda *given: stop(keep(*given)))
    progress = stop if where == "progress" else None
    with pytest.raises(error):
        model.fit(DATA.X[:, :3] * 10 + 5, shape=DATA.shape, progress=progress)
    assert model.__dict__ == before
    assert np.array_equal(model.predict(DATA.X, shape=DATA.shape), predicted)


@pytest.mark.parametrize("model", [SpatialMixture(3, random_state=0), SmoothedKMeans(3, random_state=0)])
def test_a_fit_with_an_error_leaves_the_former_fit(model: Any) -> None:
    with pytest.raises(ValueError, match="shape"):
        model.fit(DATA.X[:, :2], shape=(3, 3))
    assert not hasattr(model, "n_features_in_")
    if isinstance(model, SpatialMixture):
        with pytest.raises(NotFittedError):
            model.predict(DATA.X, shape=DATA.shape)
    before = dict(model.fit(DATA.X, shape=DATA.shape).__dict__)
    with pytest.raises(ValueError, match="shape"):
        model.fit(DATA.X[:, :2], shape=(3, 3))
    assert model.__dict__ == before
