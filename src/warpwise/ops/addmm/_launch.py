"""Launchers of addmm's kernels, what they are limited to and which tiles they take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.ops import _boxes, _finished, _tiles
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops._plans import Plans
from warpwise.ops._repeated import Repeated
from warpwise.ops.matmul import _hopper
from warpwise.ops.matmul._shared import sizes
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
WARPGROUPS = cuda.load(HERE / "k05_warpgroups.cu")
PRODUCT = Plans(MATMUL)  # asks matmul's table once for arguments of one description


# ---- limits


def grid_of_elements(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return _tiles.rows_of_grid(*sizes(a, b), rows=8)


def grid_of_pass(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return _tiles.rows_of_grid(*sizes(a, b), rows=16)


def grid_of_tiles(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return _tiles.grid_of_tiles(*sizes(a, b))


def copy_engine(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    """The limits of k04: a GPU with a copy engine, and factors that it can address."""
    if a.numel() == 0:
        return None  # no kernel runs
    unit = 16 // a.element_size()
    if b.shape[1] % unit:
        return f"takes n in multiples of {unit}, so that rows of the result begin on 16 bytes, not {b.shape[1]}"
    reason = _boxes.engine(a) or _boxes.boxable("a", a) or _boxes.boxable("b", b)
    return reason or grid_of_tiles(input, a, b)


def warpgroup_products(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> str | None:
    """The limits of k05: those of k04 on a Hopper GPU, and an input that is a matrix in boxes or a row."""
    if reason := not_hopper(a) or copy_engine(input, a, b):
        return reason
    if beta == 0 or _is_row(input, b) or (input.shape == sizes(a, b)[:2] and _boxed(input)):
        return None
    return "takes an input that is a row, or a matrix whose rows begin on 16 bytes"


# ---- launchers


def _added(input: torch.Tensor, result: torch.Tensor) -> tuple[torch.Tensor, int, int]:
    """The input as a matrix of the result's shape, whose strides are 0 where it is broadcast."""
    c = input.expand(result.shape)
    return c, c.stride(0), c.stride(1)


def thread_per_element(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> None:
    m, n, k = sizes(a, b)
    c, *c_strides = _added(input, result)
    kernel = THREAD_PER_ELEMENT[f"addmm_thread_per_element<{cuda.ctype(a.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](
        cuda.strided(a), cuda.strided(b), cuda.strided(c), cuda.out(result), m, n, k, alpha, beta,
        *a.stride(), *b.stride(), *c_strides,
    )  # fmt: skip


def _add(product: torch.Tensor, input: torch.Tensor, result: torch.Tensor, beta: float, alpha: float) -> None:
    from warpwise.ops.addmm.k02_triton_pass import addmm_pass

    m, n = result.shape
    addmm_pass[(cdiv(n, 128), cdiv(m, 16))](
        product, input, result, m, n, alpha, beta, *_added(input, result)[1:],
        ADDS=beta != 0, BLOCK_M=16, BLOCK_N=128, num_warps=4,
    )  # fmt: skip


PASS = Repeated(_add)


def product_and_pass(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> None:
    PASS(PRODUCT((a, b), None), input, result, beta, alpha)


def tiled_configs(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return _tiles.configs(a, *sizes(a, b)[:2])


def triton_tiled(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float,
    config: str | None = None,
) -> None:  # fmt: skip
    from warpwise.ops.addmm.k03_triton_tiled import addmm_tiled

    m, n, k = sizes(a, b)
    tile = _tiles.named(config or tiled_configs(input, a, b)[0])
    addmm_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](
        a, b, input, result, m, n, k, alpha, beta, *a.stride(), *b.stride(), *_added(input, result)[1:],
        ADDS=beta != 0, BLOCK_M=tile.m, BLOCK_N=tile.n, BLOCK_K=tile.k, GROUP=8,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def _boxed(input: torch.Tensor) -> bool:
    """Whether the input is a whole matrix that the copy engine can bring, row by row."""
    return input.dim() == 2 and not _boxes.turned(input) and _boxes.boxable("input", input) is None


def boxes_configs(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    """Every tile, the one that keeps the SMs busiest first; beside a whole input those that leave room for half a tile of it."""
    whole = input.shape == sizes(a, b)[:2]
    return tuple(name for name in _boxes.ranked(1, *sizes(a, b), multiprocessors(a)) if _boxes.fits(name, int(whole)))


def triton_boxes(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float,
    config: str | None = None,
) -> None:  # fmt: skip
    from warpwise.ops.addmm.k04_triton_copy_engine import addmm_boxes

    m, n, k = sizes(a, b)
    boxes = _boxes.named(config or boxes_configs(input, a, b)[0])
    programs = _boxes.programs(boxes, cdiv(m, boxes.m) * cdiv(n, boxes.n), a)
    half = (boxes.m, boxes.n // 2)
    whole = beta != 0 and input.shape == result.shape and _boxed(input)
    addmm_boxes[(programs,)](
        _boxes.described(a, (boxes.m, boxes.k)), _boxes.described(b, (boxes.k, boxes.n)),
        _boxes.described(input, half) if whole else None, input if beta != 0 and not whole else None,
        cuda.out(_boxes.described(result, half)), m, n, k, alpha, beta, *_added(input, result)[1:], programs,
        A_TURNED=_boxes.turned(a), B_TURNED=_boxes.turned(b),
        BLOCK_M=boxes.m, BLOCK_N=boxes.n, BLOCK_K=boxes.k, GROUP=8, num_warps=boxes.warps, num_stages=boxes.stages,
    )  # fmt: skip


def _is_row(input: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether one contiguous row is added to all rows."""
    return input.dim() > 0 and input.numel() == input.shape[-1] == b.shape[1] and input.is_contiguous()


def warpgroups_configs(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return _hopper.ranked(*sizes(a, b), multiprocessors(a))


def warpgroups(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float,
    config: str | None = None,
) -> None:  # fmt: skip
    row = _finished.in_pairs(input).view(-1) if beta != 0 and _is_row(input, b) else None
    added = input if beta != 0 and row is None else None
    plan = _finished.plan(a, b.t(), result, added, None, config)
    kernel = WARPGROUPS[f"addmm_warpgroups<{plan.cut}, {_finished.words(added is not None)}>"]
    kernel[plan.launch](*plan.maps[:4], row, alpha, beta, *sizes(a, b), *plan.order)
