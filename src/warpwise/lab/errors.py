"""Errors of a specification or of a measurement, as opposed to those of a kernel."""

from __future__ import annotations


class ProblemError(ValueError):
    """The specification cannot be used to verify a kernel; the message gives the remedy."""


class IncompleteCases(ProblemError):
    """A kind of case (ragged, empty, one element, huge, strided, unaligned) is missing and not exempted."""


class VacuousProblem(ProblemError):
    """An impostor passes: zeros, a constant, an input, another seed's output or rounded values."""


class MeasurementError(RuntimeError):
    """A time that must not be reported; the message gives the reason."""


class ImpossibleTime(MeasurementError):
    """A time below what the device needs for the bytes or FLOPs: work was skipped, not awaited, or miscounted."""


class WrongAfterTiming(MeasurementError):
    """The outputs of the timed runs are wrong."""
