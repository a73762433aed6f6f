"""The ladder of matmul, slowest idea first."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, make_rung, multiprocessors
from warpwise.ops.matmul.spec import KERNEL_DTYPES
from warpwise.registry import Rung

HERE = Path(__file__).parent
PYTHON_PRODUCTS = 2**17  # multiply-adds: some 10 ms in Python
SIDE = 2**31 - 1024  # row, column and depth are 32 bits, and reach up to a tile past the end
GRID_Y = 65535

Launch = Callable[..., None]


def python_loops(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.matmul.k01_python_loops import multiply

    multiply(c, a, b)


def c_blocked(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.matmul._c import library

    function = library(HERE / "k02_c_blocked.c").matmul
    function.argtypes, function.restype = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3, None
    function(a.data_ptr(), b.data_ptr(), c.data_ptr(), *sizes(a, b))


def sizes(a: torch.Tensor, b: torch.Tensor) -> tuple[int, int, int]:
    """m, n and k."""
    return a.shape[0], b.shape[1], a.shape[1]


def in_fours(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> str:
    """Whether rows of all three are whole groups of four elements that lie on their size, as a template argument."""
    four = 4 * a.element_size()
    whole = a.shape[1] % 4 == 0 and b.shape[1] % 4 == 0 and all(value.data_ptr() % four == 0 for value in (a, b, c))
    return "true" if whole else "false"


def tiled(kernel: str, file: str, tile: tuple[int, int], block: int | tuple[int, int], vectors: bool = False) -> Launch:
    """A launch of one block for each ``tile`` (rows, columns) of C; grid.x counts columns."""
    module = cuda.load(HERE / file)

    def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        m, n, k = sizes(a, b)
        arguments = f"{cuda.ctype(a.dtype)}, {in_fours(c, a, b)}" if vectors else cuda.ctype(a.dtype)
        grid = cdiv(n, tile[1]), cdiv(m, tile[0])
        module[f"{kernel}<{arguments}>"][grid, block](a, b, cuda.out(c), m, n, k)

    return launch


NAIVE = cuda.load(HERE / "k03_naive.cu")
WARP_TILE = cuda.load(HERE / "k09_warp_tile.cu")
ASYNC_COPIES = cuda.load(HERE / "k11_async_copies.cu")
WARPGROUPS = cuda.load(HERE / "k12_warpgroups.cu")
WARPGROUPS_SHARED = (
    1024 + 4 * (2 + 4) * 8192 + 4 * 8192 + 64
)  # alignment, four slices of A and B, C on its way, barriers


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    NAIVE[f"matmul_naive<{cuda.ctype(a.dtype)}>"][(cdiv(m, 32), cdiv(n, 32)), (32, 32)](a, b, cuda.out(c), m, n, k)


def warp_tile(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    # 128 x 128 a block, 32 x 64 a warp, 8 x 8 a thread; a quarter of that where the large tiles would not fill the GPU.
    large = m > 64 and n > 64 and cdiv(m, 128) * cdiv(n, 128) >= multiprocessors(a)
    side, tiles, threads = (128, "128, 128, 16, 32, 64", 256) if large else (64, "64, 64, 16, 32, 32", 128)
    kernel = WARP_TILE[f"matmul_warp_tile<{cuda.ctype(a.dtype)}, {tiles}, {in_fours(c, a, b)}>"]
    kernel[(cdiv(n, side), cdiv(m, side)), threads](a, b, cuda.out(c), m, n, k)


def async_copies(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    # 8 x 8 sums in 256 threads, two blocks an SM; 8 x 16 in 128, three blocks, where large tiles would not fill the GPU.
    large = cdiv(m, 128) * cdiv(n, 128) >= 2 * multiprocessors(a)
    rows, threads, stages, arguments = (
        (128, 256, 3, "128, 128, 16, 32, 64, 4, 3, 2, false")
        if large
        else (64, 128, 4, "64, 128, 16, 32, 64, 4, 4, 3, true")
    )
    whole = n % 4 == 0 and b.data_ptr() % 16 == 0 and c.data_ptr() % 16 == 0
    tiles = cdiv(m, rows), cdiv(n, 128)
    kernel = ASYNC_COPIES[f"matmul_async_copies<{arguments}, {str(whole).lower()}>"]
    shared = stages * 16 * (rows + 4 + 128) * 4
    kernel[tiles[0] * tiles[1], threads, shared](a, b, cuda.out(c), m, n, k, *tiles, 8)


def warpgroups(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    pairs, columns = cdiv(m, 256), cdiv(n, 256)
    clusters = min(pairs * columns, multiprocessors(a) // 2)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (a, b, c)]
    kernel = WARPGROUPS[f"matmul_warpgroups<{cuda.ctype(a.dtype)}>"]
    kernel[2 * clusters, 384, WARPGROUPS_SHARED](*maps, k, pairs, columns, 8)


def triton_tiled(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.matmul.k10_triton_tiled import matmul_tiled

    m, n, k = sizes(a, b)
    if a.dtype == torch.float32:
        block_m, block_n, block_k, warps, stages = 64, 64, 32, 4, 3
    elif cdiv(m, 128) * cdiv(n, 256) >= multiprocessors(a) and shared_bytes(a) >= 3 * 2 * 64 * (128 + 256):
        block_m, block_n, block_k, warps, stages = 128, 256, 64, 8, 3
    else:
        block_m, block_n, block_k, warps, stages = 64, 64, 64, 4, 4
    matmul_tiled[(cdiv(m, block_m) * cdiv(n, block_n),)](
        a, b, c, m, n, k, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=8, num_warps=warps, num_stages=stages
    )


def shared_bytes(tensor: torch.Tensor) -> int:
    """Shared memory that a block may ask for on the tensor's GPU; none is needed on a CPU."""
    if not tensor.is_cuda:
        return 0
    properties: Any = torch.cuda.get_device_properties(tensor.device)
    return properties.shared_memory_per_block_optin


def few_products(a: torch.Tensor, b: torch.Tensor) -> str | None:
    m, n, k = sizes(a, b)
    if m * n * k > PYTHON_PRODUCTS:
        return f"takes up to {PYTHON_PRODUCTS} multiply-adds, not {m} x {n} x {k} = {m * n * k}"
    return None


def too_large(a: torch.Tensor, b: torch.Tensor) -> str | None:
    for name, size in zip("mnk", sizes(a, b), strict=True):
        if size > SIDE:
            return f"takes sizes up to {SIDE}, not {name} = {size}"
    return None


def copy_engine(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits of k12: a Hopper GPU, and rows that the copy engine can address."""
    if a.is_cuda and torch.cuda.get_device_capability(a.device) != (9, 0):
        return "takes a GPU of compute capability 9.0: its matrix products exist there alone"
    _, n, k = sizes(a, b)
    if n % 8 or k % 8:
        return f"takes n and k in multiples of 8, whose rows begin on 16 bytes, not n = {n} and k = {k}"
    if any(matrix.data_ptr() % 16 and matrix.is_contiguous() for matrix in (a, b)):
        return "takes a and b that begin on 16 bytes"
    return too_large(a, b)


def grid_of(tile: int, dimension: int) -> Callable[..., str | None]:
    """A rung's limits: 32-bit sizes, and 65535 tiles of ``tile`` in the dimension that grid.y counts (0: m, 1: n)."""

    def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
        if (size := sizes(a, b)[dimension]) > tile * GRID_Y:
            what = ("rows of a", "columns of b")[dimension]
            return f"takes up to {tile * GRID_Y} {what} (grid.y is 16 bits), not {size}"
        return too_large(a, b)

    return limits


def grid_of_tiles(a: torch.Tensor, b: torch.Tensor) -> str | None:
    m, n, _ = sizes(a, b)
    tiles = cdiv(m, 64) * cdiv(n, 64)
    return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}" if tiles >= 2**31 else too_large(a, b)


def rung(name: str, idea: str, launch: Launch, tile: int, dimension: int = 0) -> Rung:
    return make_rung(HERE, name, idea, launch, dtypes=KERNEL_DTYPES, limits=grid_of(tile, dimension))


RUNGS = (
    Rung("k01_python_loops", "three loops in Python", "python", python_loops, HERE / "k01_python_loops.py",
         dtypes=KERNEL_DTYPES, limits=few_products, devices=("cpu",)),
    Rung("k02_c_blocked", "the loops in C, in blocks for the cache", "c", c_blocked, HERE / "k02_c_blocked.c",
         dtypes=(torch.float32,), devices=("cpu",)),
    rung("k03_naive", "one thread an element, rows first", naive, 32, dimension=1),
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
)  # fmt: skip

_LIMITS = {rung.name: rung.limits for rung in RUNGS}


def default(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """Asynchronous copies for float32; for 2-byte types warpgroups where their tiles fill a Hopper GPU, else Triton;
    PyTorch for float64 and where a grid is too small."""
    if a.dtype == torch.float32:
        name = "k11_async_copies"
    elif a.is_cuda and cdiv(a.size(0), 128) * cdiv(b.size(1), 256) >= multiprocessors(a) and not copy_engine(a, b):
        name = "k12_warpgroups"
    else:
        name = "k10_triton_tiled"
    return None if a.dtype not in KERNEL_DTYPES or _LIMITS[name](a, b) else name
