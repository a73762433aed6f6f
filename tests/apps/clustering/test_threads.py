"""Small fits use one thread of PyTorch, and leave its number as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from warpwise.apps.clustering import SmoothedKMeans, SpatialMixture, generators, spatial_components
from warpwise.apps.clustering.smoothing import smooth
from warpwise.apps.clustering.threads import threads_of

module = sys.modules[spatial_components.__module__]
DATA = generators.layered(1.2, (30, 24), n_domains=3, n_features=4, random_state=1)


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_threads_by_size() -> None:
    points = torch.empty(1, 1)
    assert threads_of(SpatialMixture(7), points.expand(20_000, 15)) == 1
    assert threads_of(SpatialMixture(8), points.expand(1 << 20, 16)) == 16
    assert threads_of(SpatialMixture(64), points.expand(1 << 20, 2)) == 64
    assert threads_of(SpatialMixture(2, n_types=32), points.expand(1 << 20, 2)) == 32
    assert threads_of(SpatialMixture("many"), [[1.0, 2.0]]) == 1  # type: ignore[arg-type]


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("kind", [SpatialMixture, SmoothedKMeans])
def test_a_small_fit_has_one_thread(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    generator = kind._generator
    monkeypatch.setattr(kind, "_generator", lambda self: seen.append(torch.get_num_threads()) or generator(self))
    kind(3, random_state=0).fit(DATA.X, shape=DATA.shape)
    assert set(seen) == {1} and torch.get_num_threads() == 3
    with pytest.raises(ValueError, match="coords"):
        kind(3).fit(DATA.X, coords=np.zeros((2, 2)))
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_few_features_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(module, "smooth", lambda *given: seen.append(torch.get_num_threads()) or smooth(*given))
    spatial_components(DATA.X, shape=DATA.shape, random_state=0)
    assert set(seen) == {1} and torch.get_num_threads() == 3


def test_the_command_lets_idle_threads_sleep() -> None:
    program = (
        "import os, sys\n"
        "from warpwise.cli.commands.options import wait_without_spinning\n"
        "assert 'torch' not in sys.modules\n"
        "wait_without_spinning()\n"
        "print(os.environ['OMP_WAIT_POLICY'])\n"
    )
    own = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    for given, expected in ({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE"):
        printed = subprocess.check_output([sys.executable, "-c", program], env=own | given, text=True)
        assert printed.strip() == expected
