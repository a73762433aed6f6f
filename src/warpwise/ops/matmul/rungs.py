"""The ladder of matmul, slowest idea first. Launchers: `_cpu`, `_simt`, `_ampere`, `_triton`, `_hopper`."""

from __future__ import annotations

import torch

from warpwise.ops._common import cdiv, make_rung, multiprocessors
from warpwise.ops.matmul import (
    _ampere,
    _bytes,
    _descriptors,
    _even,
    _few_rows,
    _padded,
    _skinny,
    _specialised,
    _split,
    _strips,
    _turned_first,
)
from warpwise.ops.matmul._cpu import c_blocked, few_products, python_loops
from warpwise.ops.matmul._hopper import boxes, copy_engine, deferred_configs, deferred_stores, warpgroups
from warpwise.ops.matmul._shared import HERE, Launch, grid_of, grid_of_tiles
from warpwise.ops.matmul._simt import async_copies, naive, tiled, warp_tile
from warpwise.ops.matmul._triton import triton_tiled
from warpwise.ops.matmul.spec import KERNEL_DTYPES
from warpwise.registry import Rung

TENSOR_CORES = (torch.float16, torch.bfloat16, torch.int8)


def rung(name: str, idea: str, launch: Launch, tile: int) -> Rung:
    return make_rung(HERE, name, idea, launch, dtypes=KERNEL_DTYPES, limits=grid_of(tile, dimension=0))


RUNGS = (
    Rung("k01_python_loops", "three loops in Python", "python", python_loops, HERE / "k01_python_loops.py",
         dtypes=(*KERNEL_DTYPES, torch.int8), limits=few_products, devices=("cpu",)),
    Rung("k02_c_blocked", "the loops in C, in blocks for the cache", "c", c_blocked, HERE / "k02_c_blocked.c",
         dtypes=(torch.float32,), devices=("cpu",)),
    make_rung(HERE, "k03_naive", "one thread an element, rows first", naive,
              dtypes=(*KERNEL_DTYPES, torch.int8), limits=grid_of(32, dimension=1)),
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
    rung("k09_warp_tile", "a tile a warp, lanes without bank conflicts", warp_tile, 64),
    make_rung(HERE, "k10_triton_tiled", "tiles in Triton, in an order for L2", triton_tiled,
              dtypes=KERNEL_DTYPES, limits=grid_of_tiles),
    make_rung(HERE, "k11_async_copies", "slices by cp.async, products in an order for the register banks", async_copies,
              dtypes=(torch.float32,), limits=grid_of_tiles),
    make_rung(HERE, "k12_warpgroups", "Hopper: boxes by the copy engine, products by warpgroups, asynchronously", warpgroups,
              dtypes=(torch.float16, torch.bfloat16), limits=copy_engine, devices=("cuda",)),
    make_rung(HERE, "k13_warp_specialised", "Hopper: four warps feed a ring of slices, eight multiply, none waits for a block",
              _specialised.warp_specialised, dtypes=(torch.float32,), limits=_specialised.limits, devices=("cuda",),
              configs=_specialised.configs, strided=True),
    make_rung(HERE, "k14_wmma", "tensor cores through CUDA's fragments", _ampere.wmma,
              dtypes=TENSOR_CORES, limits=_ampere.wmma_limits),
    make_rung(HERE, "k15_mma_sync", "Ampere: swizzled slices by cp.async and ldmatrix, products by mma.sync",
              _ampere.mma_sync, dtypes=TENSOR_CORES, limits=_ampere.ampere, configs=_ampere.mma_sync_configs, strided=True),
    make_rung(HERE, "k16_triton_descriptors", "Hopper from Triton: boxes by descriptors, tiles and slices one loop",
              _descriptors.triton_descriptors, dtypes=(torch.float16, torch.bfloat16), limits=_descriptors.limits,
              configs=_descriptors.configs, strided=True),
    make_rung(HERE, "k17_split_k", "each tile's K divided among programs, partial sums added by a second launch", _skinny.split_k,
              dtypes=KERNEL_DTYPES, limits=grid_of_tiles, configs=_skinny.split_k_configs, strided=True),
    make_rung(HERE, "k18_stream_k", "Hopper: all tiles' slices in a row, an equal share for each SM", _skinny.stream_k,
              dtypes=(torch.float16, torch.bfloat16), limits=_skinny.skinny_limits, configs=_skinny.stream_k_configs, devices=("cuda",),
              strided=True),
    make_rung(HERE, "k19_skinny", "Hopper: few rows on the matrix units' variable side, K divided in a cluster", _skinny.skinny,
              dtypes=(torch.float16, torch.bfloat16), limits=_skinny.skinny_limits, configs=_skinny.skinny_configs, devices=("cuda",),
              strided=True),
    make_rung(HERE, "k20_deferred_stores", "Hopper: a tile leaves under the next one's products; any orientation, small tiles too",
              deferred_stores, dtypes=(torch.float16, torch.bfloat16), limits=boxes, configs=deferred_configs,
              devices=("cuda",), strided=True),
    make_rung(HERE, "k21_split_bfloat16", "float32 by tensor cores: three bfloat16 parts of each factor, six products of parts",
              _split.split_bfloat16, dtypes=(torch.float32,), limits=grid_of_tiles, configs=_split.configs, by_name=True,
              units="bf16"),
    make_rung(HERE, "k22_warpgroups_int8", "Hopper: int8 by warpgroups, B turned first", _bytes.warpgroups_int8,
              dtypes=(torch.int8,), limits=_bytes.limits, devices=("cuda",), strided=True),
    make_rung(HERE, "k23_padded", "Hopper: any size; factors copied once into rows that the copy engine can address",
              _padded.product_of_padded, dtypes=TENSOR_CORES, limits=_padded.limits, configs=_padded.configs,
              devices=("cuda",), strided=True),
    make_rung(HERE, "k24_few_rows", "few rows in any dtype: B from global memory to registers, for all rows at once",
              _few_rows.few_rows, dtypes=KERNEL_DTYPES, limits=_few_rows.few_rows_limits,
              configs=_few_rows.few_rows_configs, strided=True),
    make_rung(HERE, "k25_turned_first", "Hopper: k13, of factors turned or copied once where its copy engine cannot bring them",
              _turned_first.turned_first, dtypes=(torch.float32,), limits=_turned_first.limits,
              configs=_turned_first.configs, devices=("cuda",), strided=True),
    make_rung(HERE, "k26_even_shares", "Hopper: k20, and tiles that fill no round shared evenly by all clusters",
              _even.even_shares, dtypes=(torch.float16, torch.bfloat16), limits=boxes, configs=_even.configs,
              devices=("cuda",), strided=True),
    make_rung(HERE, "k28_strips", "Hopper: k20 in strips of 248 and 256 rows, so that tiles fill whole rounds of all SMs",
              _strips.strips, dtypes=(torch.float16, torch.bfloat16), limits=_strips.limits, configs=_strips.configs,
              devices=("cuda",), strided=True),
)  # fmt: skip

_LIMITS = {rung.name: rung.limits for rung in RUNGS}


def default(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """Few rows of A have rungs of their own on a GPU. Else for float32 warps with roles where they fill a Hopper GPU, or
    asynchronous copies; for int8 and 2-byte types warpgroups where their tiles fill a Hopper GPU, of padded factors where
    rows are ragged, or mma.sync and Triton; PyTorch for float64 and where a grid is too small."""
    short = a.dtype in (torch.float16, torch.bfloat16)
    if a.is_cuda and short and a.size(0) <= 256 and not _skinny.skinny_limits(a, b):
        name = "k19_skinny"
    elif a.is_cuda and a.dtype == torch.float32 and (a.size(0) <= 16 or b.size(1) == 1):
        name = "k24_few_rows"
    elif a.dtype == torch.float32:
        specialised = "k25_turned_first" if _turned_first.pays(a, b) else "k13_warp_specialised"
        name = specialised if _specialised.pays(a, b) else "k11_async_copies"
    elif a.dtype == torch.int8:
        name = "k22_warpgroups_int8" if _bytes.pays(a, b) else "k23_padded" if _padded.pays(a, b) else "k15_mma_sync"
    elif a.is_cuda and cdiv(a.size(0), 128) * cdiv(b.size(1), 256) >= multiprocessors(a) and not boxes(a, b):
        even = "k26_even_shares" if _even.pays(a, b) else "k20_deferred_stores"
        name = "k28_strips" if _strips.pays(a, b) else even
    elif short and boxes(a, b) and _padded.pays(a, b):
        name = "k23_padded"
    else:
        name = "k10_triton_tiled"
    return None if a.dtype not in (*KERNEL_DTYPES, torch.int8) or _LIMITS[name](a, b) else name
