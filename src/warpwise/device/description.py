"""Describe a device: limits, memory sizes, clocks, and the theoretical peak rates computed from them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import torch

from warpwise.device import driver
from warpwise.device.profiles import Profile


@dataclass(frozen=True)
class Description:
    """Properties of a device, None if unknown. ``place``: a local GPU, this machine's CPU, or a target without device.

    ``peaks`` are theoretical: SMs × clock × FLOPs per clock, in FLOP/s by dtype ("fp32", "bf16"). ``peak_bandwidth`` is
    theoretical too: bus width × memory clock × 2 transfers per clock, in bytes/s.
    """

    name: str
    place: Literal["gpu", "cpu", "target"]
    profile: Profile | None
    identity: str = ""
    sm_count: int | None = None
    clock_hz: float | None = None
    memory_clock_hz: float | None = None
    memory_bus_bits: int | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    driver: str = ""
    peaks: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def peak_bandwidth(self) -> float | None:
        if not self.memory_clock_hz or not self.memory_bus_bits:
            return None
        return 2 * self.memory_clock_hz * self.memory_bus_bits / 8

    def rows(self) -> list[tuple[str, str]]:
        """Return the known properties as (label, text) rows."""
        rows: list[tuple[str, str]] = [("device", self.name)]
        if self.sm_count and self.profile:
            rows.append(("multiprocessors (SMs)", f"{self.sm_count}"))
        elif self.sm_count:
            rows.append(("cores", f"{self.sm_count}"))
        if self.profile:
            rows += _limits(self.profile)
        if self.l2_bytes:
            rows.append(("L2 cache", _size(self.l2_bytes)))
        if self.memory_bytes:
            rows.append(("memory", _size(self.memory_bytes)))
        if self.clock_hz:
            rows.append(("SM clock, max", f"{self.clock_hz / 1e6:,.0f} MHz"))
        if self.memory_clock_hz and self.memory_bus_bits:
            rows.append(
                ("memory clock and bus", f"{self.memory_clock_hz / 1e6:,.0f} MHz, {self.memory_bus_bits:,} bits")
            )
        if self.peak_bandwidth:
            rows.append(("memory bandwidth, theoretical peak", f"{self.peak_bandwidth / 1e9:,.0f} GB/s"))
        for kind, rate in self.peaks.items():
            rows.append(
                (
                    f"{kind}, theoretical peak",
                    f"{rate / 1e12:,.1f} TFLOP/s" if kind != "int8" else f"{rate / 1e12:,.1f} TOP/s",
                )
            )
        if self.driver:
            rows.append(("driver", self.driver))
        return rows


def _limits(profile: Profile) -> list[tuple[str, str]]:
    block, grid = (" × ".join(f"{size:,}" for size in sizes) for sizes in (profile.block_dim, profile.grid_dim))
    rates = ", ".join(f"{kind} {flops:,}" for kind, flops in profile.flops_per_clock.items())
    return [
        (
            "compute capability",
            f"{profile.compute_capability[0]}.{profile.compute_capability[1]} ({profile.architecture})",
        ),
        ("warp", f"{profile.warp_size} threads"),
        ("threads per block, max", f"{profile.threads_per_block:,} ({block})"),
        ("grid, max", f"{grid} blocks"),
        (
            "resident per SM, max",
            f"{profile.warps_per_sm} warps, {profile.threads_per_sm:,} threads, {profile.blocks_per_sm} blocks",
        ),
        (
            "registers per SM (32-bit)",
            f"{profile.registers_per_sm:,}, max {profile.registers_per_thread} per thread",
        ),
        (
            "shared memory per block",
            f"{_size(profile.shared_per_block)}, {_size(profile.shared_per_block_optin)} opt-in",
        ),
        ("shared memory per SM", f"{_size(profile.shared_per_sm)} in {profile.shared_banks} banks"),
        ("L1 and shared memory per SM", _size(profile.l1_and_shared_per_sm)),
        ("constant memory", _size(profile.constant_bytes)),
        ("FLOPs per clock and SM", rates),
    ]


def _size(count: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}".replace(".0 ", " ")
    return f"{count} B"


def profile_of(index: int) -> Profile:
    """Return the limits of ``cuda:index``. For an unknown compute capability they are queried from the driver."""
    capability = torch.cuda.get_device_capability(index)
    try:
        return Profile.of(capability)
    except ValueError:
        query = driver.attribute
        return Profile(
            f"sm_{capability[0]}{capability[1]}",
            "unknown",
            capability,
            threads_per_sm=query(index, "threads_per_sm"),
            blocks_per_sm=query(index, "blocks_per_sm"),
            shared_per_sm=query(index, "shared_per_sm"),
            shared_per_block_optin=query(index, "shared_per_block_optin"),
            l1_and_shared_per_sm=query(index, "shared_per_sm"),
            flops_per_clock=MappingProxyType({}),
            shared_reserved_per_block=query(index, "shared_reserved_per_block"),
            shared_per_block=query(index, "shared_per_block"),
            threads_per_block=query(index, "threads_per_block"),
            block_dim=(query(index, "block_x"), query(index, "block_y"), query(index, "block_z")),
            grid_dim=(query(index, "grid_x"), query(index, "grid_y"), query(index, "grid_z")),
            registers_per_sm=query(index, "registers_per_sm"),
            registers_per_block=query(index, "registers_per_block"),
        )


def describe(target: str | torch.device | None = None) -> Description:
    """Describe ``target``: a compute capability ("sm_90"), a local GPU ("cuda", "cuda:1"), or this machine ("cpu").

    None is the current GPU, or the CPU if there is no GPU. Raises ``ValueError`` for an unknown target.
    """
    if target is None:
        target = "cuda" if torch.cuda.is_available() else "cpu"
    text = str(target)
    if text.startswith("cuda"):
        if not torch.cuda.is_available():
            raise ValueError(f"device {text!r}: no CUDA device found; use a target such as 'sm_90'")
        device = torch.device(text)
        return _gpu(device.index if device.index is not None else torch.cuda.current_device())
    if text == "cpu":
        return _cpu()
    profile = Profile.of(text)
    return Description(f"{profile.name} (target only, no device)", "target", profile)


def current() -> Description:
    """Describe torch's current GPU, or this machine's CPU if there is no GPU."""
    return describe(None)


def _gpu(index: int) -> Description:
    properties, profile = torch.cuda.get_device_properties(index), profile_of(index)
    clock = driver.attribute(index, "clock_khz") * 1e3
    sms = properties.multi_processor_count
    peaks = {kind: sms * clock * flops for kind, flops in profile.flops_per_clock.items()}
    return Description(
        properties.name,
        "gpu",
        profile,
        identity=str(getattr(properties, "uuid", "")),
        sm_count=sms,
        clock_hz=clock,
        memory_clock_hz=driver.attribute(index, "memory_clock_khz") * 1e3,
        memory_bus_bits=driver.attribute(index, "memory_bus_bits"),
        memory_bytes=properties.total_memory,
        l2_bytes=driver.attribute(index, "l2_bytes"),
        driver=f"{driver.driver_version()}, torch {torch.__version__}",
        peaks=MappingProxyType(peaks),
    )


def _cpu() -> Description:
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text()
    except OSError:
        cpuinfo = ""
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    cores = len(os.sched_getaffinity(0))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Description(
        model[1] if model else "CPU",
        "cpu",
        None,
        sm_count=cores,
        memory_bytes=pages,
        driver=f"torch {torch.__version__}",
    )
