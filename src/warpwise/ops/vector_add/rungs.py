"""The ladder of vector_add, slowest idea first."""

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
LOADS_IN_FLIGHT = cuda.load(HERE / "k04_loads_in_flight.cu")


def _launch(
    module: cuda.Module, blocks: int, out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, block: int = BLOCK
) -> None:
    module[f"vector_add<{cuda.ctype(a.dtype)}>"][blocks, block](a, b, cuda.out(out), a.numel())


def thread_per_element(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    _launch(THREAD_PER_ELEMENT, cdiv(a.numel(), BLOCK), out, a, b)


def grid_stride(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    resident = 8 * sm_count(a)  # 8 blocks of 256 threads fill the 2048 threads of an SM
    _launch(GRID_STRIDE, min(cdiv(a.numel(), BLOCK), resident), out, a, b)


def vectorised(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    _launch(VECTORISED, elementwise_blocks(a.numel(), a.element_size()), out, a, b, PACK_BLOCK)


def loads_in_flight(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    _launch(LOADS_IN_FLIGHT, cdiv(a.numel() * a.element_size(), 4 * 16 * BLOCK), out, a, b)


def triton(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.vector_add.k05_triton import vector_add

    block = 1024
    vector_add[(cdiv(a.numel(), block),)](a, b, out, a.numel(), BLOCK=block, num_warps=4)


RUNGS = (
    make_rung(HERE, "k01_thread_per_element", "one thread per element", thread_per_element),
    make_rung(HERE, "k02_grid_stride", "a grid-stride loop over a resident grid", grid_stride),
    make_rung(HERE, "k03_vectorised", "16-byte loads and stores", vectorised),
    make_rung(HERE, "k04_loads_in_flight", "four packs of each input in flight a thread", loads_in_flight),
    make_rung(HERE, "k05_triton", "the same in Triton", triton),
)


def default(a: torch.Tensor, b: torch.Tensor) -> str:
    return "k03_vectorised"
