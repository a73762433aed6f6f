"""Launches checked against a device's limits before they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from warpwise.cuda.errors import LaunchError
from warpwise.cuda.launch.limits import check_launch, check_shared, dimensions, target_profile
from warpwise.device import Profile

HOPPER = Profile.of("sm_90")


@pytest.mark.parametrize(
    "given, expected",
    [
        (7, (7, 1, 1)),
        ((7,), (7, 1, 1)),
        ((7, 8), (7, 8, 1)),
        ((7, 8, 9), (7, 8, 9)),
        ([7, 8], (7, 8, 1)),
        (np.int64(7), (7, 1, 1)),
        (torch.Size([2, 3]), (2, 3, 1)),
        (np.array([2, 3]), (2, 3, 1)),
        (torch.tensor(4), (4, 1, 1)),
    ],
)
def test_one_to_three_dimensions(given: Any, expected: tuple[int, int, int]) -> None:
    assert dimensions("k", "grid", given) == expected


@pytest.mark.parametrize(
    "given, message",
    [
        (7.0, "7.0 is a float; divide with //"),
        ((7, 2.5), "2.5 is a float"),
        ((1, 2, 3, 4), "expected an integer or one to three"),
        ((), "expected an integer or one to three"),
        ("32", "expected an integer or one to three"),
        (None, "None is not an integer"),
    ],
)
def test_invalid_dimensions_raise(given: Any, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        dimensions("k", "grid", given)


@pytest.mark.parametrize(
    "grid, block, message",
    [
        ((0, 1, 1), (32, 1, 1), r"k: grid \(0, 1, 1\): grid.x is 0, it must be at least 1; is the problem size 0\?"),
        ((1, -1, 1), (32, 1, 1), "grid.y is -1, it must be at least 1"),
        ((1, 1, 1), (0, 1, 1), "block.x is 0"),
        ((1, 65536, 1), (32, 1, 1), "grid.y is 65,536; sm_90 allows 65,535"),
        ((2**31, 1, 1), (32, 1, 1), "grid.x is 2,147,483,648; sm_90 allows 2,147,483,647"),
        ((1, 1, 1), (1, 1, 65), "block.z is 65; sm_90 allows 64"),
        ((1, 1, 1), (2048, 1, 1), "block.x is 2,048; sm_90 allows 1,024"),
        ((1, 1, 1), (32, 33, 1), r"block \(32, 33, 1\) has 1,056 threads; sm_90 allows 1,024"),
    ],
)
def test_grids_and_blocks_beyond_the_device_limits_raise(grid: Any, block: Any, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        check_launch("k", grid, block, HOPPER)


def test_the_largest_launch_passes() -> None:
    check_launch("k", (2**31 - 1, 65535, 65535), (1024, 1, 1), HOPPER, launch_bounds=1024, max_threads=1024)
    check_launch("k", (1, 1, 1), (1, 16, 64), HOPPER)
    check_shared("k", 48 * 1024, 179 * 1024, HOPPER)


def test_launch_bounds_and_registers_limit_the_block() -> None:
    with pytest.raises(LaunchError, match=r"has 256 threads, but the kernel is declared __launch_bounds__\(128\)"):
        check_launch("k", (1, 1, 1), (256, 1, 1), HOPPER, launch_bounds=128)
    with pytest.raises(LaunchError, match="registers limit a block to 512 on sm_90"):
        check_launch("k", (1, 1, 1), (1024, 1, 1), HOPPER, max_threads=512)


@pytest.mark.parametrize(
    "static, dynamic, message",
    [
        (0, -4, "shared_bytes is -4"),
        (0, 228 * 1024, "233,472 bytes of dynamic shared memory: sm_90 allows a block 232,448 in all"),
        (1024, 227 * 1024, "232,448 bytes of dynamic shared memory and 1,024 of __shared__ arrays"),
        (49153, 0, "take 49,153 bytes; static ones may take at most 49,152"),
    ],
)
def test_shared_memory_beyond_the_device_limits_raises(static: int, dynamic: int, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        check_shared("k", static, dynamic, HOPPER)


def test_the_target_comes_from_the_module_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPWISE_TARGET", raising=False)
    assert target_profile().name == "sm_90"
    monkeypatch.setenv("WARPWISE_TARGET", "sm_75")
    assert target_profile().name == "sm_75"
    assert target_profile("sm_80").name == "sm_80"
    with pytest.raises(LaunchError, match="sm_75 allows a block 65,536"):
        check_shared("k", 0, 65537, target_profile())
