"""Allocation of registers and shared memory on an SM, by compute capability.

Facts from ``cuda_occupancy.h`` of the CUDA toolkit, and the CUDA C++ Programming Guide on unified data caches.
"""

from __future__ import annotations

from warpwise.device import Profile

KIB = 1024
REGISTER_UNIT = 256  # allocation granularity of a warp's registers since Volta: 8 per thread
LEAST_REGISTERS = 16  # per thread
PARTITIONS = 4  # sub-partitions of an SM, each with a scheduler and a quarter of the registers, since Volta

_CARVE_OUTS = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)  # since sm_80, up to what the SM has
_EARLIER: dict[tuple[int, int], tuple[int, ...]] = {
    (7, 0): (0, 8, 16, 32, 64, 96),
    (7, 2): (0, 8, 16, 32, 64, 96),
    (7, 5): (32, 64),
}


def shared_sizes(profile: Profile) -> tuple[int, ...]:
    """The configurable sizes of an SM's shared memory in bytes, ascending; the rest of the array is L1 cache."""
    sizes = _EARLIER.get(profile.compute_capability, _CARVE_OUTS)
    return tuple(size * KIB for size in sizes if size * KIB <= profile.shared_per_sm)


def configured(profile: Profile, block_bytes: int, blocks: int) -> int:
    """The shared memory size in bytes that the driver configures if ``blocks`` blocks of ``block_bytes`` fit on an SM.

    Measured on an H200: twice the bytes in use, limited to 58 % of the SM's shared memory if that suffices; 8 or 32 KiB
    for kernels without shared memory. NVIDIA documents no rule.
    """
    sizes, needed = shared_sizes(profile), blocks * block_bytes
    if block_bytes == profile.shared_reserved_per_block and 2 * needed > 8 * KIB:
        twice = max(32 * KIB, needed)
    else:
        most = max((size for size in sizes if size <= 0.58 * profile.shared_per_sm), default=0)
        twice = max(min(2 * needed, most), needed)
    return next((size for size in sizes if size >= twice), profile.shared_per_sm)


def shared_unit(profile: Profile) -> int:
    """Allocation granularity of a block's shared memory in bytes."""
    return 256 if profile.compute_capability < (8, 0) else 128


def block_barriers(profile: Profile) -> int:
    """Hardware barriers of an SM: two per resident block, or one on SMs with fewer than 2048 threads."""
    return profile.blocks_per_sm * (2 if profile.threads_per_sm == 2048 or profile.compute_capability < (8, 0) else 1)
