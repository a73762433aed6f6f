"""Measure which rung and configuration is fastest at each point, and write the tables that operations choose by."""

from __future__ import annotations

from warpwise.lab.tune.online import Online, tune_online
from warpwise.lab.tune.tune import Progress, Tuned, TuneError, tune

__all__ = ["Online", "Progress", "TuneError", "Tuned", "tune", "tune_online"]
