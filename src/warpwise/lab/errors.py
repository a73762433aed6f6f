"""What can be wrong with a problem or a measurement, as opposed to a kernel."""

from __future__ import annotations


class ProblemError(ValueError):
    """The specification cannot be used to judge a kernel; the message says what to change in it."""


class IncompleteCases(ProblemError):
    """The cases lack a kind (ragged, empty, one element, huge, strided, unaligned) and the specification does not say why."""


class VacuousProblem(ProblemError):
    """Something that computes nothing of the kind passes: zeros, a constant, an input, another seed's output, rounded values."""


class MeasurementError(RuntimeError):
    """A time that must not be reported; the message says why."""


class ImpossibleTime(MeasurementError):
    """Faster than the device can move the bytes or do the arithmetic: the work was not done, or not waited for, or is miscounted."""


class WrongAfterTiming(MeasurementError):
    """The outputs of the timed runs are not right."""
