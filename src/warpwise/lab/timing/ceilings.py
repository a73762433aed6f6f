"""The ceilings of a device for a dtype, or for named arithmetic units."""

from __future__ import annotations

import torch

from warpwise import device as devices
from warpwise.lab.timing.roofline import Roofline

KINDS = {
    torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "int8",
    torch.float8_e4m3fn: "fp8", torch.float8_e5m2: "fp8",
}  # fmt: skip


def ceilings_for(device: torch.device, units: torch.dtype | str) -> Roofline | None:
    """The ceilings of ``device`` for arithmetic on a dtype, or by the units of that name ("tf32"); None for a CPU.

    ``warpwise.device`` measures the rates at first use, which takes a few seconds. For a dtype without a measurement,
    the ceiling is the hardware's peak.
    """
    if device.type != "cuda":
        return None
    measured = devices.ceilings(device) or devices.measure_ceilings(device)
    return combined(devices.describe(device), measured, units if isinstance(units, str) else KINDS.get(units, ""))


def combined(described: devices.Description, measured: devices.Ceilings, kind: str) -> Roofline:
    """The measured rates as ceilings of the floor, and the theoretical rates as peaks; 0 is unknown."""
    peak = described.peaks.get(kind, 0.0)
    return Roofline(
        bandwidth=measured.copy,
        flops=measured.matmul.get(kind, peak),
        peak_bandwidth=described.peak_bandwidth or 0.0,
        peak_flops=peak,
        cache_bytes=described.l2_bytes or 0,
        source=measured.provenance,
    )
