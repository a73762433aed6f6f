"""Checks of launches against the limits of a device, shared by the GPU and the emulator."""

from __future__ import annotations

import functools
import operator
import os
from typing import Any

from warpwise.cuda.errors import Index3, LaunchError
from warpwise.device.profiles import Profile

DEFAULT_TARGET = "sm_90"


def target_profile(target: str | None = None) -> Profile:
    """The profile whose limits apply to emulated launches: ``target``, else ``$WARPWISE_TARGET``, else sm_90."""
    return _profile(target or os.environ.get("WARPWISE_TARGET") or DEFAULT_TARGET)


@functools.lru_cache(maxsize=32)
def _profile(target: str) -> Profile:
    return Profile.of(target)


def dimensions(kernel: str, what: str, given: Any) -> Index3:
    """``given`` (an integer or up to three of them) as (x, y, z). Raises ``LaunchError`` for anything else."""
    try:
        parts = tuple(given)
    except TypeError:
        parts = (given,)
    if isinstance(given, str) or not 1 <= len(parts) <= 3:
        raise LaunchError(f"{kernel}: {what} = {given!r}: expected an integer or one to three of them")
    sizes = []
    for part in parts:
        if isinstance(part, float):
            raise LaunchError(f"{kernel}: {what} = {given!r}: {part!r} is a float; divide with // or triton.cdiv")
        try:
            sizes.append(operator.index(part))
        except TypeError:
            shown = f"{part!r}" if part is None else f"a {type(part).__name__}"
            raise LaunchError(f"{kernel}: {what} = {given!r}: {shown} is not an integer") from None
    return (*sizes, *(1,) * (3 - len(sizes)))  # type: ignore[return-value]


def check_launch(
    kernel: str,
    grid: Index3,
    block: Index3,
    profile: Profile,
    launch_bounds: int | None = None,
    max_threads: int | None = None,
) -> None:
    """Raise ``LaunchError`` if the device cannot launch this grid of blocks.

    ``launch_bounds`` is the kernel's ``__launch_bounds__``; ``max_threads`` is the limit that its registers impose.
    """
    for what, sizes, limits in (("grid", grid, profile.grid_dim), ("block", block, profile.block_dim)):
        for axis, size, limit in zip("xyz", sizes, limits, strict=True):
            if size < 1:
                hint = "; is the problem size 0? An empty input needs no launch" if size == 0 else ""
                raise LaunchError(f"{kernel}: {what} {sizes}: {what}.{axis} is {size}, it must be at least 1{hint}")
            if size > limit:
                raise LaunchError(
                    f"{kernel}: {what} {sizes}: {what}.{axis} is {size:,}; {profile.name} allows {limit:,}"
                )
    threads = block[0] * block[1] * block[2]
    if threads > profile.threads_per_block:
        raise LaunchError(
            f"{kernel}: block {block} has {threads:,} threads; {profile.name} allows {profile.threads_per_block:,}"
        )
    if launch_bounds is not None and threads > launch_bounds:
        raise LaunchError(
            f"{kernel}: block {block} has {threads:,} threads, but the kernel is declared "
            f"__launch_bounds__({launch_bounds})"
        )
    if max_threads is not None and threads > max_threads:
        raise LaunchError(
            f"{kernel}: block {block} has {threads:,} threads, but the kernel's registers limit a block to "
            f"{max_threads:,} on {profile.name}; launch fewer or add __launch_bounds__({threads})"
        )


_MAX_CLUSTER = 16  # blocks; more than 8 require cudaFuncAttributeNonPortableClusterSizeAllowed


def check_cluster(kernel: str, grid: Index3, cluster: Index3) -> None:
    """Raise ``LaunchError`` if the device cannot launch this grid in clusters of this shape, in blocks."""
    if min(cluster) < 1 or any(blocks % size for blocks, size in zip(grid, cluster, strict=True)):
        raise LaunchError(f"{kernel}: clusters of {cluster} blocks do not divide the grid {grid}")
    size = cluster[0] * cluster[1] * cluster[2]
    if size > _MAX_CLUSTER:
        raise LaunchError(f"{kernel}: a cluster of {size} blocks; a GPU runs clusters of at most {_MAX_CLUSTER}")


def check_shared(kernel: str, static: int, dynamic: int, profile: Profile) -> None:
    """Raise ``LaunchError`` if a block's shared memory does not fit. Sizes in bytes.

    Static arrays may take 48 KiB on every device. With dynamic shared memory a block may use the device's opt-in limit;
    kernels of ``load`` opt in automatically.
    """
    if dynamic < 0:
        raise LaunchError(f"{kernel}: shared_bytes is {dynamic}, it must not be negative")
    if static > profile.shared_per_block:
        raise LaunchError(
            f"{kernel}: its __shared__ arrays take {static:,} bytes; static ones may take at most "
            f"{profile.shared_per_block:,}: declare the large one extern __shared__ and pass its bytes as "
            "kernel[grid, block, shared_bytes]"
        )
    if static + dynamic > profile.shared_per_block_optin:
        parts = f"{dynamic:,} bytes of dynamic shared memory" + (
            f" and {static:,} of __shared__ arrays" if static else ""
        )
        raise LaunchError(f"{kernel}: {parts}: {profile.name} allows a block {profile.shared_per_block_optin:,} in all")
