"""Launches of `warpwise/finished_product.cuh`: Hopper's products whose results are finished before they leave."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.ops import _boxes
from warpwise.ops._common import cdiv, multiprocessors

CLUSTER, ROWS, COLUMNS, DEPTH, THREADS = 2, 128, 256, 64, 384  # kCluster and the others of the header
BOX = 64 * 64 * 2  # bytes
GROUP = 8  # pairs of rows of tiles that go column by column
CONFIGS = ("lag2", "lag0", "lag1", "lag3")


class Plan(NamedTuple):
    """Maps of a, b, y, what is added and what is kept; template arguments; grid; bytes of shared memory; order of tiles."""

    maps: tuple[Any, ...]
    arguments: str
    grid: int
    shared: int
    order: tuple[int, int, int]


def limits(tensor: torch.Tensor) -> str | None:
    """Why the tensor's GPU has no products by warpgroups, or None; a CPU stands in for one that has."""
    if tensor.is_cuda and not _boxes.is_hopper(tensor):
        return "takes a GPU of compute capability 9.0: its matrix products exist there alone"
    return None


def shared_bytes(by_parts: bool) -> int:
    """1 KiB to align and Room::kBytes; by_parts: a matrix is added or kept, which takes a box of each part of a tile."""
    stages, boxes = (3, 4) if by_parts else (4, 2)
    slices = stages * (ROWS + COLUMNS) * DEPTH * 2
    return 1024 + slices + 2 * boxes * BOX + 2 * (COLUMNS * 2 + 64 * 4) + 8 * (2 * stages + 2)


def in_pairs(vector: torch.Tensor) -> torch.Tensor:
    """The vector itself, or a copy of one whose pairs of 2-byte elements do not lie on 4 bytes."""
    return vector.clone() if vector.data_ptr() % 4 else vector


def plan(
    a: torch.Tensor, b: torch.Tensor, y: torch.Tensor, added: torch.Tensor | None, kept: torch.Tensor | None,
    config: str | None,
) -> Plan:  # fmt: skip
    """How y (m, n), a (m, k) times the transpose of b (n, k), and what follows is launched."""

    def boxes(matrix: torch.Tensor | None) -> Any:
        value = y if matrix is None else matrix
        return cuda.tensor_map(value.t() if _boxes.turned(value) else value, (64, 64))

    flags = (_boxes.turned(a), _boxes.turned(b), added is not None, kept is not None)
    words = ", ".join(str(flag).lower() for flag in flags)
    pairs, columns = cdiv(a.shape[0], CLUSTER * ROWS), cdiv(b.shape[0], COLUMNS)
    clusters = min(pairs * columns, multiprocessors(a) // CLUSTER)
    return Plan(
        tuple(boxes(matrix) for matrix in (a, b, y, added, kept)), f"{words}, {(config or CONFIGS[0])[3:]}",
        CLUSTER * clusters, shared_bytes(any(flags[2:])), (pairs, columns, GROUP),
    )  # fmt: skip
