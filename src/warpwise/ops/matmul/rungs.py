"""The ladder of matmul, slowest idea first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import cluster_split_k, k_major, mma_sync, persistent, simt
from warpwise.gemm.config import GemmConfig, parsed
from warpwise.gemm.default import default_of
from warpwise.gemm.limits import copyable_limits, grid_of_tiles, grid_y_of, requires_k
from warpwise.gemm.operands import HALVES, KERNEL_DTYPES, flags, on_16_bytes, sizes
from warpwise.gemm.padding import k_major_operands
from warpwise.gemm.time_model import CLUSTER_SPLIT_K, MMA, OVERLAPPED, Family, Product
from warpwise.gemm.time_model import persistent as persistent_geometry
from warpwise.operation import Rung, cdiv, lazy_launch, make_rung, sm_count
from warpwise.ops import _c
from warpwise.ops.matmul import _triton
from warpwise.ops.matmul import k01_python_loops as k01
from warpwise.ops.matmul import k12_overlapped_epilogue as k12
from warpwise.ops.matmul import k13_warp_specialised as k13
from warpwise.ops.matmul import k16_skinny as k16
from warpwise.ops.matmul import k19_padded as k19
from warpwise.ops.matmul import k20_few_rows as k20
from warpwise.ops.matmul import k21_pretransposed_b as k21
from warpwise.ops.matmul import k22_variable_m_tiles as k22

HERE = Path(__file__).parent
TENSOR_CORES = (*HALVES, torch.int8)
MMA_SYNC = mma_sync.MmaSync(
    cuda.load(HERE / "k11_mma_sync.cu"),
    parsed(
        "128x256x128_w64x64_s3", "128x256x128_w64x64_s4", "256x128x128_w64x64_s4", "128x128x128_w64x64_s3",
        "128x128x64_w64x64_s5", "64x128x128_w32x64_s3", "64x64x128_w32x32_s3", "64x64x64_w32x32_s4",
    ),
)  # fmt: skip


INT8 = GemmConfig.parse("128x256x128_s4_c2x1")
NAIVE, WARP_TILE, ASYNC_COPIES, WARPGROUPS_INT8 = (
    cuda.load(HERE / f"{name}.cu") for name in ("k03_naive", "k08_warp_tile", "k10_async_copies", "k18_warpgroups_int8")
)
C_BLOCKED = _c.function(HERE / "k02_c_blocked.c", "matmul", "ppplll")


def c_blocked(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    C_BLOCKED(a, b, c, *sizes(a, b))


def warpgroups_int8(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """In clusters of two blocks, one above the other."""
    m, n, k = sizes(a, b)
    pairs, columns = INT8.tiles(m, n)
    by_tma = on_16_bytes(c)
    map_a, map_b = (cuda.tensor_map(operand, (128, 128)) for operand in k_major_operands(a, b.t()))
    map_c, rows = (cuda.tensor_map(c, (64, 32)), None) if by_tma else (map_a, cuda.out(c))
    kernel = WARPGROUPS_INT8[f"matmul_warpgroups_int8<{flags(by_tma)}>"]
    kernel[INT8.launch(min(pairs * columns, max(1, sm_count(a) // 2)))](
        map_a, map_b, map_c, rows, m, n, k, pairs, columns, 8
    )


def triton(name: str) -> Callable[..., None]:
    """The launcher in the file of a kernel in Triton."""
    return lazy_launch(f"{__package__}.{name}")


def vectorisable(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> str:
    """True, as a template argument, if rows of all three can be read in aligned vectors of four elements."""
    four = 4 * a.element_size()
    whole = a.shape[1] % 4 == 0 and b.shape[1] % 4 == 0 and all(value.data_ptr() % four == 0 for value in (a, b, c))
    return flags(whole)


def tiled(name: str, idea: str, side: int, block: int | tuple[int, int], vectors: bool = False) -> Rung:
    """A rung with a block for each tile of side x side of C; grid.x counts columns."""
    module = cuda.load(HERE / f"{name}.cu")

    def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        m, n, k = sizes(a, b)
        arguments = f"{cuda.ctype(a.dtype)}, {vectorisable(c, a, b)}" if vectors else cuda.ctype(a.dtype)
        module[f"matmul_{name[4:]}<{arguments}>"][(cdiv(n, side), cdiv(m, side)), block](a, b, cuda.out(c), m, n, k)

    return make_rung(HERE, name, idea, launch, dtypes=KERNEL_DTYPES, limits=grid_y_of(side, dimension=0))


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    types = cuda.ctype(a.dtype) if c.dtype == a.dtype else f"{cuda.ctype(a.dtype)}, {cuda.ctype(c.dtype)}"
    NAIVE[f"matmul_naive<{types}>"][(cdiv(m, 32), cdiv(n, 32)), (32, 32)](a, b, cuda.out(c), m, n, k)


def warp_tile(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Tiles of 128 x 128 per block, 32 x 64 per warp and 8 x 8 per thread, or smaller ones if C has too few tiles."""
    m, n, k = sizes(a, b)
    large = m > 64 and n > 64 and cdiv(m, 128) * cdiv(n, 128) >= sm_count(a)
    side, tiles, threads = (128, "128, 128, 16, 32, 64", 256) if large else (64, "64, 64, 16, 32, 32", 128)
    kernel = WARP_TILE[f"matmul_warp_tile<{cuda.ctype(a.dtype)}, {tiles}, {vectorisable(c, a, b)}>"]
    kernel[(cdiv(n, side), cdiv(m, side)), threads](a, b, cuda.out(c), m, n, k)


def async_copies(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """8 x 8 sums in 256 threads, two blocks per SM; 8 x 16 in 128, three blocks, if large tiles do not fill the GPU."""
    m, n, k = sizes(a, b)
    large = cdiv(m, 128) * cdiv(n, 128) >= 2 * sm_count(a)
    rows, threads, stages, arguments = (
        (128, 256, 3, "128, 128, 16, 32, 64, 4, 3, 2, false")
        if large
        else (64, 128, 4, "64, 128, 16, 32, 64, 4, 4, 3, true")
    )
    whole = n % 4 == 0 and b.data_ptr() % 16 == 0 and c.data_ptr() % 16 == 0
    tiles = cdiv(m, rows), cdiv(n, 128)
    shared = stages * 16 * (rows + 4 + 128) * 4
    kernel = ASYNC_COPIES[f"matmul_async_copies<{arguments}, {flags(whole)}>"]
    kernel[tiles[0] * tiles[1], threads, shared](a, b, cuda.out(c), m, n, k, *tiles, 8)


def async_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits: a grid of tiles, and K of at least 1, because the kernel loads a k-tile before its loop."""
    return requires_k(a.shape[1]) or grid_of_tiles(a, b)


RUNGS = (
    Rung("k01_python_loops", "three loops in Python", "python", k01.launch, HERE / "k01_python_loops.py",
         dtypes=(*KERNEL_DTYPES, torch.int8), limits=k01.limits, devices=("cpu",)),
    Rung("k02_c_blocked", "the loops in C, in blocks for the cache", "c", c_blocked, HERE / "k02_c_blocked.c",
         dtypes=(torch.float32,), devices=("cpu",)),
    make_rung(HERE, "k03_naive", "one thread per element, rows first", naive, dtypes=(*KERNEL_DTYPES, torch.int8),
              limits=grid_y_of(32, dimension=1)),
    tiled("k04_coalesced", "adjacent threads compute adjacent columns", 32, (32, 32)),
    tiled("k05_shared_tile", "tiles of A and B in shared memory", 32, (32, 32)),
    tiled("k06_block_tile_2d", "an 8 x 8 tile per thread", 128, 256),
    tiled("k07_vectorised", "float4 loads, A's k-tile transposed", 128, 256, vectors=True),
    make_rung(HERE, "k08_warp_tile", "a tile per warp, lanes without bank conflicts", warp_tile, dtypes=KERNEL_DTYPES,
              limits=grid_y_of(64, dimension=0)),
    make_rung(HERE, "k09_triton_tiled", "tiles in Triton, in an order for L2", triton("k09_triton_tiled"),
              dtypes=KERNEL_DTYPES, limits=grid_of_tiles),
    make_rung(HERE, "k10_async_copies", "stages by cp.async, multiply-adds in an order without register bank conflicts",
              async_copies, dtypes=(torch.float32,), limits=async_limits),
    make_rung(HERE, "k11_mma_sync", "Ampere: swizzled stages by cp.async, ldmatrix, mma.sync", MMA_SYNC.launch,
              dtypes=TENSOR_CORES, limits=mma_sync.limits, configs=MMA_SYNC.configs, strided=True),
    make_rung(HERE, "k12_overlapped_epilogue",
              "Hopper: the epilogue overlaps the next tile's products; any layout, small tiles too", k12.launch,
              dtypes=HALVES, limits=k12.limits, configs=persistent.narrow_configs, strided=True),
    make_rung(HERE, "k13_warp_specialised", "Hopper: four producer warps, eight consumer warps, mbarriers", k13.launch,
              dtypes=(torch.float32,), limits=simt.limits, configs=k13.configs, strided=True),
    cluster_split_k.rung(HERE, "k14_cluster_split_k", KERNEL_DTYPES),
    make_rung(HERE, "k15_split_k", "split-K: partial sums added by a second launch", triton("k15_split_k"),
              dtypes=KERNEL_DTYPES, limits=grid_of_tiles, configs=_triton.split_k_configs, strided=True),
    make_rung(HERE, "k16_skinny", "Hopper: few rows as wgmma's n, K divided in a cluster", k16.launch, dtypes=HALVES,
              limits=copyable_limits, configs=k16.configs, strided=True),
    make_rung(HERE, "k17_bf16x3", "float32 on tensor cores: bf16x3, six bfloat16 products", triton("k17_bf16x3"),
              dtypes=(torch.float32,), limits=grid_of_tiles, configs=_triton.bf16x3_configs, by_name=True,
              units="bf16"),
    make_rung(HERE, "k18_warpgroups_int8", "Hopper: int8 by wgmma; operands are transposed or copied first",
              warpgroups_int8, dtypes=(torch.int8,), limits=k_major.limits, strided=True),
    make_rung(HERE, "k19_padded", "Hopper: any size; operands copied once into rows that TMA can address", k19.launch,
              dtypes=HALVES, limits=k19.limits, configs=k19.configs, strided=True),
    make_rung(HERE, "k20_few_rows", "few rows in any dtype: B from global memory to registers, for all rows at once",
              k20.launch, dtypes=KERNEL_DTYPES, limits=k20.limits, configs=k20.configs, strided=True),
    make_rung(HERE, "k21_pretransposed_b", "Hopper: k13; what TMA cannot load is transposed or copied once", k21.launch,
              dtypes=(torch.float32,), limits=k21.limits, configs=k21.configs, strided=True),
    make_rung(HERE, "k22_variable_m_tiles", "Hopper: k12 with tiles of 248 and 256 rows, against wave quantisation",
              k22.launch, dtypes=HALVES, limits=k22.limits, configs=k22.configs, strided=True),
)  # fmt: skip

default = default_of(
    RUNGS, "k12_overlapped_epilogue", "k13_warp_specialised", "k18_warpgroups_int8", "k11_mma_sync",
    "k10_async_copies", "k14_cluster_split_k",
)  # fmt: skip

LARGE = "128x256x64_s4"  # the tile of a rung without configurations


def _both(product: Product, kind: str) -> int:
    return (product.m + product.n) * product.k


def copied_by_torch(product: Product, kind: str) -> int:
    """The elements of int8 operands that ``spec.eager`` pads or transposes; only int8 has 1 byte and sums of 4."""
    padded = "unaligned" in kind
    a, b = padded or kind[0] == "t" or product.m < 32, padded or kind[1] == "n" or product.n % 16 > 0
    return (a * product.m + b * product.n) * product.k if (product.size, product.out_size) == (1, 4) else 0


FAMILIES = {  # for the model of the time
    "k11_mma_sync": MMA,
    "k12_overlapped_epilogue": OVERLAPPED,
    "k13_warp_specialised": k13.FAMILY,
    "k14_cluster_split_k": CLUSTER_SPLIT_K,
    "k16_skinny": k16.FAMILY,
    "k18_warpgroups_int8": Family(
        persistent_geometry,
        copied=lambda product, kind: (_both if "unaligned" in kind else k21.b_transposed)(product, kind),
        launches=lambda config, kind: 2 + ("unaligned" in kind),
        config=LARGE,
    ),
    "k19_padded": Family(persistent_geometry, copied=_both, launches=lambda config, kind: 3, config=LARGE),
    "k21_pretransposed_b": k21.FAMILY,
    "k22_variable_m_tiles": OVERLAPPED,
}
