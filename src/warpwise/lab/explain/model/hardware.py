"""Constants of the time model: rates and latencies of a device's units, with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from warpwise.device import Description, Profile, ceilings, current, describe
from warpwise.lab.explain.model.pipes import rates

GHZ, GBPS, MIB = 1e9, 1e9, 1 << 20


@dataclass(frozen=True)
class Latencies:
    """Cycles from issue to use of a load on an idle device: from DRAM, L2, L1 and shared memory."""

    dram: float
    l2: float
    l1: float
    shared: float


@dataclass(frozen=True)
class Hardware:
    """Constants that convert counters to seconds.

    ``clock_hz`` is the SM clock under load; ``dram_bytes_per_s`` is the DRAM rate with as many bytes read as written,
    and ``one_way`` the factor for reads or writes alone. Each of the ``l2_slices`` accepts a packet per clock of
    ``l2_clock_hz``; atomics on one address are ``integer_atomic_clocks`` or ``float_atomic_clocks`` apart. ``rates``
    are warp instructions per clock and SM by pipe, and ``tensor_flops`` FLOPs per clock and SM by dtype. ``launch_s``
    is the time of an empty kernel between two CUDA events. ``block_cycles`` are the cycles from the end of a block
    until the block that replaces it issues.

    The defaults were measured on an H200 (benchmarks/results/h200). Microbenchmarks measured the latencies (pointer
    chasing) and ``one_way`` (streams over 4 GiB). The others were derived from launches of operations:
    ``integer_atomic_clocks`` from a histogram of one value, ``float_atomic_clocks`` from a sum with one atomic per
    element, ``block_cycles`` from ncu's number of active warps in vector_add's first rung, and ``launch_s`` from
    launches of one block, whose duration in ncu is 1.6 µs shorter. ``source`` names the source of the other figures.
    """

    name: str
    profile: Profile
    sm_count: int
    clock_hz: float
    dram_bytes_per_s: float
    l2_bytes: int
    l2_clock_hz: float
    l2_slices: int
    source: str
    rates: Mapping[str, float] = field(default_factory=dict, hash=False)
    tensor_flops: Mapping[str, float] = field(default_factory=dict, hash=False)
    latencies: Latencies = Latencies(dram=675, l2=290, l1=44, shared=23)
    one_way: float = 1.03
    integer_atomic_clocks: float = 1.25
    float_atomic_clocks: float = 3.0
    launch_s: float = 3.4e-6
    block_cycles: float = 480.0

    def dram_rate(self, read: float, written: float) -> float:
        """DRAM rate in bytes/s for this mix of sectors read and written."""
        one_sided = abs(read - written) / (read + written) if read + written else 0.0
        return self.dram_bytes_per_s * (1.0 + (self.one_way - 1.0) * one_sided)

    def seconds(self, amount: float, per_clock: float) -> float:
        """Seconds of ``amount`` at ``per_clock`` per clock and SM, on all SMs together."""
        return amount / (per_clock * self.sm_count * self.clock_hz)


_SHEET = (
    "NVIDIA's data sheet and white paper; 90 % of the data sheet's memory bandwidth, as copies reach; an L2 clock of "
    "86 % of the SM's, as on an H200"
)
_MEASURED = "measured on an H200, benchmarks/results/h200; the SM clock is 1.98 GHz where power does not limit it"


def _device(
    target: str, name: str, sms: int, clock: float, dram: float, l2_mib: float, slices: int, source: str = _SHEET
) -> Hardware:
    profile = Profile.of(target)
    return Hardware(
        name,
        profile,
        sms,
        clock * GHZ,
        dram * GBPS,
        int(l2_mib * MIB),
        0.863 * clock * GHZ,
        slices,
        source,
        MappingProxyType(rates(profile)),
        MappingProxyType(dict(profile.flops_per_clock)),
    )


_DEVICES: dict[tuple[int, int], Hardware] = {
    each.profile.compute_capability: each
    for each in (
        _device("sm_70", "V100 SXM2", 80, 1.53, 0.9 * 900, 6, 64),
        _device("sm_72", "Jetson AGX Xavier", 8, 1.377, 0.9 * 137, 0.5, 16),
        _device("sm_75", "T4", 40, 1.59, 0.9 * 320, 4, 32),
        _device("sm_80", "A100 SXM 80 GB", 108, 1.41, 0.9 * 2039, 40, 80),
        _device("sm_86", "GeForce RTX 3090", 82, 1.695, 0.9 * 936, 6, 48),
        _device("sm_87", "Jetson AGX Orin", 16, 1.3, 0.9 * 204.8, 4, 16),
        _device("sm_89", "GeForce RTX 4090", 128, 2.52, 0.9 * 1008, 72, 48),
        _device("sm_90", "H200 SXM", 132, 1.98, 4274, 60, 94, _MEASURED),
        _device("sm_100", "B200", 148, 1.965, 0.9 * 8000, 126, 128),
        _device("sm_103", "B300", 160, 1.92, 0.9 * 8000, 126, 128),
        _device("sm_110", "Jetson AGX Thor", 20, 1.575, 0.9 * 273, 32, 16),
        _device("sm_120", "GeForce RTX 5090", 170, 2.407, 0.9 * 1792, 96, 64),
        _device("sm_121", "DGX Spark", 48, 2.418, 0.9 * 273, 24, 32),
    )
}


def hardware(target: str | Profile | None = None) -> Hardware:
    """The device to predict for: this machine's GPU if it has the target's compute capability, else a known device.

    ``target`` is a compute capability ("sm_90": an H200, unless this machine has a GPU of sm_90), "cuda" for this
    machine's GPU, None for this machine's GPU or else an H200, or a ``Profile``, which always gives the known device of
    its compute capability. For a local GPU the constants are those of its compute capability, with its own sizes and
    clocks and, if measured, its copy rate. Raises ``ValueError`` for an unknown target.
    """
    if isinstance(target, Profile):
        return _of_profile(target)
    wanted = None if target is None or target.startswith("cuda") else Profile.of(target)
    if target is not None and wanted is None:
        return _of_gpu(describe(target), target)
    here = current()
    if here.place == "gpu" and here.profile is not None and wanted in (None, here.profile):
        return _of_gpu(here, "cuda")
    return _of_profile(wanted or Profile.of("sm_90"))


def _of_gpu(here: Description, device: str) -> Hardware:
    base = _of_profile(here.profile or Profile.of("sm_90"))
    measured = ceilings(device)
    computed = 0.9 * (here.peak_bandwidth or base.dram_bytes_per_s / 0.9)
    origin = "its measured copy rate" if measured else "90 % of its computed memory bandwidth"
    return replace(
        base,
        name=here.name,
        sm_count=here.sm_count or base.sm_count,
        clock_hz=here.clock_hz or base.clock_hz,
        l2_bytes=here.l2_bytes or base.l2_bytes,
        dram_bytes_per_s=measured.copy if measured else computed,
        source=f"the driver's sizes and clocks, {origin}; else the constants of {base.name}",
    )


def _of_profile(profile: Profile) -> Hardware:
    """The constants of this compute capability, or those of the nearest older one."""
    known = _DEVICES.get(profile.compute_capability)
    if known is not None:
        return known
    older = [capability for capability in _DEVICES if capability <= profile.compute_capability]
    base = _DEVICES[max(older, default=min(_DEVICES))]
    return replace(
        base, profile=profile, rates=MappingProxyType(rates(profile)), source=f"constants of the {base.name}"
    )
