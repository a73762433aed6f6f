"""The launcher of the Triton kernel whose factors the copy engine fetches, k16."""

from __future__ import annotations

import torch

from warpwise.ops import _boxes
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops.matmul._shared import sizes, too_large


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A GPU with a copy engine, and matrices that it can address."""
    unit = 16 // a.element_size()
    if b.shape[1] % unit:
        return f"takes n in multiples of {unit}, so that rows of C begin on 16 bytes, not {b.shape[1]}"
    return _boxes.engine(a) or _boxes.boxable("a", a) or _boxes.boxable("b", b) or too_large(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the one that keeps the SMs busiest first."""
    return _boxes.ranked(1, *sizes(a, b), multiprocessors(a))


def triton_descriptors(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    from warpwise import triton as wt
    from warpwise.ops.matmul.k16_triton_descriptors import matmul_descriptors

    boxes = _boxes.named(config or configs(a, b)[0])
    m, n, k = sizes(a, b)
    programs = _boxes.programs(boxes, cdiv(m, boxes.m) * cdiv(n, boxes.n), a)
    a_boxes, b_boxes = _boxes.described(a, (boxes.m, boxes.k)), _boxes.described(b, (boxes.k, boxes.n))
    matmul_descriptors[(programs,)](
        a_boxes, b_boxes, wt.out(_boxes.described(c, (boxes.m, boxes.n // 2))), m, n, k, programs,
        BLOCK_M=boxes.m, BLOCK_N=boxes.n, BLOCK_K=boxes.k, GROUP=8,
        A_TURNED=_boxes.turned(a), B_TURNED=_boxes.turned(b), num_warps=boxes.warps, num_stages=boxes.stages,
    )  # fmt: skip
