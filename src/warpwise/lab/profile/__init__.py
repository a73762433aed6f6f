"""Profilers: torch's with a schedule and a trace, Nsight Systems, Nsight Compute, compute-sanitizer, and host clocks
compared.
"""

from __future__ import annotations

from warpwise.lab.profile.naive_clock import ClockReading, NaiveClock, naive_clock
from warpwise.lab.profile.record import ProfileError, profile
from warpwise.lab.profile.result import ProfileResult, ProfileRow
from warpwise.lab.profile.schedule import Schedule
from warpwise.lab.profile.script import profile_script

__all__ = [
    "ClockReading",
    "NaiveClock",
    "ProfileError",
    "ProfileResult",
    "ProfileRow",
    "Schedule",
    "naive_clock",
    "profile",
    "profile_script",
]
