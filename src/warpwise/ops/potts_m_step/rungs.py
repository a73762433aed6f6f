"""The ladder of potts_m_step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.device.limits import HOPPER_SHARED, requires_ampere, requires_capability, shared_bytes
from warpwise.operation import cdiv, make_rung
from warpwise.ops._defaults import first_taking
from warpwise.ops.potts_m_step.spec import DTYPES, SPEC

HERE = Path(__file__).parent
THREADS, WARPS, SIDE, WIDTH = 256, 8, 16, 128  # kThreads, kWarps and kSide; most features
STATIC = 21 * 1024  # bytes of static shared memory of a block, at most: k02 has 20,608 with eight tiles of 16
BLOCKS = 8  # of a cluster of k02 (kBlocks)
# A cluster is faster from so many domains and so many domains * (width, rounded up to a multiple of SIDE)^2.
FEWEST_OF_CLUSTER, LEAST_OF_CLUSTER = 24, 1 << 16

BLOCK_PER_RESTART = cuda.load(HERE / "k01_block_per_restart.cu")
SYMMETRIC_SWEEP = cuda.load(HERE / "k02_symmetric_sweep.cu")

Outputs = tuple[torch.Tensor | None, ...]


def covariance_bytes(domains: int, width: int) -> int:
    """Dynamic shared memory of a block of k01."""
    return 8 * (width * width + domains)


def block_per_restart(outputs: Outputs, *args: Any) -> None:
    _, domains, width = args[1].shape
    _launch(BLOCK_PER_RESTART, "block_per_restart", 1, covariance_bytes(domains, width), (), outputs, *args)


def _launch(
    module: cuda.Module, kernel: str, blocks: int, size: int, workspace: tuple[Any, ...], outputs: Outputs,
    counts: torch.Tensor, sums: torch.Tensor, total: torch.Tensor, previous: torch.Tensor, n_points: int, ridge: float,
    derivatives: Any, beta: Any, highest_beta: float,
) -> None:  # fmt: skip
    """The launch of k01 and k02: ``blocks`` with ``size`` bytes of dynamic shared memory for each restart."""
    restarts, domains, width = sums.shape
    if not restarts:
        return
    launch = module[f"potts_m_step_{kernel}<{_tiles(width)}>"][restarts * blocks, THREADS, size]
    launch(counts, sums, total, previous, derivatives, None if derivatives is None else beta,
           *(None if output is None else cuda.out(output) for output in outputs), *workspace, float(n_points), ridge,
           highest_beta, domains, width)  # fmt: skip


def _tiles(width: int) -> int:
    tiles = cdiv(width, SIDE)
    return 8 if tiles == 7 else tiles


def _clustered(sums: torch.Tensor) -> bool:
    """Whether k02 has a cluster of blocks for each restart."""
    _, domains, width = sums.shape
    many = domains >= FEWEST_OF_CLUSTER and domains * (SIDE * _tiles(width)) ** 2 >= LEAST_OF_CLUSTER
    many = many or sweep_bytes(domains, width, False) > most_bytes(sums)  # too much for one block
    return many and requires_capability(sums, 9, 0, "") is None


def sweep_bytes(domains: int, width: int, clustered: bool) -> int:
    """Dynamic shared memory of a block of k02: kScratch doubles, and of each domain the count, the mean and its
    products."""
    tiles, row = _tiles(width), SIDE * _tiles(width)
    parts = 0 if clustered else _part(tiles) * (WARPS // tiles if tiles <= 2 else 1)
    inverse = 0 if clustered else row * (row + 4)
    share = cdiv(domains, BLOCKS) if clustered else domains
    return 8 * (max(row * row // 2 + parts, inverse) + share * (18 * tiles + 5))


def _part(tiles: int) -> int:
    """Doubles of the tiles of 8 x 8 on and below the diagonal."""
    return 64 * tiles * (2 * tiles + 1)


def symmetric_sweep(outputs: Outputs, *args: Any) -> None:
    sums, clustered = args[1], _clustered(args[1])
    restarts, domains, width = sums.shape
    size = sweep_bytes(domains, width, clustered)
    if not clustered:
        _launch(SYMMETRIC_SWEEP, "one_block", 1, size, (), outputs, *args)
        return
    tiles = _tiles(width)
    doubles = restarts * (BLOCKS * _part(tiles) + (SIDE * tiles) ** 2 + BLOCKS)  # kWorkspace
    workspace = (cuda.out(sums.new_empty(doubles, dtype=torch.float64)),)
    _launch(SYMMETRIC_SWEEP, "cluster", BLOCKS, size, workspace, outputs, *args)


def limits(counts: torch.Tensor, sums: torch.Tensor, *rest: Any) -> str | None:
    domains, width = sums.shape[1:]
    return _too_large(sums, covariance_bytes(domains, width))


def sweep_limits(counts: torch.Tensor, sums: torch.Tensor, *rest: Any) -> str | None:
    domains, width = sums.shape[1:]
    return requires_ampere(sums) or _too_large(sums, sweep_bytes(domains, width, _clustered(sums)))


def most_bytes(sums: torch.Tensor) -> int:
    """The most dynamic shared memory of a block."""
    return (shared_bytes(sums) or HOPPER_SHARED) - STATIC


def _too_large(sums: torch.Tensor, size: int) -> str | None:
    """The reason why a block cannot have ``size`` bytes of dynamic shared memory, or so many features; or None."""
    _, domains, width = sums.shape
    most = most_bytes(sums)
    if width > WIDTH or size > most:
        return f"takes up to {WIDTH} features and {most} bytes of shared memory; {domains} x {width} need {size}"
    return None


RUNGS = (
    make_rung(HERE, "k01_block_per_restart", "one block per restart, the inverse in registers", block_per_restart,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k02_symmetric_sweep", "half of a symmetric matrix, a barrier for eight features; clusters",
              symmetric_sweep, dtypes=DTYPES, limits=sweep_limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k02; k01 if k02 needs more shared memory than a block may have. PyTorch takes about 25 launches."""
    return first_taking(SPEC, RUNGS, args, "k02_symmetric_sweep", "k01_block_per_restart")
