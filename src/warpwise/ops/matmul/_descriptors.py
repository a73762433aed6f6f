"""The launcher of k16, in Triton with tensor descriptors."""

from __future__ import annotations

import torch

from warpwise.gemm import boxes
from warpwise.gemm.limits import requires_k, requires_tma, size_limit
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A GPU with TMA, and matrices that it can address."""
    unit = 16 // a.element_size()
    if b.shape[1] % unit:
        return f"takes n in multiples of {unit}, so that rows of C begin on 16 bytes, not {b.shape[1]}"
    reason = requires_k(a.shape[1]) or requires_tma(a) or boxes.tma_limit("a", a) or boxes.tma_limit("b", b)
    return reason or size_limit(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the fastest by ``BoxTile.time`` first."""
    return boxes.ranked(1, *sizes(a, b), sm_count(a))


def triton_descriptors(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    from warpwise import triton as wt
    from warpwise.ops.matmul.k16_triton_descriptors import matmul_descriptors

    tile = boxes.named(config or configs(a, b)[0])
    m, n, k = sizes(a, b)
    programs = boxes.programs(tile, cdiv(m, tile.m) * cdiv(n, tile.n), a)
    read_a, read_b = boxes.descriptor(a, (tile.m, tile.k)), boxes.descriptor(b, (tile.k, tile.n))
    matmul_descriptors[(programs,)](
        read_a,
        read_b,
        wt.out(boxes.descriptor(c, (tile.m, tile.n // 2))),
        m,
        n,
        k,
        programs,
        BLOCK_M=tile.m,
        BLOCK_N=tile.n,
        BLOCK_K=tile.k,
        GROUP=8,
        A_TRANSPOSED=boxes.transposed(a),
        B_TRANSPOSED=boxes.transposed(b),
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
