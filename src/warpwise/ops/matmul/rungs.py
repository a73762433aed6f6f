"""The ladder of matmul, slowest idea first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from warpwise.gemm import config as gemm_config
from warpwise.gemm import k_major, mma_sync
from warpwise.gemm.limits import grid_of_tiles, grid_y_of
from warpwise.operation import Rung, cdiv, make_rung, sm_count
from warpwise.ops.matmul import (
    _ampere,
    _descriptors,
    _even,
    _few_rows,
    _hopper,
    _padded,
    _simt,
    _skinny,
    _specialised,
    _split,
    _strips,
    _turned_first,
)
from warpwise.ops.matmul._cpu import c_blocked, few_products, python_loops
from warpwise.ops.matmul._simt import tiled
from warpwise.ops.matmul._triton import triton_tiled
from warpwise.ops.matmul.spec import KERNEL_DTYPES

HERE = Path(__file__).parent
HALVES = (torch.float16, torch.bfloat16)
TENSOR_CORES = (*HALVES, torch.int8)


def rung(name: str, idea: str, launch: Callable[..., None], tile: int) -> Rung:
    """A rung on the CUDA cores with a block for each tile, whose rows grid.y counts."""
    return make_rung(HERE, name, idea, launch, dtypes=KERNEL_DTYPES, limits=grid_y_of(tile, dimension=0))


RUNGS = (
    Rung("k01_python_loops", "three loops in Python", "python", python_loops, HERE / "k01_python_loops.py",
         dtypes=(*KERNEL_DTYPES, torch.int8), limits=few_products, devices=("cpu",)),
    Rung("k02_c_blocked", "the loops in C, in blocks for the cache", "c", c_blocked, HERE / "k02_c_blocked.c",
         dtypes=(torch.float32,), devices=("cpu",)),
    make_rung(HERE, "k03_naive", "one thread an element, rows first", _simt.naive,
              dtypes=(*KERNEL_DTYPES, torch.int8), limits=grid_y_of(32, dimension=1)),
    rung("k04_coalesced", "neighbouring threads take neighbouring columns",
         tiled("matmul_coalesced", "k04_coalesced.cu", (32, 32), (32, 32)), 32),
    rung("k05_shared_tile", "tiles of A and B in shared memory",
         tiled("matmul_shared_tile", "k05_shared_tile.cu", (32, 32), (32, 32)), 32),
    rung("k06_block_tile_1d", "8 elements of a column a thread",
         tiled("matmul_block_tile_1d", "k06_block_tile_1d.cu", (64, 64), 512), 64),
    rung("k07_block_tile_2d", "an 8 x 8 tile a thread",
         tiled("matmul_block_tile_2d", "k07_block_tile_2d.cu", (128, 128), 256), 128),
    rung("k08_vectorised", "float4 loads, A's slice transposed",
         tiled("matmul_vectorised", "k08_vectorised.cu", (128, 128), 256, vectors=True), 128),
    rung("k09_warp_tile", "a tile a warp, lanes without bank conflicts", _simt.warp_tile, 64),
    make_rung(HERE, "k10_triton_tiled", "tiles in Triton, in an order for L2", triton_tiled,
              dtypes=KERNEL_DTYPES, limits=grid_of_tiles),
    make_rung(HERE, "k11_async_copies", "stages by cp.async, products in an order for the register banks", _simt.async_copies,
              dtypes=(torch.float32,), limits=_simt.async_copies_limits),
    make_rung(HERE, "k12_warpgroups", "Hopper: operands by TMA, products by wgmma, asynchronously", _hopper.warpgroups,
              dtypes=HALVES, limits=_hopper.warpgroups_limits, devices=("cuda",)),
    make_rung(HERE, "k13_warp_specialised", "Hopper: four producer warps, eight consumer warps, mbarriers in place of __syncthreads",
              _specialised.warp_specialised, dtypes=(torch.float32,), limits=_specialised.limits, devices=("cuda",),
              configs=_specialised.configs, strided=True),
    make_rung(HERE, "k14_wmma", "tensor cores through wmma fragments", _ampere.wmma,
              dtypes=TENSOR_CORES, limits=mma_sync.wmma_limits),
    make_rung(HERE, "k15_mma_sync", "Ampere: swizzled stages by cp.async, ldmatrix, mma.sync",
              _ampere.mma_sync, dtypes=TENSOR_CORES, limits=mma_sync.limits, configs=_ampere.mma_sync_configs, strided=True),
    make_rung(HERE, "k16_triton_descriptors", "Hopper through Triton: tensor descriptors, one loop over tiles and k",
              _descriptors.triton_descriptors, dtypes=HALVES, limits=_descriptors.limits,
              configs=_descriptors.configs, strided=True),
    make_rung(HERE, "k17_split_k", "split-K: partial sums added by a second launch", _skinny.split_k,
              dtypes=KERNEL_DTYPES, limits=grid_of_tiles, configs=_skinny.split_k_configs, strided=True),
    make_rung(HERE, "k18_stream_k", "Hopper: stream-K, an equal share of all k-tiles for each SM", _skinny.stream_k,
              dtypes=HALVES, limits=_skinny.skinny_limits, configs=_skinny.stream_k_configs, devices=("cuda",),
              strided=True),
    make_rung(HERE, "k19_skinny", "Hopper: few rows as wgmma's n, K divided in a cluster", _skinny.skinny,
              dtypes=HALVES, limits=_skinny.skinny_limits, configs=_skinny.skinny_configs, devices=("cuda",),
              strided=True),
    make_rung(HERE, "k20_overlapped_epilogue", "Hopper: the epilogue overlaps the next tile's products; any layout, small tiles too",
              _hopper.overlapped_epilogue, dtypes=HALVES, limits=_hopper.overlapped_epilogue_limits, configs=gemm_config.configs,
              devices=("cuda",), strided=True),
    make_rung(HERE, "k21_bf16x3", "float32 on tensor cores: bf16x3, six bfloat16 products",
              _split.bf16x3, dtypes=(torch.float32,), limits=grid_of_tiles, configs=_split.configs, by_name=True,
              units="bf16"),
    make_rung(HERE, "k22_warpgroups_int8", "Hopper: int8 by wgmma, B transposed first", _hopper.warpgroups_int8,
              dtypes=(torch.int8,), limits=k_major.limits, devices=("cuda",), strided=True),
    make_rung(HERE, "k23_padded", "Hopper: any size; operands copied once into rows that TMA can address",
              _padded.padded_product, dtypes=TENSOR_CORES, limits=_padded.limits, configs=_padded.configs,
              devices=("cuda",), strided=True),
    make_rung(HERE, "k24_few_rows", "few rows in any dtype: B from global memory to registers, for all rows at once",
              _few_rows.few_rows, dtypes=KERNEL_DTYPES, limits=_few_rows.few_rows_limits,
              configs=_few_rows.few_rows_configs, strided=True),
    make_rung(HERE, "k25_pretransposed_b", "Hopper: k13, with operands transposed or copied once where TMA cannot load them",
              _turned_first.pretransposed_b, dtypes=(torch.float32,), limits=_turned_first.limits,
              configs=_turned_first.configs, devices=("cuda",), strided=True),
    make_rung(HERE, "k26_stream_k_hybrid", "Hopper: k20 with hybrid stream-K: all clusters share the last, partial wave",
              _even.stream_k_hybrid, dtypes=HALVES, limits=_hopper.overlapped_epilogue_limits, configs=_even.configs,
              devices=("cuda",), strided=True),
    make_rung(HERE, "k28_variable_m_tiles", "Hopper: k20 with tiles of 248 and 256 rows, against wave quantisation",
              _strips.strips, dtypes=HALVES, limits=_strips.limits, configs=_strips.configs,
              devices=("cuda",), strided=True),
)  # fmt: skip

_LIMITS = {rung.name: rung.limits for rung in RUNGS}


def default(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The rung for sizes that no table covers; PyTorch for float64 and where a grid is too small.

    Few rows of A have rungs of their own on a GPU. Otherwise float32 takes k13 or k25 where they fill a Hopper GPU, else
    k11; int8 and 2-byte types take wgmma where its tiles fill a Hopper GPU, on padded operands where rows are ragged,
    else mma.sync or Triton.
    """
    short = a.dtype in HALVES
    if a.is_cuda and short and a.size(0) <= 256 and not _skinny.skinny_limits(a, b):
        name = "k19_skinny"
    elif a.is_cuda and a.dtype == torch.float32 and (a.size(0) <= 16 or b.size(1) == 1):
        name = "k24_few_rows"
    elif a.dtype == torch.float32:
        specialised = "k25_pretransposed_b" if _turned_first.is_profitable(a, b) else "k13_warp_specialised"
        name = specialised if _specialised.is_profitable(a, b) else "k11_async_copies"
    elif a.dtype == torch.int8:
        name = (
            "k22_warpgroups_int8"
            if _hopper.int8_is_profitable(a, b)
            else "k23_padded"
            if _padded.is_profitable(a, b)
            else "k15_mma_sync"
        )
    elif (
        a.is_cuda
        and cdiv(a.size(0), 128) * cdiv(b.size(1), 256) >= sm_count(a)
        and not _hopper.overlapped_epilogue_limits(a, b)
    ):
        even = "k26_stream_k_hybrid" if _even.is_profitable(a, b) else "k20_overlapped_epilogue"
        name = "k28_variable_m_tiles" if _strips.is_profitable(a, b) else even
    elif short and _hopper.overlapped_epilogue_limits(a, b) and _padded.is_profitable(a, b):
        name = "k23_padded"
    else:
        name = "k10_triton_tiled"
    return None if a.dtype not in (*KERNEL_DTYPES, torch.int8) or _LIMITS[name](a, b) else name
