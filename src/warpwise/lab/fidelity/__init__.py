"""Accuracy of the emulated counters, the predicted limiters and times: comparison with Nsight Compute's records."""

from __future__ import annotations

from warpwise.lab.fidelity.compare import COUNTERS, Compared, CounterDifference, compare
from warpwise.lab.fidelity.points import Kind, ProfiledPoint, RungFilter, not_executed, points, recorded_points
from warpwise.lab.fidelity.record import Record, RecordedLaunch, records
from warpwise.lab.fidelity.report import Reason, Report

__all__ = [
    "COUNTERS",
    "Compared",
    "CounterDifference",
    "Kind",
    "ProfiledPoint",
    "Reason",
    "Record",
    "RecordedLaunch",
    "Report",
    "RungFilter",
    "compare",
    "not_executed",
    "points",
    "recorded_points",
    "records",
]
