"""Occupancy against values of NVIDIA's calculator, and against a definition that packs blocks one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpwise.device import Profile
from warpwise.lab.explain.model.limits import shared_sizes, shared_unit
from warpwise.lab.explain.model.occupancy import occupancy

KIB = 1024
TARGETS = [profile.name for profile in Profile.known()]


@pytest.mark.parametrize(
    "target, threads, registers, static, dynamic, blocks, binds",
    [
        ("sm_90", 256, 32, 0, 0, 8, ("warps", "registers")),
        ("sm_90", 256, 40, 0, 0, 6, ("registers",)),
        ("sm_90", 256, 33, 0, 0, 6, ("registers",)),
        ("sm_90", 256, 128, 0, 0, 2, ("registers",)),
        ("sm_90", 1024, 64, 0, 0, 1, ("registers",)),
        ("sm_90", 32, 16, 0, 0, 32, ("blocks",)),
        ("sm_90", 128, 32, 48 * KIB, 0, 4, ("shared memory",)),
        ("sm_90", 128, 32, 0, 227 * KIB, 1, ("shared memory",)),
        ("sm_80", 256, 32, 0, 16 * KIB, 8, ("warps", "registers")),
        ("sm_80", 256, 32, 0, 20 * KIB, 7, ("shared memory",)),
        ("sm_86", 256, 40, 0, 0, 6, ("warps", "registers")),
        ("sm_86", 1024, 40, 0, 0, 1, ("warps", "registers")),
        ("sm_89", 1024, 32, 0, 0, 1, ("warps",)),
        ("sm_75", 256, 32, 0, 0, 4, ("warps",)),
        ("sm_75", 256, 64, 16 * KIB, 0, 4, ("warps", "registers", "shared memory")),
        ("sm_75", 256, 72, 0, 0, 3, ("registers",)),
        ("sm_100", 256, 96, 64 * KIB, 0, 2, ("registers",)),
        ("sm_120", 128, 64, 0, 24 * KIB, 4, ("shared memory",)),
    ],
)
def test_known_values(
    target: str, threads: int, registers: int, static: int, dynamic: int, blocks: int, binds: tuple[str, ...]
) -> None:
    found = occupancy(target, threads, registers, static, dynamic)
    assert found.blocks == blocks
    assert set(binds) <= set(found.binding)
    assert found.warps == blocks * -(-threads // 32)
    assert found.fraction == found.warps / Profile.of(target).warps_per_sm


def packed(profile: Profile, threads: int, registers: int, shared: int) -> int:
    """Blocks put on an empty SM one at a time until one does not fit: warps go to the sub-partition with the fewest."""
    warps_left, partitions, shared_left, blocks = profile.warps_per_sm, [0] * 4, profile.shared_per_sm, 0
    of_warp = -(-max(registers, 16) * 32 // 256) * 256
    room = profile.registers_per_sm // 4
    block_shared = shared + profile.shared_reserved_per_block
    while blocks < profile.blocks_per_sm:
        warps_left -= -(-threads // 32)
        while block_shared % shared_unit(profile):
            block_shared += 1
        shared_left -= block_shared
        for _ in range(-(-threads // 32)):
            partitions[partitions.index(min(partitions))] += of_warp
        if warps_left < 0 or shared_left < 0 or max(partitions) > room:
            break
        blocks += 1
    return blocks


@given(
    target=st.sampled_from(TARGETS),
    threads=st.integers(1, 1024),
    registers=st.integers(1, 255),
    shared=st.integers(0, 227 * KIB),
)
def test_agrees_with_packing_block_by_block(target: str, threads: int, registers: int, shared: int) -> None:
    found, profile = occupancy(target, threads, registers, 0, shared), Profile.of(target)
    if found.refusal:
        assert found.blocks == 0 and found.warps == 0
        return
    assert found.blocks == packed(profile, threads, registers, shared)
    assert found.blocks == min(found.limits.values())
    assert found.shared_config in shared_sizes(profile)
    assert found.shared_config >= found.blocks * found.shared_allocated
    assert found.l1_bytes + found.shared_config == profile.l1_and_shared_per_sm


@pytest.mark.parametrize("target", TARGETS)
def test_more_of_anything_never_helps(target: str) -> None:
    for registers in (16, 32, 64, 128, 248):
        counts = [occupancy(target, 256, registers, shared).blocks for shared in range(0, 48 * KIB, 4 * KIB)]
        assert counts == sorted(counts, reverse=True)
    counts = [occupancy(target, 256, registers).blocks for registers in range(1, 256)]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize(
    "threads, registers, dynamic, said",
    [
        (1025, 32, 0, "1025 threads"),
        (128, 256, 0, "256 registers per thread"),
        (1024, 72, 0, "73728 registers per block"),
        (128, 32, 227 * KIB + 1, "bytes of shared memory"),
    ],
)
def test_what_cannot_start_says_why(threads: int, registers: int, dynamic: int, said: str) -> None:
    found = occupancy("sm_90", threads, registers, 0, dynamic)
    assert found.blocks == 0 and said in found.refusal
    assert found.waves(100, 132) == 0 and found.tail(100, 132) == 0


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="expected threads of at least 1, got 0"):
        occupancy("sm_90", 0, 32)
    with pytest.raises(ValueError, match="no profile for target 'sm_61'"):
        occupancy("sm_61", 128, 32)


@pytest.mark.parametrize(
    "threads, registers, shared, config, blocks",
    [
        (1024, 32, 0, 8, 8), (256, 32, 0, 32, 32), (256, 48, 0, 32, 32), (64, 32, 0, 32, 32), (256, 32, 128, 32, 28),
        (512, 32, 128, 16, 14), (256, 40, 128, 16, 14), (256, 40, 4096, 64, 12), (256, 128, 8192, 64, 7),
        (256, 48, 8320, 100, 10), (256, 40, 8320, 132, 14), (128, 96, 8448, 100, 10), (256, 32, 9856, 132, 12),
        (256, 48, 21760, 132, 5), (512, 40, 32896, 132, 3),
    ],
)  # fmt: skip
def test_shared_memory_is_configured_as_ncu_saw_it(
    threads: int, registers: int, shared: int, config: int, blocks: int
) -> None:
    found = occupancy("sm_90", threads, registers, shared)  # H200, driver 580
    assert (found.shared_config, found.limits["shared memory"]) == (config * KIB, blocks)
    assert found.l1_bytes == (256 - config) * KIB


def test_waves_and_tail() -> None:
    found = occupancy("sm_90", 256, 32)  # 8 blocks an SM, 1056 on 132
    assert found.waves(1056, 132) == 1 and found.tail(1056, 132) == 1
    assert found.waves(1057, 132) > 1 and found.tail(1057, 132) == pytest.approx(1 / 1056)
    assert found.waves(528, 132) == 0.5 and found.tail(528, 132) == 0.5
