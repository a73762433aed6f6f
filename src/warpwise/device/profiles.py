"""Launch and occupancy limits of each compute capability.

Sources: CUDA C++ Programming Guide, appendix "Compute Capabilities", table "Technical Specifications per Compute
Capability"; blocks per SM and shared memory sizes agree with ``cuda_occupancy.h`` of the CUDA toolkit. FLOPs per clock
are the guide's "Throughput of Native Arithmetic Instructions" times two (a multiply-add is two FLOPs); for tensor
cores, the dense rates of NVIDIA's architecture white papers divided by SM count and boost clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

KIB = 1024
Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class Profile:
    """The limits of one compute capability. Sizes are in bytes; ``sm`` is a streaming multiprocessor.

    ``flops_per_clock`` is dense FLOPs per clock and SM by dtype: "fp32" on CUDA cores; "tf32", "fp16", "bf16", "fp8"
    and "int8" on tensor cores; "fp64" on the faster of the two (tensor cores on sm_80 and sm_90). A dtype is missing if
    it is not supported, or if its rate differs between GPUs of this compute capability.
    """

    name: str
    architecture: str
    compute_capability: tuple[int, int]
    threads_per_sm: int
    blocks_per_sm: int
    shared_per_sm: int
    shared_per_block_optin: int
    l1_and_shared_per_sm: int
    flops_per_clock: Mapping[str, int]
    shared_reserved_per_block: int = 1 * KIB
    shared_per_block: int = 48 * KIB
    warp_size: int = 32
    threads_per_block: int = 1024
    block_dim: Index3 = (1024, 1024, 64)
    grid_dim: Index3 = (2**31 - 1, 65535, 65535)
    registers_per_sm: int = 64 * KIB
    registers_per_block: int = 64 * KIB
    registers_per_thread: int = 255
    constant_bytes: int = 64 * KIB
    shared_banks: int = field(default=32)

    @property
    def warps_per_sm(self) -> int:
        return self.threads_per_sm // self.warp_size

    @staticmethod
    def of(target: str | tuple[int, int]) -> Profile:
        """Return the profile of "sm_90", "sm_90a", "9.0" or (9, 0). Raises ``ValueError`` for an unknown target."""
        capability = parse_target(target)
        if capability not in _PROFILES:
            known = ", ".join(profile.name for profile in _PROFILES.values())
            raise ValueError(f"no profile for target {target!r}; known targets: {known}")
        return _PROFILES[capability]

    @staticmethod
    def known() -> tuple[Profile, ...]:
        """Return all profiles, oldest architecture first."""
        return tuple(_PROFILES.values())


def parse_target(target: str | tuple[int, int]) -> tuple[int, int]:
    """Return the compute capability of a target: "sm_90a" gives (9, 0), "12.1" gives (12, 1)."""
    if isinstance(target, tuple):
        return target
    match = re.fullmatch(r"(?:sm_|compute_)?(\d+)\.?(\d)[af]?", target.strip())
    if not match:
        raise ValueError(f"target {target!r}: expected a compute capability such as 'sm_90' or '9.0'")
    return int(match[1]), int(match[2])


def _volta(minor: int, fp64: int) -> Profile:
    return Profile(
        f"sm_7{minor}",
        "Volta",
        (7, minor),
        2048,
        32,
        96 * KIB,
        96 * KIB,
        128 * KIB,
        MappingProxyType({"fp32": 128, "fp64": fp64, "fp16": 1024}),
        shared_reserved_per_block=0,
    )


def _turing() -> Profile:
    return Profile(
        "sm_75",
        "Turing",
        (7, 5),
        1024,
        16,
        64 * KIB,
        64 * KIB,
        96 * KIB,
        MappingProxyType({"fp32": 128, "fp64": 4, "fp16": 1024, "int8": 2048}),
        shared_reserved_per_block=0,
    )


def _ampere(minor: int, *, large: bool) -> Profile:
    """sm_80 and sm_87 have 164 KiB of shared memory per SM, sm_86 and sm_89 100 KiB."""
    rates = (
        {"fp32": 256, "fp64": 4}
        if minor
        else {"fp32": 128, "fp64": 128, "tf32": 1024, "fp16": 2048, "bf16": 2048, "int8": 4096}
    )
    return Profile(
        f"sm_8{minor}",
        "Ada" if minor == 9 else "Ampere",
        (8, minor),
        1536 if minor else 2048,
        {0: 32, 9: 24}.get(minor, 16),
        (164 if large else 100) * KIB,
        (163 if large else 99) * KIB,
        (192 if large else 128) * KIB,
        MappingProxyType(rates),
    )


def _hopper_or_blackwell(
    capability: tuple[int, int], architecture: str, rates: dict[str, int], threads: int = 2048, blocks: int = 32
) -> Profile:
    major, minor = capability
    return Profile(
        f"sm_{major}{minor}",
        architecture,
        capability,
        threads,
        blocks,
        228 * KIB,
        227 * KIB,
        256 * KIB,
        MappingProxyType(rates),
    )


def _geforce_blackwell(minor: int) -> Profile:
    return Profile(
        f"sm_12{minor}",
        "Blackwell",
        (12, minor),
        1536,
        24,
        100 * KIB,
        99 * KIB,
        128 * KIB,
        MappingProxyType({"fp32": 256, "fp64": 4}),
    )


_HOPPER_RATES = {"fp32": 256, "fp64": 256, "tf32": 2048, "fp16": 4096, "bf16": 4096, "fp8": 8192, "int8": 8192}
_B200_RATES = {"fp32": 256, "fp64": 128, "tf32": 4096, "fp16": 8192, "bf16": 8192, "fp8": 16384, "int8": 16384}
_B300_RATES = {"fp32": 256, "tf32": 4096, "fp16": 8192, "bf16": 8192, "fp8": 16384}

_PROFILES: dict[tuple[int, int], Profile] = {
    profile.compute_capability: profile
    for profile in (
        _volta(0, fp64=64),
        _volta(2, fp64=64),
        _turing(),
        _ampere(0, large=True),
        _ampere(6, large=False),
        _ampere(7, large=True),
        _ampere(9, large=False),
        _hopper_or_blackwell((9, 0), "Hopper", _HOPPER_RATES),
        _hopper_or_blackwell((10, 0), "Blackwell", _B200_RATES),
        _hopper_or_blackwell((10, 3), "Blackwell", _B300_RATES),
        _hopper_or_blackwell((11, 0), "Blackwell", {"fp32": 256}, threads=1536, blocks=24),
        _geforce_blackwell(0),
        _geforce_blackwell(1),
    )
}
