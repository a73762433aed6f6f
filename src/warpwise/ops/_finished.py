"""Launches of `warpwise/sm90/gemm_epilogue.cuh`: Hopper's products whose sums are finished before they leave."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.ops import _boxes
from warpwise.ops.matmul import _hopper
from warpwise.ops.matmul._hopper import Cut


class Plan(NamedTuple):
    """Maps of a, b, y, what is added and what is kept; the template arguments of the cut; how it is launched."""

    maps: tuple[Any, ...]
    cut: str
    launch: tuple[int, int, int]  # blocks, threads, bytes of shared memory
    order: tuple[int, int, int]  # of tiles


def shared_bytes(cut: Cut) -> int:
    """gemm_epilogue_shared of the header: what a cut of k20 takes; a bias, factors of rows and barriers for each warpgroup."""
    width = cut.columns // cut.groups[1]
    return cut.shared + cut.warpgroups * (width * 2 + 64 * 4 + 2 * 8)


def in_pairs(vector: torch.Tensor) -> torch.Tensor:
    """The vector itself, or a copy of one whose pairs of 2-byte elements do not lie on 4 bytes."""
    return vector.clone() if vector.data_ptr() % 4 else vector


def words(*flags: bool) -> str:
    """Flags as template arguments."""
    return ", ".join(str(flag).lower() for flag in flags)


def plan(
    a: torch.Tensor, b: torch.Tensor, y: torch.Tensor, added: torch.Tensor | None, kept: torch.Tensor | None,
    config: str | None,
) -> Plan:  # fmt: skip
    """How y (m, n), a (m, k) times the transpose of b (n, k), and what follows is launched."""
    cut, (blocks, threads, _), order = _hopper.laid(a, b.t(), config)

    def boxes(matrix: torch.Tensor | None) -> Any:
        value = y if matrix is None else matrix
        return cuda.tensor_map(value.t() if _boxes.turned(value) else value, (64, 64))

    return Plan(
        tuple(boxes(matrix) for matrix in (a, b, y, added, kept)),
        cut.parameters(a.dtype, _boxes.turned(a), _boxes.turned(b)),
        (blocks, threads, shared_bytes(cut)), order,
    )  # fmt: skip
