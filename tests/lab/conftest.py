"""Fixtures of the tests of the lab."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.fakes import FakeTimer
from tests.lab.online import LAUNCHED, Switch

from warpwise import lab, tuned
from warpwise.lab.tune.online import Online
from warpwise.operation import choice


@pytest.fixture
def switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Switch]:
    """Online tuning by a list of times, for operations that choose by their tables on a CPU too."""
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path))
    monkeypatch.setattr(choice, "TABLE_DEVICES", {"cuda", "cpu"})
    LAUNCHED.clear()

    def on(timer: FakeTimer, **budget: float) -> Online:
        made = lab.tune_online(**budget)
        made.timer = lambda device: timer
        return made

    yield on
    choice.online = None
    tuned.reload()
