"""Which ceilings of a device hold for a dtype."""

from __future__ import annotations

import torch

from warpwise.device import Profile
from warpwise.lab.timing.gpu import max_sm_clock
from warpwise.lab.timing.roofline import Ceilings

RATES = {
    torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "int8",
    torch.float8_e4m3fn: "fp8", torch.float8_e5m2: "fp8",
}  # fmt: skip


def ceilings_for(device: torch.device, dtype: torch.dtype) -> Ceilings | None:
    """The ceilings of ``device`` for arithmetic on ``dtype``, or None for a CPU.

    Peaks come from the hardware's clocks, bus width and units, the measured rates from ``warpwise.device``.
    """
    if device.type != "cuda":
        return None
    properties = torch.cuda.get_device_properties(device)
    memory_khz, bus_bits = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    peak_bandwidth = 2 * memory_khz * 1e3 * bus_bits / 8  # two transfers a clock
    return Ceilings(
        peak_bandwidth=peak_bandwidth, peak_flops=_peak_flops(device, dtype), cache_bytes=int(properties.L2_cache_size)
    )


def _peak_flops(device: torch.device, dtype: torch.dtype) -> float:
    """FLOPs a second at the highest SM clock, 0 if the profile does not know the rate."""
    properties = torch.cuda.get_device_properties(device)
    known = {profile.compute_capability: profile for profile in Profile.known()}
    profile = known.get((properties.major, properties.minor))
    rate = profile.flops_per_clock.get(RATES.get(dtype, ""), 0) if profile else 0
    return rate * properties.multi_processor_count * (max_sm_clock(device) or 0.0) * 1e6
