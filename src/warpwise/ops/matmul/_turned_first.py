"""The launcher of k25: factors that the copy engine cannot bring to k13 as they lie, turned or copied once."""

from __future__ import annotations

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops.matmul import _specialised
from warpwise.ops.matmul._padded import padded, pitch
from warpwise.ops.matmul._shared import HERE, sizes
from warpwise.ops.matmul._specialised import ALONG_DEPTH, ALONG_EXTENT, feed, in_boxes, with_lines

TURN = cuda.load(HERE / "k25_turned_first.cu")
SIDE = 64  # of a tile of the pass
PAYS = 768  # rows of a for which boxes save as much as the pass costs


def turned(lines: torch.Tensor) -> torch.Tensor:
    """``lines`` (rows, columns), float32 with its columns side by side, as (columns, rows) in rows that begin on 128 bytes."""
    rows, columns = lines.shape
    to = lines.new_empty((columns, pitch(rows, lines.element_size())))
    grid = cdiv(rows, SIDE) * cdiv(columns, SIDE)
    TURN["turn_words"][grid, (32, 8)](
        cuda.strided(lines), lines.stride(0), cuda.strided(to), to.shape[1], rows, columns
    )
    return to[:, :rows]


def copies(a: torch.Tensor, b: torch.Tensor) -> tuple[bool, bool]:
    """Whether a and b are to be copied: a b that does not come in boxes as it lies, and an a along m that does not."""
    return 1 in a.stride() and feed(a)[0] == ALONG_EXTENT, not in_boxes(b)


def turned_first(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    a, b = with_lines(a), with_lines(b)
    m, n, k = sizes(a, b)
    pad_a, pad_b = copies(a, b)
    if pad_b and feed(b.t())[0] == ALONG_DEPTH:
        b, pad_b = turned(b.t()), False
    ragged = [matrix for matrix, pad in ((a.t(), pad_a), (b, pad_b)) if pad]
    made = padded(*ragged) if ragged else []
    if pad_b:
        b = made.pop()[:k, :n]
    if pad_a:
        a = made.pop()[:k, :m].t()
    _specialised.warp_specialised(c, a, b, config or configs(a, b)[0])


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """k13's where the copy engine brings b."""
    return _specialised.ranked(*sizes(a, b), multiprocessors(a), True)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """k13's, and something to be copied."""
    if not any(copies(a, b)):
        return "takes factors that must be turned or copied for the copy engine; k13_warp_specialised takes these where they lie"
    return _specialised.limits(a, b)


def pays(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether, where k13 pays, the pass costs less than words do: a tenth of the products' time."""
    return a.shape[0] >= PAYS and not limits(a, b)
