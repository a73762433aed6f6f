"""Time kernels: timers for GPU and CPU, the adaptive measuring loop, and the floor from measured ceilings."""

from __future__ import annotations

from warpwise.lab.timing.compare import time
from warpwise.lab.timing.roofline import Roofline
from warpwise.lab.timing.stats import Interval
from warpwise.lab.timing.timing import Timing, ratio

__all__ = ["Interval", "Roofline", "Timing", "ratio", "time"]
