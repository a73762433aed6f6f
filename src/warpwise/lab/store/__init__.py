"""The results store: the verdicts and times of every run with their environment, in one SQLite file.

>>> with store.Store.open() as kept:
...     kept.best("softmax", "k03_warp_shuffle", "large", "float32", "NVIDIA H200")
"""

from __future__ import annotations

from warpwise.lab.store.comparison import Change, Comparison, Difference, compare
from warpwise.lab.store.convert import OtherFile, UnreadableResults, read_results
from warpwise.lab.store.database import NewerStore, StoreError, store_path
from warpwise.lab.store.provenance import repository_state
from warpwise.lab.store.recorder import Recorder
from warpwise.lab.store.records import HistoryEntry, Measurement, Run
from warpwise.lab.store.store import Store

__all__ = [
    "Change", "Comparison", "Difference", "HistoryEntry", "Measurement", "NewerStore", "OtherFile", "Recorder", "Run",
    "Store", "StoreError",
    "UnreadableResults", "compare", "read_results", "repository_state", "store_path",
]  # fmt: skip
