"""Nsight Compute's counters of launches on a GPU: ``measure(launches)``, or ``collect(function)`` for any code."""

from __future__ import annotations

from warpwise.lab.profile.ncu.capture import CapturedLaunch, captured, profiled
from warpwise.lab.profile.ncu.errors import NcuError, NcuNotFound, NcuPermission
from warpwise.lab.profile.ncu.measure import collect, measure
from warpwise.lab.profile.ncu.table import Measured

__all__ = [
    "CapturedLaunch",
    "Measured",
    "NcuError",
    "NcuNotFound",
    "NcuPermission",
    "captured",
    "collect",
    "measure",
    "profiled",
]
