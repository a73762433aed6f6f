"""The ladder of connected_components, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.connected_components.spec import DTYPES, SPEC

HERE = Path(__file__).parent
THREADS, BLOCKS_AN_SM, MOST_POINTS = 256, 4, 2**30

PROPAGATION = cuda.load(HERE / "k01_propagation.cu")
UNION_FIND = cuda.load(HERE / "k02_union_find.cu")


def propagation(output: torch.Tensor, labels: torch.Tensor, rowptr: torch.Tensor, columns: torch.Tensor) -> None:
    n = len(labels)
    if not n:
        return
    grid = min(BLOCKS_AN_SM * sm_count(labels), cdiv(n, THREADS))
    root, following = torch.empty_like(output), torch.empty_like(output)
    launch = PROPAGATION["components_propagation"][grid, THREADS]
    launch(labels, rowptr, columns, root, following, cuda.out(output), labels.new_zeros(3), n)


def union_find(output: torch.Tensor, labels: torch.Tensor, rowptr: torch.Tensor, columns: torch.Tensor) -> None:
    n = len(labels)
    if not n:
        return
    blocks, parent = cdiv(n, THREADS), torch.empty_like(output)
    UNION_FIND["components_first_parents"][blocks, THREADS](labels, rowptr, columns, parent, n)
    UNION_FIND["components_link"][blocks, THREADS](labels, rowptr, columns, parent, n)
    UNION_FIND["components_roots"][blocks, THREADS](parent, cuda.out(output), n)


def limits(labels: torch.Tensor, rowptr: torch.Tensor, columns: torch.Tensor) -> str | None:
    if columns.dtype != torch.int32:
        return f"takes a graph of int32, not {columns.dtype}"
    return f"takes up to {MOST_POINTS} points, not {len(labels)}" if len(labels) > MOST_POINTS else None


RUNGS = (
    make_rung(HERE, "k01_propagation", "the smallest number of the neighbours, round after round", propagation,
              dtypes=DTYPES, limits=limits),
    make_rung(HERE, "k02_union_find", "a forest whose roots are linked by atomic minima, without rounds", union_find,
              dtypes=DTYPES, limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k02: PyTorch makes passes over all edges until none changes, and synchronises after each."""
    return first_taking(SPEC, RUNGS, args, "k02_union_find")
