"""Launchers of linear's kernels, what they are limited to and which tiles they take."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise import triton as wt
from warpwise.ops import _boxes
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops.linear.spec import ACTIVATIONS
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
SIDE = 2**31 - 1024  # row, column and depth are 32 bits, and reach up to a tile past the end
GRID_Y = 65535

TILED = ("128x256x64_s3_w8", "128x128x64_s4_w8", "64x64x64_s4_w4")


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


class Tile(NamedTuple):
    """A configuration: a tile of the output, the depth of a slice, stages of the ring of slices, warps."""

    m: int
    n: int
    k: int
    stages: int
    warps: int


def tile_of(config: str) -> Tile:
    """The tile that "128x256x64_s3_w8" names."""
    sizes, stages, warps = config.split("_")
    m, n, k = (int(size) for size in sizes.split("x"))
    return Tile(m, n, k, int(stages[1:]), int(warps[1:]))


def first(preferred: str, configs: tuple[str, ...]) -> tuple[str, ...]:
    return (preferred, *(name for name in configs if name != preferred))


# ---- limits


def _sizes(input: torch.Tensor, weight: torch.Tensor) -> tuple[int, int, int]:
    return math.prod(input.shape[:-1]), weight.shape[0], weight.shape[1]


def too_large(input: torch.Tensor, weight: torch.Tensor) -> str | None:
    for name, size in zip(("rows", "out_features", "in_features"), _sizes(input, weight), strict=True):
        if size > SIDE:
            return f"takes up to {SIDE} {name}, not {size}"
    return None


def grid_of_elements(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    m = _sizes(input, weight)[0]
    return f"takes up to {8 * GRID_Y} rows (grid.y is 16 bits), not {m}" if m > 8 * GRID_Y else too_large(input, weight)


def grid_of_pass(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    m = _sizes(input, weight)[0]
    return (
        f"takes up to {16 * GRID_Y} rows (grid.y is 16 bits), not {m}" if m > 16 * GRID_Y else too_large(input, weight)
    )


def grid_of_tiles(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    m, n, _ = _sizes(input, weight)
    tiles = cdiv(m, 64) * cdiv(n, 64)
    return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}" if tiles >= 2**31 else too_large(input, weight)


def is_hopper(tensor: torch.Tensor) -> bool:
    return torch.cuda.get_device_capability(tensor.device) == (9, 0)


def copy_engine(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, activation: Any, residual: torch.Tensor | None, *rest: Any
) -> str | None:
    """The limits of k04: a GPU with a copy engine, and matrices that it can address."""
    m, n, k = _sizes(input, weight)
    unit = 16 // input.element_size()
    if n % unit:
        return f"takes out_features in multiples of {unit}, whose rows begin on 16 bytes, not {n}"
    if residual is not None:
        rows = residual.reshape(m, n)
        if reason := _boxes.boxable("residual", rows) or ("takes residual row by row" if _boxes.turned(rows) else None):
            return reason
    reason = _boxes.engine(input) or _boxes.boxable("input", input.reshape(m, k)) or _boxes.boxable("weight", weight)
    return reason or grid_of_tiles(input, weight)


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


def product_and_pass(outputs: tuple[torch.Tensor, torch.Tensor], *args: Any) -> None:
    from warpwise.ops.linear.k02_triton_pass import linear_pass

    x, w, bias, activation, residual, scale, y, before = it = layer(outputs, *args)
    m, n, _ = it.sizes
    product = MATMUL(x, w.t())
    linear_pass[(cdiv(n, 128), cdiv(m, 16))](
        product, y, before, bias, residual, scale, m, n, *it.residual_strides,
        ACTIVATION=activation, BLOCK_M=16, BLOCK_N=128, num_warps=4,
    )  # fmt: skip


def tiled_configs(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    """float32 sums take the CUDA cores, whose tiles are small; large tiles where they fill the GPU and its memory."""
    m, n, _ = _sizes(input, weight)
    if input.dtype == torch.float32:
        return ("64x64x32_s3_w4",)
    fit = _shared_bytes(input) >= 3 * 2 * 64 * (128 + 256)
    if fit and cdiv(m, 128) * cdiv(n, 256) >= multiprocessors(input):
        return TILED
    return first(TILED[2], TILED if fit else TILED[2:])


def _shared_bytes(tensor: torch.Tensor) -> int:
    """Shared memory that a block may ask for on the tensor's GPU; none is needed on a CPU."""
    if not tensor.is_cuda:
        return 0
    properties: Any = torch.cuda.get_device_properties(tensor.device)
    return int(properties.shared_memory_per_block_optin)


def triton_tiled(outputs: tuple[torch.Tensor, torch.Tensor], *args: Any, config: str | None = None) -> None:
    from warpwise.ops.linear.k03_triton_tiled import linear_tiled

    x, w, bias, activation, residual, scale, y, before = it = layer(outputs, *args)
    m, n, k = it.sizes
    tile = tile_of(config or tiled_configs(x, w)[0])
    linear_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](
        x, w, y, before, bias, residual, scale, m, n, k,
        x.stride(0), x.stride(1), w.stride(0), w.stride(1), *it.residual_strides,
        ACTIVATION=activation, BLOCK_M=tile.m, BLOCK_N=tile.n, BLOCK_K=tile.k, GROUP=8,
        num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip


def boxes_configs(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    """Every tile, the one that keeps the SMs busiest first."""
    m, n, _ = _sizes(input, weight)
    return tuple(boxes.name for boxes in _boxes.ranked(1, m, n, multiprocessors(input)))


def triton_boxes(outputs: tuple[torch.Tensor, torch.Tensor], *args: Any, config: str | None = None) -> None:
    from warpwise.ops.linear.k04_triton_copy_engine import linear_boxes

    x, w, bias, activation, residual, scale, y, before = it = layer(outputs, *args)
    m, n, k = it.sizes
    tile = _boxes.named(config or boxes_configs(x, w)[0])
    programs = _boxes.programs(tile, cdiv(m, tile.m) * cdiv(n, tile.n), x)
    half = (tile.m, tile.n // 2)
    linear_boxes[(programs,)](
        _boxes.described(x, (tile.m, tile.k)), _boxes.described(w, (tile.n, tile.k)), wt.out(_boxes.described(y, half)),
        None if before is None else wt.out(_boxes.described(before, half)),
        None if residual is None else _boxes.described(residual, half), bias, scale, m, n, k, programs,
        X_TURNED=_boxes.turned(x), W_TURNED=_boxes.turned(w), ACTIVATION=activation,
        BLOCK_M=tile.m, BLOCK_N=tile.n, BLOCK_K=tile.k, GROUP=8, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
