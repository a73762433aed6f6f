"""The ladder of square, slowest idea first."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._packs import PACK_BLOCK, elementwise_blocks

HERE = Path(__file__).parent
BLOCK = 256

THREAD_PER_ELEMENT = cuda.load(HERE / "k01_thread_per_element.cu")
GRID_STRIDE = cuda.load(HERE / "k02_grid_stride.cu")
VECTORISED = cuda.load(HERE / "k03_vectorised.cu")


def _launch(module: cuda.Module, blocks: int, out: torch.Tensor, input: torch.Tensor) -> None:
    module[f"square<{cuda.ctype(input.dtype)}>"][blocks, BLOCK](input, cuda.out(out), input.numel())


def thread_per_element(out: torch.Tensor, input: torch.Tensor) -> None:
    _launch(THREAD_PER_ELEMENT, cdiv(input.numel(), BLOCK), out, input)


def grid_stride(out: torch.Tensor, input: torch.Tensor) -> None:
    resident = 8 * sm_count(input)  # 8 blocks of 256 threads fill the 2048 threads of an SM
    _launch(GRID_STRIDE, min(cdiv(input.numel(), BLOCK), resident), out, input)


def vectorised(out: torch.Tensor, input: torch.Tensor) -> None:
    blocks = elementwise_blocks(input.numel(), input.element_size())
    kernel = VECTORISED[f"square<{cuda.ctype(input.dtype)}>"]
    kernel[blocks, PACK_BLOCK](input, cuda.out(out), input.numel())


def triton(out: torch.Tensor, input: torch.Tensor) -> None:
    from warpwise.ops.square.k04_triton import square

    block = 2048
    square[(cdiv(input.numel(), block),)](input, out, input.numel(), BLOCK=block, num_warps=4)


RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per element", thread_per_element),
    make_rung(HERE, "k02_grid_stride", "a grid-stride loop over a resident grid", grid_stride),
    make_rung(HERE, "k03_vectorised", "16-byte loads and stores", vectorised),
    make_rung(HERE, "k04_triton", "the same in Triton", triton),
)


def default(input: torch.Tensor) -> str:
    return "k03_vectorised"
