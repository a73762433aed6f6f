"""The ladder of potts_m_step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung
from warpwise.ops._defaults import first_taking
from warpwise.ops.potts_m_step.spec import DTYPES, SPEC

HERE = Path(__file__).parent
THREADS, SIDE, WIDTH = 256, 16, 128  # kThreads, kSide and kWidth of k01
SHARED = 216 * 1024  # bytes of dynamic shared memory per block, besides 4 KB of static

BLOCK_PER_RESTART = cuda.load(HERE / "k01_block_per_restart.cu")


def shared_bytes(domains: int, width: int) -> int:
    return 8 * (width * width + domains)


def block_per_restart(
    outputs: tuple[torch.Tensor | None, ...], counts: torch.Tensor, sums: torch.Tensor, total: torch.Tensor,
    previous: torch.Tensor, n_points: int, ridge: float, derivatives: Any, beta: Any, highest_beta: float,
) -> None:  # fmt: skip
    restarts, domains, width = sums.shape
    if not restarts:
        return
    tiles = 1 << (cdiv(width, SIDE) - 1).bit_length()
    kernel = BLOCK_PER_RESTART[f"potts_m_step_block_per_restart<{tiles}>"]
    launch = kernel[restarts, THREADS, shared_bytes(domains, width)]
    launch(counts, sums, total, previous, derivatives, None if derivatives is None else beta,
           *(None if output is None else cuda.out(output) for output in outputs), float(n_points), ridge, highest_beta,
           domains, width)  # fmt: skip


def limits(counts: torch.Tensor, sums: torch.Tensor, *rest: Any) -> str | None:
    domains, width = sums.shape[1:]
    if width > WIDTH or shared_bytes(domains, width) > SHARED:
        return f"takes up to {WIDTH} features and {SHARED} bytes of covariance, not {domains} x {width}"
    return None


RUNGS = (
    make_rung(HERE, "k01_block_per_restart", "one block per restart, the inverse in registers", block_per_restart,
              dtypes=DTYPES, limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k01 where it fits: PyTorch takes some 25 launches."""
    return first_taking(SPEC, RUNGS, args, "k01_block_per_restart")
