"""Fits that are interrupted between starts continue with the same result; progress; errors of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpwise.apps.clustering import SpatialMixture, generators, starts

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
