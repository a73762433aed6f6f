"""The lab: is a kernel right, and how fast is it? For any ``Op``, also a user's own."""

from __future__ import annotations

from warpwise.lab.errors import (
    ImpossibleTime,
    IncompleteCases,
    MeasurementError,
    ProblemError,
    VacuousProblem,
    WrongAfterTiming,
)
from warpwise.lab.problem import Problem
from warpwise.lab.verdict import CaseResult, Failure, Step, Verdict
from warpwise.lab.verify import verify

__all__ = [
    "CaseResult", "Failure", "ImpossibleTime", "IncompleteCases", "MeasurementError", "Problem", "ProblemError", "Step",
    "VacuousProblem", "Verdict", "WrongAfterTiming", "verify",
]  # fmt: skip
