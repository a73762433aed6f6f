"""Copies of memory of which a few pages are in use."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from warpwise.machine import sparse


def test_pages_that_are_in_memory_are_copied() -> None:
    nbytes = 1 << 36
    source = np.frombuffer(sparse.reserved(nbytes), np.uint8)
    places = [0, 4097, nbytes // 2 + 5, nbytes - 1]
    source[places] = [1, 2, 3, 4]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    copied = sparse.copied(source.ctypes.data + 1, nbytes - 1)
    assert copied[4096] == 2 and copied[nbytes // 2 + 4] == 3 and copied[-1] == 4 and len(copied) == nbytes - 1
    assert copied[0] == copied[nbytes // 4] == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB


def test_a_system_without_mincore_copies_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "FROM_BYTES", 1)
    source = np.arange(100_000, dtype=np.uint8)
    assert np.array_equal(sparse.copied(source.ctypes.data + 3, 99_000), source[3:99_003])
    monkeypatch.setattr(sparse.ctypes, "CDLL", lambda name: None)
    assert np.array_equal(sparse.copied(source.ctypes.data + 3, 99_000), source[3:99_003])
