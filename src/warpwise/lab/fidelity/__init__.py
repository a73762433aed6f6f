"""Accuracy of the emulated counters, the predicted limiters and times: comparison with Nsight Compute's records."""

from __future__ import annotations

from warpwise.lab.fidelity.compare import COUNTERS, Compared, Difference, compare
from warpwise.lab.fidelity.points import Kind, Point, Selection, not_executed, points, recorded_points
from warpwise.lab.fidelity.record import Record, Recorded, records
from warpwise.lab.fidelity.report import Reason, Report

__all__ = [
    "COUNTERS",
    "Compared",
    "Difference",
    "Kind",
    "Point",
    "Reason",
    "Record",
    "Recorded",
    "Report",
    "Selection",
    "compare",
    "not_executed",
    "points",
    "recorded_points",
    "records",
]
