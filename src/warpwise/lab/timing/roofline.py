"""The least time of an operation: bytes over bandwidth, or FLOPs over the rate of their unit."""

from __future__ import annotations

from dataclasses import dataclass

from warpwise.operation import Cost

MARGIN = 0.05  # tolerance for clocks above nominal and for event resolution before a time is impossible


@dataclass(frozen=True)
class Roofline:
    """Rates of one device for one dtype, in bytes/s and FLOP/s, 0 if unknown.

    ``bandwidth`` and ``flops`` are measured and define the floor; ``peak_bandwidth`` and ``peak_flops`` are the
    theoretical peaks, which detect impossible times. Up to ``cache_bytes`` bytes may stay in the cache during the call.
    """

    bandwidth: float = 0.0
    flops: float = 0.0
    peak_bandwidth: float = 0.0
    peak_flops: float = 0.0
    cache_bytes: int = 0
    source: str = ""

    def floor(self, cost: Cost) -> float:
        """Seconds of this work at the measured ceilings, the larger of the two; 0 if unknown."""
        return max(_over(cost.bytes, self.bandwidth), _over(cost.flops, self.flops))

    def bound(self, cost: Cost) -> str:
        """The limiting ceiling: ``memory``, ``compute``, or "" without ceilings."""
        moving, computing = _over(cost.bytes, self.bandwidth), _over(cost.flops, self.flops)
        return "" if not moving and not computing else "memory" if moving >= computing else "compute"

    def impossible(self, cost: Cost) -> float:
        """Seconds below which a measured time is impossible.

        Reads may hit in the L2 cache, and writes may still be there when the kernel ends, so only bytes beyond the
        cache size count, at the peak rates of the hardware.
        """
        beyond = max(0, cost.bytes - self.cache_bytes)
        return (1 - MARGIN) * max(_over(beyond, self.peak_bandwidth), _over(cost.flops, self.peak_flops))


def _over(amount: float, rate: float) -> float:
    return amount / rate if rate > 0 else 0.0
