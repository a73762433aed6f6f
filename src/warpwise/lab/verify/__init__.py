"""Verification: compare rungs with the float64 reference of their operation, and gradients with autograd of it."""

from __future__ import annotations

from warpwise.lab.verify.gradient import verify_gradient
from warpwise.lab.verify.problem import Problem
from warpwise.lab.verify.verdict import CaseResult, Failure, Step, Verdict
from warpwise.lab.verify.verify import verify

__all__ = ["CaseResult", "Failure", "Problem", "Step", "Verdict", "verify", "verify_gradient"]
