"""Runs and measurements for the store's tests."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from warpwise.lab.store import Measurement, Run

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def run(op: str = "softmax", minutes: float = 0, **more: Any) -> Run:
    return Run(op, more.pop("device", "NVIDIA H200"), START + timedelta(minutes=minutes), **more)


def timed(name: str = "k01_naive", seconds: float = 1e-4, minutes: float = 0, **more: Any) -> Measurement:
    """A measurement whose interval reaches one per cent to either side, unless ``half`` says otherwise."""
    half = more.pop("half", 0.01)
    told = {"case": "large", "sizes": {"rows": 64}, "dtype": "float32", "samples": 30, "mode": "events", **more}
    taken = START + timedelta(minutes=minutes)
    return Measurement(
        name,
        told.pop("verdict", "right"),
        taken,
        median=seconds,
        low=seconds * (1 - half),
        high=seconds * (1 + half),
        **told,
    )


def verdict(name: str = "k01_naive", status: Any = "right", minutes: float = 0, **more: Any) -> Measurement:
    return Measurement(name, status, START + timedelta(minutes=minutes), **more)
