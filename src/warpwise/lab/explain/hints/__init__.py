"""Hints on a launch, in the manner of Nsight Compute: what to change, and an estimated speed-up."""

from __future__ import annotations

from warpwise.lab.explain.hints.hint import Hint
from warpwise.lab.explain.hints.rules import hints
from warpwise.lab.explain.hints.triton_ideas import in_triton

__all__ = ["Hint", "hints", "in_triton"]
