"""The floor under a time: bytes over bandwidth, FLOPs over the rate of the unit that does them."""

from __future__ import annotations

from dataclasses import dataclass

from warpwise.operation import Cost

MARGIN = 0.05  # what clocks may run above their nominal rate, and events err, before a time is called impossible


@dataclass(frozen=True)
class Ceilings:
    """Rates of one device for one dtype, in bytes and FLOPs a second, 0 where unknown.

    ``bandwidth`` and ``flops`` were measured there and make the floor; ``peak_bandwidth`` and ``peak_flops`` are what the
    hardware could do at best and tell the impossible. ``cache_bytes`` may never reach memory during the time.
    """

    bandwidth: float = 0.0
    flops: float = 0.0
    peak_bandwidth: float = 0.0
    peak_flops: float = 0.0
    cache_bytes: int = 0
    source: str = ""

    def floor(self, cost: Cost) -> float:
        """Seconds that this work takes at the measured ceilings, the larger of the two; 0 if they are not known."""
        return max(_over(cost.bytes, self.bandwidth), _over(cost.flops, self.flops))

    def bound(self, cost: Cost) -> str:
        """Which ceiling is the nearer one: ``memory``, ``compute`` or, without ceilings, nothing."""
        moving, computing = _over(cost.bytes, self.bandwidth), _over(cost.flops, self.flops)
        return "" if not moving and not computing else "memory" if moving >= computing else "compute"

    def impossible(self, cost: Cost) -> float:
        """Seconds below which the work cannot have been done.

        Writes may still be in the L2 cache when the kernel ends, and what it read may have come from there, so only
        bytes beyond the cache count, at the peak rates of the hardware.
        """
        beyond = max(0, cost.bytes - self.cache_bytes)
        return (1 - MARGIN) * max(_over(beyond, self.peak_bandwidth), _over(cost.flops, self.peak_flops))


def _over(amount: float, rate: float) -> float:
    return amount / rate if rate > 0 else 0.0
