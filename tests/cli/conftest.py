"""Fixtures of the commands' tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from warpwise.cli import targets
from warpwise.operation import registry


@pytest.fixture
def own_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Operations, modules and paths of the files that a test loads are gone afterwards."""
    targets.known_ops()
    monkeypatch.setattr(registry, "_OPS", dict(registry._OPS))
    monkeypatch.setattr(targets, "_OF_FILE", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    modules = set(sys.modules)
    yield
    for name in [name for name in sys.modules if name.startswith("warpwise_file_") and name not in modules]:
        del sys.modules[name]
