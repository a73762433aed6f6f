"""Verify, time, tune, explain and profile the rungs of any ``Op``, including operations of other packages."""

from __future__ import annotations

from warpwise.lab import store
from warpwise.lab.climb import climb
from warpwise.lab.errors import (
    ImpossibleTime,
    IncompleteCases,
    MeasurementError,
    ProblemError,
    VacuousProblem,
    WrongAfterTiming,
)
from warpwise.lab.explain import Explanation, Explanations, explain, explain_launch, explain_rung
from warpwise.lab.ladder import Entry, Ladder, Point, Recorded, Row, recorded
from warpwise.lab.profile import NaiveClock, ProfileError, ProfileResult, Schedule, naive_clock, profile
from warpwise.lab.report import notebook  # noqa: F401 - registers the rendering of Ladder and Timing
from warpwise.lab.timing import Interval, Roofline, Timing, ratio, time
from warpwise.lab.tune import Online, Tuned, TuneError, tune, tune_online
from warpwise.lab.verify import verify
from warpwise.lab.verify.gradient import verify_gradient
from warpwise.lab.verify.problem import Problem
from warpwise.lab.verify.verdict import CaseResult, Failure, Step, Verdict

__all__ = [
    "CaseResult", "Entry", "Explanation", "Explanations", "Failure", "ImpossibleTime", "IncompleteCases", "Interval",
    "Ladder", "MeasurementError", "NaiveClock", "Online", "Point", "Problem", "ProblemError", "ProfileError",
    "ProfileResult", "Recorded", "Roofline", "Row", "Schedule", "Step", "Timing", "TuneError", "Tuned",
    "VacuousProblem", "Verdict", "WrongAfterTiming", "climb", "explain", "explain_launch", "explain_rung",
    "naive_clock", "profile", "ratio", "recorded", "store", "time", "tune", "tune_online", "verify", "verify_gradient",
]  # fmt: skip
