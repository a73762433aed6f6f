"""Theoretical occupancy: the number of blocks of a kernel that fit on an SM, and the limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpwise.device import Profile
from warpwise.lab.explain.model.limits import (
    LEAST_REGISTERS,
    PARTITIONS,
    REGISTER_UNIT,
    block_barriers,
    configured,
    shared_unit,
)


@dataclass(frozen=True)
class Occupancy:
    """Resources of one block on an SM, and the number of blocks that fit. Sizes are in bytes, ``registers`` per thread.

    ``limits`` gives the number of blocks that fit by "blocks", "warps", "registers", "shared memory" or "barriers"
    alone. ``shared_config`` is the shared memory size that the driver configures, enough for all resident blocks; the
    limit by shared memory is for that size, and the rest is L1 cache (``l1_bytes``). ``blocks`` is 0 for a launch that
    the device rejects, and ``refusal`` gives the reason.
    """

    profile: Profile
    threads: int
    warps_per_block: int
    registers: int
    registers_allocated: int
    static_shared: int
    dynamic_shared: int
    shared_allocated: int
    shared_config: int
    local: int
    limits: dict[str, int] = field(hash=False)
    blocks: int
    refusal: str = ""

    @property
    def warps(self) -> int:
        """Warps resident on an SM."""
        return self.blocks * self.warps_per_block

    @property
    def fraction(self) -> float:
        """Resident warps over the maximum of the SM, 0 to 1."""
        return self.warps / self.profile.warps_per_sm

    @property
    def l1_bytes(self) -> int:
        """L1 cache size under the shared memory configuration."""
        return self.profile.l1_and_shared_per_sm - self.shared_config

    @property
    def binding(self) -> tuple[str, ...]:
        """The lowest limits; raising all of them is necessary for more resident blocks."""
        lowest = min(self.limits.values())
        return tuple(name for name, blocks in self.limits.items() if blocks == lowest)

    def waves(self, grid: int, sm_count: int) -> float:
        """The number of waves: ``grid`` blocks over those that ``sm_count`` SMs hold at once."""
        return grid / (self.blocks * sm_count) if self.blocks else 0.0

    def tail(self, grid: int, sm_count: int) -> float:
        """The fraction of the last wave that is filled: 1 is a full wave."""
        places = self.blocks * sm_count
        return ((grid - 1) % places + 1) / places if places and grid else 0.0


def occupancy(
    target: str | Profile,
    threads: int,
    registers: int,
    static_shared: int = 0,
    dynamic_shared: int = 0,
    local: int = 0,
    barriers: int = 1,
) -> Occupancy:
    """The occupancy of blocks of ``threads`` threads with ``registers`` registers each.

    ``static_shared`` and ``dynamic_shared`` are bytes per block, ``local`` bytes of local memory per thread, which
    limit nothing. ``barriers`` is the number of named barriers of a block (``__syncthreads()`` uses one). Raises
    ``ValueError`` for an unknown target and for negative sizes.
    """
    profile = target if isinstance(target, Profile) else Profile.of(target)
    for name, value, least in (
        ("threads", threads, 1),
        ("registers", registers, 0),
        ("static_shared", static_shared, 0),
        ("dynamic_shared", dynamic_shared, 0),
        ("barriers", barriers, 0),
    ):
        if value < least:
            raise ValueError(f"occupancy: expected {name} of at least {least}, got {value}")

    warps = -(-threads // profile.warp_size)
    of_warp = _round_up(max(registers, LEAST_REGISTERS) * profile.warp_size, REGISTER_UNIT)
    shared = static_shared + dynamic_shared + profile.shared_reserved_per_block
    shared = _round_up(shared, shared_unit(profile))
    refusal = _refusal(profile, threads, registers, of_warp, warps, static_shared + dynamic_shared)

    limits = {
        "blocks": profile.blocks_per_sm,
        "warps": profile.warps_per_sm // warps,
        "registers": _register_limit(profile, of_warp, warps),
        "barriers": min(profile.blocks_per_sm, block_barriers(profile) // max(1, barriers)),
    }
    places = min(*limits.values(), profile.shared_per_sm // shared) if shared else min(limits.values())
    config = configured(profile, shared, max(places, 1))
    limits["shared memory"] = config // shared if shared else profile.blocks_per_sm
    return Occupancy(
        profile,
        threads,
        warps,
        registers,
        of_warp // profile.warp_size,
        static_shared,
        dynamic_shared,
        shared,
        config,
        local,
        limits,
        0 if refusal else min(limits.values()),
        refusal,
    )


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _register_limit(profile: Profile, of_warp: int, warps: int) -> int:
    """A warp's registers are in one sub-partition, so the remainder of each sub-partition is unused."""
    of_partition = profile.registers_per_sm // PARTITIONS // of_warp
    return of_partition * PARTITIONS // warps


def _refusal(profile: Profile, threads: int, registers: int, of_warp: int, warps: int, shared: int) -> str:
    """The reason why no such block can start, or ""."""
    if threads > profile.threads_per_block:
        return f"{threads} threads per block; {profile.name} takes {profile.threads_per_block}"
    if registers > profile.registers_per_thread:
        return f"{registers} registers per thread; {profile.name} has {profile.registers_per_thread}"
    # The driver's check assumes as many warps in every sub-partition as in the fullest one.
    if (needed := of_warp * _round_up(warps, PARTITIONS)) > profile.registers_per_block:
        return (
            f"{needed} registers per block ({registers} for each of {threads} threads); "
            f"{profile.name} has {profile.registers_per_block}"
        )
    if shared > profile.shared_per_block_optin:
        return f"{shared} bytes of shared memory per block; {profile.name} has {profile.shared_per_block_optin}"
    return ""
