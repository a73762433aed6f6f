"""Launchers of linear's kernels, what they are limited to and which tiles they take."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.ops import _boxes, _finished, _tiles
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops._plans import Plans
from warpwise.ops._repeated import Repeated
from warpwise.ops.linear.spec import ACTIVATIONS
from warpwise.ops.matmul import _hopper
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
WARPGROUPS = cuda.load(HERE / "k05_warpgroups.cu")
PRODUCT = Plans(MATMUL)  # asks matmul's table once for arguments of one description


class Layer(NamedTuple):
    """The arguments with all leading dimensions as one: x (m, k), w (n, k), residual (m, n); y and before likewise."""

    x: torch.Tensor
    w: torch.Tensor
    bias: torch.Tensor | None
    activation: str | None
    residual: torch.Tensor | None
    scale: torch.Tensor | None
    y: torch.Tensor
    before: torch.Tensor | None

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.x.shape[0], self.w.shape[0], self.x.shape[1]

    @property
    def residual_strides(self) -> tuple[int, int]:
        return (0, 0) if self.residual is None else (self.residual.stride(0), self.residual.stride(1))


def layer(outputs: tuple[torch.Tensor, torch.Tensor], *args: Any) -> Layer:
    """Small vectors are made contiguous; matrices stay where they lie, if their leading dimensions are one in memory too."""
    output, preactivation = outputs
    input, weight, bias, activation, residual, row_scale, keep = args
    m, n = math.prod(input.shape[:-1]), weight.shape[0]
    return Layer(
        input.reshape(m, input.shape[-1]), weight,
        None if bias is None else bias.contiguous(), activation,
        None if residual is None else residual.reshape(m, n),
        None if row_scale is None else row_scale.reshape(m).contiguous(),
        output.view(m, n), preactivation.view(m, n) if keep else None,
    )  # fmt: skip


# ---- limits


def sizes(input: torch.Tensor, weight: torch.Tensor) -> tuple[int, int, int]:
    return math.prod(input.shape[:-1]), weight.shape[0], weight.shape[1]


def grid_of_elements(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return _tiles.rows_of_grid(*sizes(input, weight), rows=8)


def grid_of_pass(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return _tiles.rows_of_grid(*sizes(input, weight), rows=16)


def grid_of_tiles(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return _tiles.grid_of_tiles(*sizes(input, weight))


def copy_engine(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, activation: Any, residual: torch.Tensor | None, *rest: Any
) -> str | None:
    """The limits of k04: a GPU with a copy engine, and matrices that it can address."""
    m, n, k = sizes(input, weight)
    if m * k == 0:
        return None  # no kernel runs
    unit = 16 // input.element_size()
    if n % unit:
        return f"takes out_features in multiples of {unit}, whose rows begin on 16 bytes, not {n}"
    if residual is not None:
        rows = residual.reshape(m, n)
        if reason := _boxes.boxable("residual", rows) or ("takes residual row by row" if _boxes.turned(rows) else None):
            return reason
    reason = _boxes.engine(input) or _boxes.boxable("input", input.reshape(m, k)) or _boxes.boxable("weight", weight)
    return reason or grid_of_tiles(input, weight)


def warpgroup_products(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    """The limits of k05: those of k04, on a Hopper GPU."""
    return not_hopper(input) or copy_engine(input, weight, *rest)


# ---- launchers


def thread_per_element(outputs: tuple[torch.Tensor, torch.Tensor], *args: Any) -> None:
    x, w, bias, activation, residual, scale, y, before = it = layer(outputs, *args)
    m, n, k = it.sizes
    kind = ACTIVATIONS.index(activation) + 1 if activation else 0
    kernel = THREAD_PER_ELEMENT[f"linear_thread_per_element<{cuda.ctype(x.dtype)}, {kind}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](
        cuda.strided(x), cuda.strided(w), bias, None if residual is None else cuda.strided(residual), scale,
        cuda.out(y), None if before is None else cuda.out(before), m, n, k,
        x.stride(0), x.stride(1), w.stride(0), w.stride(1), *it.residual_strides,
    )  # fmt: skip


def _finish(
    product: torch.Tensor, y: torch.Tensor, before: torch.Tensor | None, bias: torch.Tensor | None,
    residual: torch.Tensor | None, scale: torch.Tensor | None, activation: str | None,
) -> None:  # fmt: skip
    from warpwise.ops.linear.k02_triton_pass import linear_pass

    m, n = y.shape
    linear_pass[(cdiv(n, 128), cdiv(m, 16))](
        product, y, before, bias, residual, scale, m, n, *((0, 0) if residual is None else residual.stride()),
        ACTIVATION=activation, BLOCK_M=16, BLOCK_N=128, num_warps=4,
    )  # fmt: skip


PASS = Repeated(_finish)


def product_and_pass(outputs: tuple[torch.Tensor, torch.Tensor], *args: Any) -> None:
    x, w, bias, activation, residual, scale, y, before = layer(outputs, *args)
    if bias is activation is residual is scale is before is None and PRODUCT.fill(y, x, w.t()):
        return
    PASS(PRODUCT((x, w.t()), None), y, before, bias, residual, scale, activation)


def tiled_configs(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return _tiles.configs(input, *sizes(input, weight)[:2])


def triton_tiled(outputs: tuple[torch.Tensor, torch.Tensor], *args: Any, config: str | None = None) -> None:
    from warpwise.ops.linear.k03_triton_tiled import linear_tiled

    x, w, bias, activation, residual, scale, y, before = it = layer(outputs, *args)
    m, n, k = it.sizes
    tile = _tiles.named(config or tiled_configs(x, w)[0])
    linear_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](
        x, w, y, before, bias, residual, scale, m, n, k,
        x.stride(0), x.stride(1), w.stride(0), w.stride(1), *it.residual_strides,
        ACTIVATION=activation, BLOCK_M=tile.m, BLOCK_N=tile.n, BLOCK_K=tile.k, GROUP=8,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def boxes_configs(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, activation: Any, residual: torch.Tensor | None, *rest: Any
) -> tuple[str, ...]:
    """Every tile, the one that keeps the SMs busiest first; beside a residual those that leave room for half a tile of it."""
    ranked = _boxes.ranked(1, *sizes(input, weight), multiprocessors(input))
    return tuple(name for name in ranked if _boxes.fits(name, int(residual is not None)))


def triton_boxes(outputs: tuple[torch.Tensor, torch.Tensor], *args: Any, config: str | None = None) -> None:
    from warpwise.ops.linear.k04_triton_copy_engine import linear_boxes

    x, w, bias, activation, residual, scale, y, before = it = layer(outputs, *args)
    m, n, k = it.sizes
    boxes = _boxes.named(config or boxes_configs(*args)[0])
    programs = _boxes.programs(boxes, cdiv(m, boxes.m) * cdiv(n, boxes.n), x)
    half = (boxes.m, boxes.n // 2)
    linear_boxes[(programs,)](
        _boxes.described(x, (boxes.m, boxes.k)), _boxes.described(w, (boxes.n, boxes.k)), cuda.out(_boxes.described(y, half)),
        None if before is None else cuda.out(_boxes.described(before, half)),
        None if residual is None else _boxes.described(residual, half), bias, scale, m, n, k, programs,
        X_TURNED=_boxes.turned(x), W_TURNED=_boxes.turned(w), ACTIVATION=activation,
        BLOCK_M=boxes.m, BLOCK_N=boxes.n, BLOCK_K=boxes.k, GROUP=8, num_warps=boxes.warps, num_stages=boxes.stages,
    )  # fmt: skip


def warpgroups_configs(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return _hopper.ranked(*sizes(input, weight), multiprocessors(input))


def warpgroups(outputs: tuple[torch.Tensor, torch.Tensor], *args: Any, config: str | None = None) -> None:
    x, w, bias, activation, residual, scale, y, before = it = layer(outputs, *args)
    kind = ACTIVATIONS.index(activation) + 1 if activation else 0
    plan = _finished.plan(x, w, y, residual, before, config)
    flags = _finished.words(residual is not None, before is not None)
    kernel = WARPGROUPS[f"linear_warpgroups<{plan.cut}, {kind}, {flags}>"]
    kernel[plan.launch](*plan.maps, None if bias is None else _finished.in_pairs(bias), scale, *it.sizes, *plan.order)
