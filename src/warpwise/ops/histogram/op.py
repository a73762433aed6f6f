"""The public function histogram."""

from __future__ import annotations

import torch

from warpwise.operation import Op, register
from warpwise.ops.histogram.rungs import RUNGS, default
from warpwise.ops.histogram.spec import SPEC

HISTOGRAM = register(Op(SPEC, RUNGS, default))
_histogram = HISTOGRAM.call


def histogram(input: torch.Tensor, bins: int = 256, *, rung: str | None = None) -> torch.Tensor:
    """Count each of the values 0 to ``bins`` - 1 in ``input``, uint8 or int32 of any shape: (bins,) int64.

    Values outside that range are not counted. For bytes and 256 bins it is ``torch.bincount(input, minlength=256)``.
    ``rung`` names one kernel of the ladder. Raises ``TypeError`` for another dtype and ``ValueError`` for less than one
    bin, or for more than ``rung`` takes.
    """
    return _histogram(input, bins, rung)
