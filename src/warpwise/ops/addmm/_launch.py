"""Launchers of addmm's kernels, their limits and their configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm import boxes, tiles
from warpwise.gemm import config as gemm_config
from warpwise.gemm import limits as gemm_limits
from warpwise.gemm.epilogue import aligned_pairs, epilogue_launch
from warpwise.gemm.operands import flags, sizes
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul.op import MATMUL

HERE = Path(__file__).parent
THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
WARPGROUPS = cuda.load(HERE / "k05_warpgroups.cu")


# ---- limits


def grid_of_elements(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.rows_limit(*sizes(a, b), rows=8)


def grid_of_pass(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.rows_limit(*sizes(a, b), rows=16)


def grid_of_tiles(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.tiles_limit(*sizes(a, b))


def tma_limits(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    """k04's: a GPU with TMA, and operands that it can address."""
    if reason := gemm_limits.requires_k(a.shape[1]):
        return reason
    unit = 16 // a.element_size()
    if b.shape[1] % unit:
        return f"takes n in multiples of {unit}, so that rows of the result begin on 16 bytes, not {b.shape[1]}"
    reason = gemm_limits.requires_tma(a) or boxes.tma_limit("a", a) or boxes.tma_limit("b", b)
    return reason or grid_of_tiles(input, a, b)


def warpgroups_limits(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> str | None:
    """k05's: those of k04, a Hopper GPU, and an input that is a row, or a matrix that TMA can address."""
    if reason := gemm_limits.requires_hopper(a) or tma_limits(input, a, b):
        return reason
    if beta == 0 or _is_row(input, b) or (input.shape == sizes(a, b)[:2] and _boxed(input)):
        return None
    return "takes an input that is a row, or a matrix whose rows begin on 16 bytes"


# ---- launchers


def _added(input: torch.Tensor, result: torch.Tensor) -> tuple[torch.Tensor, int, int]:
    """The input expanded to the result's shape, and its strides, 0 where it is broadcast."""
    c = input.expand(result.shape)
    return c, c.stride(0), c.stride(1)


def thread_per_element(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> None:
    m, n, k = sizes(a, b)
    c, *c_strides = _added(input, result)
    kernel = THREAD_PER_ELEMENT[f"addmm_thread_per_element<{cuda.ctype(a.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](
        cuda.strided(a),
        cuda.strided(b),
        cuda.strided(c),
        cuda.out(result),
        m,
        n,
        k,
        alpha,
        beta,
        *a.stride(),
        *b.stride(),
        *c_strides,
    )


def _add(product: torch.Tensor, input: torch.Tensor, result: torch.Tensor, beta: float, alpha: float) -> None:
    from warpwise.ops.addmm.k02_triton_pass import addmm_pass

    m, n = result.shape
    addmm_pass[(cdiv(n, 128), cdiv(m, 16))](
        product,
        input,
        result,
        m,
        n,
        alpha,
        beta,
        *_added(input, result)[1:],
        ADDS=beta != 0,
        BLOCK_M=16,
        BLOCK_N=128,
        num_warps=4,
    )


def product_and_pass(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> None:
    product = torch.empty_like(result)
    if not MATMUL.fill((product,), a, b):
        product = MATMUL.spec.eager(a, b)
    _add(product, input, result, beta, alpha)


def tiled_configs(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return tiles.configs(a, *sizes(a, b)[:2])


def triton_tiled(
    result: torch.Tensor,
    input: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float,
    alpha: float,
    config: str | None = None,
) -> None:
    from warpwise.ops.addmm.k03_triton_tiled import addmm_tiled

    m, n, k = sizes(a, b)
    tile = tiles.named(config or tiled_configs(input, a, b)[0])
    addmm_tiled[(cdiv(m, tile.m) * cdiv(n, tile.n),)](
        a,
        b,
        input,
        result,
        m,
        n,
        k,
        alpha,
        beta,
        *a.stride(),
        *b.stride(),
        *_added(input, result)[1:],
        ADDS=beta != 0,
        BLOCK_M=tile.m,
        BLOCK_N=tile.n,
        BLOCK_K=tile.k,
        GROUP=8,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def _boxed(input: torch.Tensor) -> bool:
    """True if the input is a row-major matrix that TMA can address."""
    return input.dim() == 2 and not boxes.transposed(input) and boxes.tma_limit("input", input) is None


def tma_configs(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    """Every tile, the fastest by ``BoxTile.time`` first; for a whole matrix as input those that leave room for half a tile of it."""
    whole = input.shape == sizes(a, b)[:2]
    return tuple(name for name in boxes.ranked(1, *sizes(a, b), sm_count(a)) if boxes.fits(name, int(whole)))


def triton_tma(
    result: torch.Tensor,
    input: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float,
    alpha: float,
    config: str | None = None,
) -> None:
    from warpwise.ops.addmm.k04_triton_tma import addmm_tma

    m, n, k = sizes(a, b)
    tile = boxes.named(config or tma_configs(input, a, b)[0])
    programs = boxes.programs(tile, cdiv(m, tile.m) * cdiv(n, tile.n), a)
    half = (tile.m, tile.n // 2)
    whole = beta != 0 and input.shape == result.shape and _boxed(input)
    addmm_tma[(programs,)](
        boxes.descriptor(a, (tile.m, tile.k)),
        boxes.descriptor(b, (tile.k, tile.n)),
        boxes.descriptor(input, half) if whole else None,
        input if beta != 0 and not whole else None,
        cuda.out(boxes.descriptor(result, half)),
        m,
        n,
        k,
        alpha,
        beta,
        *_added(input, result)[1:],
        programs,
        A_TRANSPOSED=boxes.transposed(a),
        B_TRANSPOSED=boxes.transposed(b),
        BLOCK_M=tile.m,
        BLOCK_N=tile.n,
        BLOCK_K=tile.k,
        GROUP=8,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )


def _is_row(input: torch.Tensor, b: torch.Tensor) -> bool:
    """True if the input is one contiguous row, which is added to all rows."""
    return input.dim() > 0 and input.numel() == input.shape[-1] == b.shape[1] and input.is_contiguous()


def warpgroups_configs(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return gemm_config.configs(a, b)


def warpgroups(
    result: torch.Tensor,
    input: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float,
    alpha: float,
    config: str | None = None,
) -> None:
    row = aligned_pairs(input).view(-1) if beta != 0 and _is_row(input, b) else None
    added = input if beta != 0 and row is None else None
    plan = epilogue_launch(a, b.t(), result, added, None, config)
    kernel = WARPGROUPS[f"addmm_warpgroups<{plan.parameters}, {flags(added is not None)}>"]
    kernel[plan.launch](*plan.maps[:4], row, alpha, beta, *sizes(a, b), *plan.tiles)
