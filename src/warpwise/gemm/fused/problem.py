"""The arguments of a matrix multiplication with an epilogue, and the rungs that linear and addmm share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise.gemm import boxes, cluster_split_k, limits, persistent
from warpwise.gemm.fused import k05_warpgroups, k06_cluster_split_k
from warpwise.gemm.lazy import lazy_launch
from warpwise.gemm.operands import sizes
from warpwise.operation import Op, Rung, make_rung, sm_count

HERE = Path(__file__).parent
HALVES = (torch.float16, torch.bfloat16)
Optional = torch.Tensor | None


class Operands(NamedTuple):
    """a (m, k), b (k, n), any strides; ``source`` (m, n) or what broadcasts to it, added at the end."""

    a: torch.Tensor
    b: torch.Tensor
    source: Optional


class Problem(NamedTuple):
    """result = activation(alpha * row_scale * (a b) + bias) + beta * source, all (m, n); ``kept`` is the activation's
    argument. bias: (n,), row_scale: (m,), contiguous; source: strides are 0 where it is broadcast. None: absent, or a
    factor of 1."""

    a: torch.Tensor
    b: torch.Tensor
    result: torch.Tensor
    kept: Optional = None
    bias: Optional = None
    row_scale: Optional = None
    activation: str | None = None
    source: Optional = None
    alpha: float | None = None
    beta: float | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n and k."""
        return sizes(self.a, self.b)

    @property
    def source_strides(self) -> tuple[int, int]:
        return (0, 0) if self.source is None else (self.source.stride(0), self.source.stride(1))


def tma_limit(a: torch.Tensor, b: torch.Tensor, names: tuple[str, str, str]) -> str | None:
    """Why TMA cannot load a and b and store the result, or None; ``names``: of a, b and n in the message."""
    if reason := limits.requires_k(a.shape[1]):
        return reason
    unit = 16 // a.element_size()
    if b.shape[1] % unit:
        return f"takes {names[2]} in multiples of {unit}, whose rows begin on 16 bytes, not {b.shape[1]}"
    reason = limits.requires_tma(a) or boxes.tma_limit(names[0], a) or boxes.tma_limit(names[1], b)
    return reason or limits.grid_of_tiles(a, b)


def rungs(
    problem: Callable[..., Problem],
    operands: Callable[..., Operands],
    tma_limits: Callable[..., str | None],
    warpgroup_limits: Callable[..., str | None],
    multiply: Op,
) -> tuple[Rung, ...]:
    """k02 to k06 of an operation: ``problem(outputs, *args)`` and ``operands(*args)`` convert its arguments.

    ``multiply`` is the operation that k02 calls: the matrix multiplication alone.
    """

    def launch(name: str, *more: Any) -> Callable[..., None]:
        inner = lazy_launch(f"{__package__}.{name}")
        return lambda outputs, *args, **options: inner(problem(outputs, *args), *more, **options)

    def warpgroups(outputs: Any, *args: Any, config: str | None = None) -> None:
        k05_warpgroups.launch(problem(outputs, *args), config)

    def split(outputs: Any, *args: Any, config: str | None = None) -> None:
        k06_cluster_split_k.launch(problem(outputs, *args), config)

    def split_limits(*args: Any) -> str | None:
        return cluster_split_k.limits(*operands(*args)[:2])

    def split_configs(*args: Any) -> tuple[str, ...]:
        return cluster_split_k.configs(*operands(*args)[:2])

    def grid_of_pass(*args: Any) -> str | None:
        return limits.rows_limit(*sizes(*operands(*args)[:2]), rows=16)

    def grid_of_tiles(*args: Any) -> str | None:
        return limits.tiles_limit(*sizes(*operands(*args)[:2]))

    def tiled_configs(*args: Any) -> tuple[str, ...]:
        a, b, _ = operands(*args)
        return boxes.pointer_configs(a, *sizes(a, b))

    def tma_configs(*args: Any) -> tuple[str, ...]:
        """With a whole matrix as source, the tiles that leave shared memory for half a tile of it."""
        a, b, source = operands(*args)
        m, n, k = sizes(a, b)
        return boxes.configs(1, m, n, k, sm_count(a), int(source is not None and source.shape == (m, n)))

    def configs(*args: Any) -> tuple[str, ...]:
        return persistent.configs(*operands(*args)[:2])

    return (
        make_rung(HERE, "k02_triton_pass", "matmul's fastest product, then one pass over it",
                  launch("k02_triton_pass", multiply), dtypes=(torch.float32,), limits=grid_of_pass, strided=True),
        make_rung(HERE, "k03_triton_tiled", "tiles in Triton, the epilogue in registers, any strides",
                  launch("k03_triton_tiled"), dtypes=(torch.float32, *HALVES), limits=grid_of_tiles, strided=True,
                  configs=tiled_configs),
        make_rung(HERE, "k04_triton_tma", "Hopper through Triton: operands by TMA, persistent programs",
                  launch("k04_triton_tma"), dtypes=HALVES, limits=tma_limits, strided=True, configs=tma_configs),
        make_rung(HERE, "k05_warpgroups",
                  "Hopper in CUDA: an epilogue of few instructions, overlapped with the next tile's products",
                  warpgroups, dtypes=HALVES, limits=warpgroup_limits, strided=True, devices=("cuda",), configs=configs),
        make_rung(HERE, "k06_cluster_split_k", "few tiles: the blocks of a cluster divide K; any layout and alignment",
                  split, dtypes=(torch.float32, *HALVES), limits=split_limits, strided=True, configs=split_configs),
    )  # fmt: skip
