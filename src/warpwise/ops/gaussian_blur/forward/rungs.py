"""The ladder of gaussian_blur, slowest idea first. Kernels take (planes, height, width)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung
from warpwise.ops.gaussian_blur._launch import BLOCK, extents, grid, grid_limit
from warpwise.ops.gaussian_blur.weights import FIXED_BITS, computed, tensors, windows

HERE = Path(__file__).parent
MAX_TAPS = 127
MAX_UNROLLED_TAPS = 31
SHARED_BYTES = 99 * 1024  # of a block, on every GPU of compute capability 8.0 and later

DIRECT = cuda.load(HERE / "k01_direct.cu")
CONSTANT_WEIGHTS = {
    dtype: cuda.load(HERE / "k02_constant_weights.cu", define={"WEIGHT": cuda.ctype(dtype), "MAX_TAPS": MAX_TAPS})
    for dtype in (torch.float32, torch.float64, torch.int32)
}
SEPARABLE = cuda.load(HERE / "k03_separable.cu")
SHARED_TILE = cuda.load(HERE / "k04_shared_tile.cu")
REGISTER_WINDOW = cuda.load(HERE / "k05_register_window.cu")


def direct(out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    weights = tensors(image, kernel_size, sigma)
    kernel = DIRECT[f"gaussian_blur<{cuda.ctype(image.dtype)}>"]
    radii = (taps // 2 for taps in kernel_size)
    kernel[grid(image), BLOCK](image, cuda.out(out), *weights, *extents(image), *radii)


_written: dict[torch.dtype, object] = {}


def _with_constants(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> cuda.Module:
    """The module with these windows in its constant memory; equal windows are not copied again."""
    dtype, wanted = computed(image.dtype), (tuple(kernel_size), tuple(sigma))
    module = CONSTANT_WEIGHTS[dtype]
    if _written.get(dtype) != wanted:
        filled = torch.zeros(2, MAX_TAPS, dtype=dtype)
        for row, weights in zip(filled, windows(kernel_size, sigma, image.dtype), strict=True):
            row[: len(weights)] = torch.tensor(weights, dtype=dtype)
        module.set_constant("weights", filled)
        _written[dtype] = wanted
    return module


def constant_weights(
    out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]
) -> None:
    module = _with_constants(image, kernel_size, sigma)
    kernel = module[f"gaussian_blur<{cuda.ctype(image.dtype)}>"]
    radii = (taps // 2 for taps in kernel_size)
    kernel[grid(image), BLOCK](image, cuda.out(out), *extents(image), *radii)


def separable(out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    weights_x, weights_y = tensors(image, kernel_size, sigma)
    sums = torch.empty_like(image, dtype=computed(image.dtype))
    shape, ctype = extents(image), cuda.ctype(image.dtype)
    rows, columns = SEPARABLE[f"along_rows<{ctype}>"], SEPARABLE[f"along_columns<{ctype}>"]
    rows[grid(image), BLOCK](image, cuda.out(sums), weights_x, *shape, kernel_size[0] // 2)
    columns[grid(image), BLOCK](sums, cuda.out(out), weights_y, *shape, kernel_size[1] // 2)


def _shared_bytes(image: torch.Tensor, kernel_size: Sequence[int]) -> int:
    rows, columns = 31 + kernel_size[1], 31 + kernel_size[0]
    return rows * (32 * computed(image.dtype).itemsize + columns * image.element_size())


def shared_tile(out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    weights, radii = tensors(image, kernel_size, sigma), (taps // 2 for taps in kernel_size)
    kernel = SHARED_TILE[f"gaussian_blur<{cuda.ctype(image.dtype)}>"]
    launch = kernel[grid(image, 32, 32), BLOCK, _shared_bytes(image, kernel_size)]
    launch(image, cuda.out(out), *weights, *extents(image), *radii)


def register_window(out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    weights = tensors(image, kernel_size, sigma)
    kernel = REGISTER_WINDOW[f"gaussian_blur<{cuda.ctype(image.dtype)}, {kernel_size[0]}, {kernel_size[1]}>"]
    kernel[grid(image, 64, 32), 256](image, cuda.out(out), *weights, *extents(image))


def triton(out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    import triton.language as tl

    from warpwise.ops.gaussian_blur.forward.k06_triton import blur_along

    weights_x, weights_y = tensors(image, kernel_size, sigma)
    planes, height, width = extents(image)
    fixed, block = image.dtype == torch.uint8, 1024
    sums = torch.empty_like(image, dtype=computed(image.dtype))
    total = tl.int64 if fixed else tl.float64 if image.dtype == torch.float64 else tl.float32
    launch = blur_along[(planes * cdiv(height * width, block),)]
    sizes = {"SUM": total, "BLOCK": block, "num_warps": 4}
    launch(image, weights_x, sums, height * width, width, 1, TAPS=kernel_size[0], SHIFT=0, **sizes)
    shift = 2 * FIXED_BITS if fixed else 0
    launch(sums, weights_y, out, height * width, height, width, TAPS=kernel_size[1], SHIFT=shift, **sizes)


def _taps(most: int, kernel_size: Sequence[int]) -> str | None:
    return f"takes up to {most} taps an axis, not {tuple(kernel_size)}" if max(kernel_size) > most else None


def _constant_limits(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    return _taps(MAX_TAPS, kernel_size) or grid_limit(image)


def _shared_limits(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    if (needed := _shared_bytes(image, kernel_size)) > SHARED_BYTES:
        return f"needs {needed:,} bytes of shared memory for a tile with its halo, beyond {SHARED_BYTES:,}"
    return grid_limit(image)


def _window_limits(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    rows, columns = 31 + kernel_size[1], (63 + kernel_size[0] + 3) // 4 * 4
    if (needed := rows * (columns + 64) * computed(image.dtype).itemsize) > 48 * 1024:
        return f"needs {needed:,} bytes of static shared memory for a tile with its halo, beyond 49,152"
    return _taps(MAX_UNROLLED_TAPS, kernel_size) or grid_limit(image)


def _plane_limits(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    area = image.size(-1) * image.size(-2)
    return f"counts the pixels of a plane in 32 bits, which cannot hold {area:,}" if area >= 2**31 - 1024 else None


RUNGS = (
    make_rung(HERE, "k01_direct", "one thread per pixel, the whole window", direct, limits=grid_limit),
    make_rung(HERE, "k02_constant_weights", "weights in constant memory", constant_weights, limits=_constant_limits),
    make_rung(HERE, "k03_separable", "two passes of one axis each", separable, limits=grid_limit),
    make_rung(HERE, "k04_shared_tile", "both passes on a tile in shared memory", shared_tile, limits=_shared_limits),
    make_rung(HERE, "k05_register_window", "windows and weights in registers", register_window, limits=_window_limits),
    make_rung(HERE, "k06_triton", "two passes in Triton", triton, limits=_plane_limits),
)


def default(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    if _window_limits(image, kernel_size, sigma) is None:
        return "k05_register_window"
    if _shared_limits(image, kernel_size, sigma) is None:
        return "k04_shared_tile"
    return "k03_separable" if grid_limit(image) is None else None
