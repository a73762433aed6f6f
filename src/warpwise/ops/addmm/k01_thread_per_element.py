"""The launcher of k01."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv

THREAD_PER_ELEMENT = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> None:
    m, n, k = sizes(a, b)
    c = input.expand(result.shape)
    kernel = THREAD_PER_ELEMENT[f"addmm_thread_per_element<{cuda.ctype(a.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](
        *(cuda.strided(a), cuda.strided(b), cuda.strided(c), cuda.out(result), m, n, k, alpha, beta),
        *(*a.stride(), *b.stride(), *c.stride()),
    )
