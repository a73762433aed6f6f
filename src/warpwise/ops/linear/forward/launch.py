"""Launchers of linear's kernels, their limits and their configurations."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm import boxes, tiles
from warpwise.gemm import config as gemm_config
from warpwise.gemm import limits as gemm_limits
from warpwise.gemm.epilogue import aligned_pairs, epilogue_launch
from warpwise.gemm.operands import flags
from warpwise.operation import cdiv, sm_count
from warpwise.ops.linear.spec import ACTIVATIONS
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
WARPGROUPS = cuda.load(HERE / "k05_warpgroups.cu")


class Layer(NamedTuple):
    """The arguments with leading dimensions flattened: x (m, k), w (n, k); residual, y and preactivation (m, n)."""

    x: torch.Tensor
    w: torch.Tensor
    bias: torch.Tensor | None
    activation: str | None
    residual: torch.Tensor | None
    scale: torch.Tensor | None
    y: torch.Tensor
    preactivation: torch.Tensor | None

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.x.shape[0], self.w.shape[0], self.x.shape[1]

    @property
    def residual_strides(self) -> tuple[int, int]:
        return (0, 0) if self.residual is None else (self.residual.stride(0), self.residual.stride(1))


Outputs = tuple[torch.Tensor, torch.Tensor | None]


def layer(outputs: Outputs, *args: Any) -> Layer:
    """Vectors are made contiguous; a matrix is copied only if its leading dimensions cannot be flattened in place."""
    output, preactivation = outputs
    input, weight, bias, activation, residual, row_scale, _ = args
    m, n = math.prod(input.shape[:-1]), weight.shape[0]
    return Layer(
        input.reshape(m, input.shape[-1]),
        weight,
        None if bias is None else bias.contiguous(),
        activation,
        None if residual is None else residual.reshape(m, n),
        None if row_scale is None else row_scale.reshape(m).contiguous(),
        output.view(m, n),
        None if preactivation is None else preactivation.view(m, n),
    )


# ---- limits


def sizes(input: torch.Tensor, weight: torch.Tensor) -> tuple[int, int, int]:
    return math.prod(input.shape[:-1]), weight.shape[0], weight.shape[1]


def grid_of_elements(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.rows_limit(*sizes(input, weight), rows=8)


def grid_of_pass(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.rows_limit(*sizes(input, weight), rows=16)


def grid_of_tiles(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.tiles_limit(*sizes(input, weight))


def tma_limits(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, activation: Any, residual: torch.Tensor | None, *rest: Any
) -> str | None:
    """k04's: a GPU with TMA, and matrices that it can address."""
    m, n, k = sizes(input, weight)
    if reason := gemm_limits.requires_k(k):
        return reason
    unit = 16 // input.element_size()
    if n % unit:
        return f"takes out_features in multiples of {unit}, whose rows begin on 16 bytes, not {n}"
    if residual is not None:
        rows = residual.reshape(m, n)
        reason = boxes.tma_limit("residual", rows)
        if reason or boxes.transposed(rows):
            return reason or "takes residual with contiguous rows"
    rows = input.reshape(m, k)
    reason = gemm_limits.requires_tma(input) or boxes.tma_limit("input", rows) or boxes.tma_limit("weight", weight)
    return reason or grid_of_tiles(input, weight)


def warpgroups_limits(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    """k05's: those of k04, and a Hopper GPU."""
    return gemm_limits.requires_hopper(input) or tma_limits(input, weight, *rest)


# ---- launchers


def thread_per_element(outputs: Outputs, *args: Any) -> None:
    x, w, bias, activation, residual, scale, y, preactivation = it = layer(outputs, *args)
    m, n, k = it.sizes
    kind = ACTIVATIONS.index(activation) + 1 if activation else 0
    kernel = THREAD_PER_ELEMENT[f"linear_thread_per_element<{cuda.ctype(x.dtype)}, {kind}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](
        cuda.strided(x),
        cuda.strided(w),
        bias,
        None if residual is None else cuda.strided(residual),
        scale,
        cuda.out(y),
        None if preactivation is None else cuda.out(preactivation),
        m,
        n,
        k,
        x.stride(0),
        x.stride(1),
        w.stride(0),
        w.stride(1),
        *it.residual_strides,
    )


def _epilogue(
    product: torch.Tensor,
    y: torch.Tensor,
    preactivation: torch.Tensor | None,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    scale: torch.Tensor | None,
    activation: str | None,
) -> None:
    from warpwise.ops.linear.forward.k02_triton_pass import linear_pass

    m, n = y.shape
    linear_pass[(cdiv(n, 128), cdiv(m, 16))](
        product,
        y,
        preactivation,
        bias,
        residual,
        scale,
        m,
        n,
        *((0, 0) if residual is None else residual.stride()),
        ACTIVATION=activation,
        BLOCK_M=16,
        BLOCK_N=128,
        num_warps=4,
    )


def product_and_pass(outputs: Outputs, *args: Any) -> None:
    x, w, bias, activation, residual, scale, y, preactivation = layer(outputs, *args)
    alone = bias is activation is residual is scale is preactivation is None
    product = y if alone else torch.empty_like(y)
    filled = MATMUL.fill((product,), x, w.t())
    if not (alone and filled):
        product = product if filled else MATMUL.spec.eager(x, w.t())
        _epilogue(product, y, preactivation, bias, residual, scale, activation)


def tiled_configs(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return tiles.configs(input, *sizes(input, weight)[:2])


def triton_tiled(outputs: Outputs, *args: Any, config: str | None = None) -> None:
    from warpwise.ops.linear.forward.k03_triton_tiled import linear_tiled

    x, w, bias, activation, residual, scale, y, preactivation = it = layer(outputs, *args)
    m, n, k = it.sizes
    tile = tiles.named(config or tiled_configs(x, w)[0])
    linear_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](
        x,
        w,
        y,
        preactivation,
        bias,
        residual,
        scale,
        m,
        n,
        k,
        x.stride(0),
        x.stride(1),
        w.stride(0),
        w.stride(1),
        *it.residual_strides,
        ACTIVATION=activation,
        BLOCK_M=tile.m,
        BLOCK_N=tile.n,
        BLOCK_K=tile.k,
        GROUP=8,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def tma_configs(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, activation: Any, residual: torch.Tensor | None, *rest: Any
) -> tuple[str, ...]:
    """Every tile, the fastest by ``BoxTile.time`` first; with a residual those that leave room for half a tile of it."""
    ranked = boxes.ranked(1, *sizes(input, weight), sm_count(input))
    return tuple(name for name in ranked if boxes.fits(name, int(residual is not None)))


def triton_tma(outputs: Outputs, *args: Any, config: str | None = None) -> None:
    from warpwise.ops.linear.forward.k04_triton_tma import linear_tma

    x, w, bias, activation, residual, scale, y, preactivation = it = layer(outputs, *args)
    m, n, k = it.sizes
    tile = boxes.named(config or tma_configs(*args)[0])
    programs = boxes.programs(tile, cdiv(m, tile.m) * cdiv(n, tile.n), x)
    half = (tile.m, tile.n // 2)
    linear_tma[(programs,)](
        boxes.descriptor(x, (tile.m, tile.k)),
        boxes.descriptor(w, (tile.n, tile.k)),
        cuda.out(boxes.descriptor(y, half)),
        None if preactivation is None else cuda.out(boxes.descriptor(preactivation, half)),
        None if residual is None else boxes.descriptor(residual, half),
        bias,
        scale,
        m,
        n,
        k,
        programs,
        X_TRANSPOSED=boxes.transposed(x),
        W_TRANSPOSED=boxes.transposed(w),
        ACTIVATION=activation,
        BLOCK_M=tile.m,
        BLOCK_N=tile.n,
        BLOCK_K=tile.k,
        GROUP=8,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def warpgroups_configs(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return gemm_config.ranked(*sizes(input, weight), sm_count(input))


def warpgroups(outputs: Outputs, *args: Any, config: str | None = None) -> None:
    x, w, bias, activation, residual, scale, y, preactivation = it = layer(outputs, *args)
    kind = ACTIVATIONS.index(activation) + 1 if activation else 0
    plan = epilogue_launch(x, w, y, residual, preactivation, config)
    template = flags(residual is not None, preactivation is not None)
    kernel = WARPGROUPS[f"linear_warpgroups<{plan.parameters}, {kind}, {template}>"]
    kernel[plan.launch](*plan.maps, None if bias is None else aligned_pairs(bias), scale, *it.sizes, *plan.tiles)
