"""Measure which rung and configuration is fastest at each point, and write the tables that operations choose by."""

from __future__ import annotations

from warpwise.lab.tune.tune import Progress, Tuned, TuneError, tune

__all__ = ["Progress", "TuneError", "Tuned", "tune"]
