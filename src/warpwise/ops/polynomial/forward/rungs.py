"""The ladder of polynomial, slowest idea first."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung
from warpwise.ops._packs import PACK_BLOCK, elementwise_blocks

HERE = Path(__file__).parent
BLOCK = 256

KERNEL_PER_OPERATOR = cuda.load(HERE / "k01_kernel_per_operator.cu")
FUSED = cuda.load(HERE / "k02_fused.cu")
VECTORISED = cuda.load(HERE / "k03_vectorised.cu")


def kernel_per_operator(out: torch.Tensor, input: torch.Tensor) -> None:
    n = input.numel()
    computed = torch.float32 if input.element_size() == 2 else input.dtype
    squared, summed = torch.empty_like(out, dtype=computed), torch.empty_like(out, dtype=computed)
    types, blocks = f"<{cuda.ctype(input.dtype)}, {cuda.ctype(computed)}>", cdiv(n, BLOCK)
    KERNEL_PER_OPERATOR[f"square{types}"][blocks, BLOCK](input, cuda.out(squared), n)
    KERNEL_PER_OPERATOR[f"add{types}"][blocks, BLOCK](squared, input, cuda.out(summed), n)
    KERNEL_PER_OPERATOR[f"add_one{types}"][blocks, BLOCK](summed, cuda.out(out), n)


def fused(out: torch.Tensor, input: torch.Tensor) -> None:
    kernel = FUSED[f"polynomial<{cuda.ctype(input.dtype)}>"]
    kernel[cdiv(input.numel(), BLOCK), BLOCK](input, cuda.out(out), input.numel())


def vectorised(out: torch.Tensor, input: torch.Tensor) -> None:
    blocks = elementwise_blocks(input.numel(), input.element_size())
    kernel = VECTORISED[f"polynomial<{cuda.ctype(input.dtype)}>"]
    kernel[blocks, PACK_BLOCK](input, cuda.out(out), input.numel())


def triton(out: torch.Tensor, input: torch.Tensor) -> None:
    from warpwise.ops.polynomial.forward.k04_triton import polynomial

    n, block = input.numel(), 2048
    polynomial[(cdiv(n, block),)](input, out, n, BLOCK=block, num_warps=4)


RUNGS = (
    make_rung(HERE, "k01_kernel_per_operator", "three kernels, intermediates in memory", kernel_per_operator),
    make_rung(HERE, "k02_fused", "one kernel, intermediates in registers", fused),
    make_rung(HERE, "k03_vectorised", "fused, 16-byte loads and stores", vectorised),
    make_rung(HERE, "k04_triton", "fused in Triton", triton),
)


def default(input: torch.Tensor) -> str:
    return "k03_vectorised"
