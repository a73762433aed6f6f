"""Measure the fastest rung and configuration at each point, and write the tables by which operations choose."""

from __future__ import annotations

from warpwise.lab.tune.online import Online, tune_online
from warpwise.lab.tune.tune import Progress, Tuned, TuneError, tune

__all__ = ["Online", "Progress", "TuneError", "Tuned", "tune", "tune_online"]
