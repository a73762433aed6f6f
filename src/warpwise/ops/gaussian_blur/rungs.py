"""The ladder of gaussian_blur, slowest idea first, and its adjoint. All see (planes, height, width)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, make_rung
from warpwise.ops.gaussian_blur.weights import FIXED_BITS, computed, tensors, windows

HERE = Path(__file__).parent
BLOCK = (32, 8)
MAX_GRID = 65535  # in y and in z
MAX_TAPS = 127
MAX_UNROLLED_TAPS = 31
SHARED_BYTES = 99 * 1024  # of a block; every GPU since compute capability 8.0 has as much

DIRECT = cuda.load(HERE / "k01_direct.cu")
CONSTANT_WEIGHTS = {
    dtype: cuda.load(HERE / "k02_constant_weights.cu", define={"WEIGHT": cuda.ctype(dtype), "MAX_TAPS": MAX_TAPS})
    for dtype in (torch.float32, torch.float64, torch.int32)
}
SEPARABLE = cuda.load(HERE / "k03_separable.cu")
SHARED_TILE = cuda.load(HERE / "k04_shared_tile.cu")
REGISTER_WINDOW = cuda.load(HERE / "k05_register_window.cu")
BACKWARD_SEPARABLE = cuda.load(HERE / "k01_backward_separable.cu")


def _extents(image: torch.Tensor) -> tuple[int, int, int]:
    """Planes, height, width."""
    height, width = image.shape[-2:]
    return image.numel() // (height * width), height, width


def _grid(image: torch.Tensor, tile_x: int, tile_y: int) -> tuple[int, int, int]:
    planes, height, width = _extents(image)
    return cdiv(width, tile_x), cdiv(height, tile_y), min(planes, MAX_GRID)


def direct(out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    weights = tensors(image, kernel_size, sigma)
    kernel = DIRECT[f"gaussian_blur<{cuda.ctype(image.dtype)}>"]
    radii = (taps // 2 for taps in kernel_size)
    kernel[_grid(image, *BLOCK), BLOCK](image, cuda.out(out), *weights, *_extents(image), *radii)


_constants_hold: dict[torch.dtype, object] = {}


def _with_constants(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> cuda.Module:
    """The module whose constant memory holds these windows; it is filled again only when others are wanted."""
    dtype, wanted = computed(image.dtype), (tuple(kernel_size), tuple(sigma))
    module = CONSTANT_WEIGHTS[dtype]
    if _constants_hold.get(dtype) != wanted:
        filled = torch.zeros(2, MAX_TAPS, dtype=dtype)
        for row, weights in zip(filled, windows(kernel_size, sigma, image.dtype), strict=True):
            row[: len(weights)] = torch.tensor(weights, dtype=dtype)
        module.set_constant("weights", filled)
        _constants_hold[dtype] = wanted
    return module


def constant_weights(
    out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]
) -> None:
    module = _with_constants(image, kernel_size, sigma)
    kernel = module[f"gaussian_blur<{cuda.ctype(image.dtype)}>"]
    radii = (taps // 2 for taps in kernel_size)
    kernel[_grid(image, *BLOCK), BLOCK](image, cuda.out(out), *_extents(image), *radii)


def separable(out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    weights_x, weights_y = tensors(image, kernel_size, sigma)
    sums = torch.empty_like(image, dtype=computed(image.dtype))
    grid, extents, ctype = _grid(image, *BLOCK), _extents(image), cuda.ctype(image.dtype)
    rows, columns = SEPARABLE[f"along_rows<{ctype}>"], SEPARABLE[f"along_columns<{ctype}>"]
    rows[grid, BLOCK](image, cuda.out(sums), weights_x, *extents, kernel_size[0] // 2)
    columns[grid, BLOCK](sums, cuda.out(out), weights_y, *extents, kernel_size[1] // 2)


def _shared_bytes(image: torch.Tensor, kernel_size: Sequence[int]) -> int:
    rows, columns = 31 + kernel_size[1], 31 + kernel_size[0]
    return rows * (32 * computed(image.dtype).itemsize + columns * image.element_size())


def shared_tile(out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    weights, radii = tensors(image, kernel_size, sigma), (taps // 2 for taps in kernel_size)
    kernel = SHARED_TILE[f"gaussian_blur<{cuda.ctype(image.dtype)}>"]
    launch = kernel[_grid(image, 32, 32), BLOCK, _shared_bytes(image, kernel_size)]
    launch(image, cuda.out(out), *weights, *_extents(image), *radii)


def register_window(out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    weights = tensors(image, kernel_size, sigma)
    kernel = REGISTER_WINDOW[f"gaussian_blur<{cuda.ctype(image.dtype)}, {kernel_size[0]}, {kernel_size[1]}>"]
    kernel[_grid(image, 64, 32), 256](image, cuda.out(out), *weights, *_extents(image))


def triton(out: torch.Tensor, image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> None:
    import triton.language as tl

    from warpwise.ops.gaussian_blur.k06_triton import blur_along

    weights_x, weights_y = tensors(image, kernel_size, sigma)
    planes, height, width = _extents(image)
    fixed, block = image.dtype == torch.uint8, 1024
    sums = torch.empty_like(image, dtype=computed(image.dtype))
    total = tl.int64 if fixed else tl.float64 if image.dtype == torch.float64 else tl.float32
    launch = blur_along[(planes * cdiv(height * width, block),)]
    sizes = {"SUM": total, "BLOCK": block, "num_warps": 4}
    launch(image, weights_x, sums, height * width, width, 1, TAPS=kernel_size[0], SHIFT=0, **sizes)
    shift = 2 * FIXED_BITS if fixed else 0
    launch(sums, weights_y, out, height * width, height, width, TAPS=kernel_size[1], SHIFT=shift, **sizes)


def backward_separable(
    out: torch.Tensor, grad: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]
) -> None:
    weights_x, weights_y = tensors(grad, kernel_size, sigma)
    sums = torch.empty_like(grad, dtype=computed(grad.dtype))
    grid, extents = _grid(grad, *BLOCK), _extents(grad)
    pixel, total = cuda.ctype(grad.dtype), cuda.ctype(sums.dtype)
    down = BACKWARD_SEPARABLE[f"blur_backward<{pixel}, {total}, {total}, true>"]
    across = BACKWARD_SEPARABLE[f"blur_backward<{total}, {pixel}, {total}, false>"]
    down[grid, BLOCK](grad, cuda.out(sums), weights_y, *extents, kernel_size[1] // 2)
    across[grid, BLOCK](sums, cuda.out(out), weights_x, *extents, kernel_size[0] // 2)


def _grid_y(image: torch.Tensor, *_: object) -> str | None:
    blocks = cdiv(image.size(-2), BLOCK[1])
    return f"needs {blocks} blocks in y, beyond the {MAX_GRID} of a grid" if blocks > MAX_GRID else None


def _taps(most: int, kernel_size: Sequence[int]) -> str | None:
    return f"takes up to {most} taps an axis, not {tuple(kernel_size)}" if max(kernel_size) > most else None


def _constant_limits(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    return _taps(MAX_TAPS, kernel_size) or _grid_y(image)


def _shared_limits(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    if (needed := _shared_bytes(image, kernel_size)) > SHARED_BYTES:
        return f"needs {needed:,} bytes of shared memory for a tile with its halo, beyond {SHARED_BYTES:,}"
    return _grid_y(image)


def _window_limits(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    rows, columns = 31 + kernel_size[1], (63 + kernel_size[0] + 3) // 4 * 4
    if (needed := rows * (columns + 64) * computed(image.dtype).itemsize) > 48 * 1024:
        return f"needs {needed:,} bytes of static shared memory for a tile with its halo, beyond 49,152"
    return _taps(MAX_UNROLLED_TAPS, kernel_size) or _grid_y(image)


def _plane_limits(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    area = image.size(-1) * image.size(-2)
    return f"counts a plane's pixels in 32 bits, too few for {area:,}" if area >= 2**31 - 1024 else None


RUNGS = (
    make_rung(HERE, "k01_direct", "one thread a pixel, the whole window", direct, limits=_grid_y),
    make_rung(HERE, "k02_constant_weights", "weights in constant memory", constant_weights, limits=_constant_limits),
    make_rung(HERE, "k03_separable", "two passes of one axis each", separable, limits=_grid_y),
    make_rung(HERE, "k04_shared_tile", "both passes on a tile in shared memory", shared_tile, limits=_shared_limits),
    make_rung(HERE, "k05_register_window", "windows and weights in registers", register_window, limits=_window_limits),
    make_rung(HERE, "k06_triton", "two passes in Triton", triton, limits=_plane_limits),
)

BACKWARD_RUNGS = (
    make_rung(
        HERE, "k01_backward_separable", "the adjoint gathers, one axis a pass", backward_separable, limits=_grid_y
    ),
)


def default(image: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    if _window_limits(image, kernel_size, sigma) is None:
        return "k05_register_window"
    if _shared_limits(image, kernel_size, sigma) is None:
        return "k04_shared_tile"
    return "k03_separable" if _grid_y(image) is None else None


def backward_default(grad: torch.Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> str | None:
    return "k01_backward_separable" if _grid_y(grad) is None else None
