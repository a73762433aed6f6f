"""The ladder of polynomial_backward, slowest idea first."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung
from warpwise.ops._packs import PACK_BLOCK, elementwise_blocks

HERE = Path(__file__).parent

VECTORISED = cuda.load(HERE / "k01_vectorised.cu")


def vectorised(grad_input: torch.Tensor, grad_output: torch.Tensor, input: torch.Tensor) -> None:
    blocks = elementwise_blocks(input.numel(), input.element_size())
    kernel = VECTORISED[f"polynomial_backward<{cuda.ctype(input.dtype)}>"]
    kernel[blocks, PACK_BLOCK](grad_output, input, cuda.out(grad_input), input.numel())


def triton(grad_input: torch.Tensor, grad_output: torch.Tensor, input: torch.Tensor) -> None:
    from warpwise.ops.polynomial.backward.k02_triton import polynomial_backward

    n, block = input.numel(), 2048
    polynomial_backward[(cdiv(n, block),)](grad_output, input, grad_input, n, BLOCK=block, num_warps=4)


RUNGS = (
    make_rung(HERE, "k01_vectorised", "fused, 16-byte loads and stores", vectorised),
    make_rung(HERE, "k02_triton", "fused in Triton", triton),
)


def default(grad_output: torch.Tensor, input: torch.Tensor) -> str:
    return "k01_vectorised"
