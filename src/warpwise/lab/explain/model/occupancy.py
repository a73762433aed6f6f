"""Theoretical occupancy: how many blocks of a kernel an SM holds at once, and what keeps it from more."""

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
    """What one block takes of an SM and how many fit. Sizes are in bytes, ``registers`` a thread's.

    ``limits`` gives the blocks that would fit if only "blocks", "warps", "registers", "shared memory" or "barriers"
    counted. ``shared_config`` is the size that the driver would give the SM's shared memory, enough for all blocks that
    can be resident, and the limit by shared memory is for that size; what it leaves is L1 cache (``l1_bytes``). ``blocks`` is 0 for a
    launch that the device refuses, and ``refusal`` then says why.
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
        """Resident warps of those that the SM can hold, 0 to 1."""
        return self.warps / self.profile.warps_per_sm

    @property
    def l1_bytes(self) -> int:
        """What the shared memory's configuration leaves for the L1 cache."""
        return self.profile.l1_and_shared_per_sm - self.shared_config

    @property
    def binding(self) -> tuple[str, ...]:
        """The limits that are lowest: more of these, and only of all of these, would let more blocks in."""
        lowest = min(self.limits.values())
        return tuple(name for name, blocks in self.limits.items() if blocks == lowest)

    def waves(self, grid: int, sm_count: int) -> float:
        """How often ``sm_count`` SMs fill up with blocks until ``grid`` blocks have run; below 1, none is full."""
        return grid / (self.blocks * sm_count) if self.blocks else 0.0

    def tail(self, grid: int, sm_count: int) -> float:
        """The part of the last wave's places that blocks take: 1 is a whole wave, and 0.1 leaves nine tenths idle."""
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

    ``static_shared`` and ``dynamic_shared`` are a block's, ``local`` a thread's local memory, in bytes; the last limits
    nothing. ``barriers`` are those that a block synchronises on (``__syncthreads()`` is one). Raises ``ValueError`` for
    an unknown target and for negative sizes.
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
        profile, threads, warps, registers, of_warp // profile.warp_size, static_shared, dynamic_shared, shared, config, local,
        limits, 0 if refusal else min(limits.values()), refusal,
    )  # fmt: skip


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _register_limit(profile: Profile, of_warp: int, warps: int) -> int:
    """Warps get their registers in one sub-partition, so that what is left over in each is of no use."""
    of_partition = profile.registers_per_sm // PARTITIONS // of_warp
    return of_partition * PARTITIONS // warps


def _refusal(profile: Profile, threads: int, registers: int, of_warp: int, warps: int, shared: int) -> str:
    """Why no block of this kind can start, or nothing."""
    if threads > profile.threads_per_block:
        return f"{threads} threads a block; {profile.name} takes {profile.threads_per_block}"
    if registers > profile.registers_per_thread:
        return f"{registers} registers a thread; {profile.name} has {profile.registers_per_thread}"
    # The launch is checked as if every sub-partition got as many warps as the fullest.
    if (needed := of_warp * _round_up(warps, PARTITIONS)) > profile.registers_per_block:
        return f"{needed} registers a block ({registers} for each of {threads} threads); {profile.name} has {profile.registers_per_block}"
    if shared > profile.shared_per_block_optin:
        return f"{shared} bytes of shared memory a block; {profile.name} has {profile.shared_per_block_optin}"
    return ""
