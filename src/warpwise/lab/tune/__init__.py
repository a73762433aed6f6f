"""Which rung, at which configuration, is fastest where: measured point by point, into a table that operations choose by."""

from __future__ import annotations

from warpwise.lab.tune.tune import Progress, Tuned, TuneError, tune

__all__ = ["Progress", "TuneError", "Tuned", "tune"]
