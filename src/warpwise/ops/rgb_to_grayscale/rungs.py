"""The ladder of rgb_to_grayscale. k02 and k05 are for planar images, k03 for interleaved ones.

k01 and k04 take any strides.
"""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._packs import PACK_BLOCK, pack_blocks

HERE = Path(__file__).parent
BLOCK = 256
MAX_GRID_Y = 65535
WAVE = 2048  # threads of an SM

THREAD_PER_PIXEL = cuda.load(HERE / "k01_thread_per_pixel.cu")
PLANAR_PACKS = cuda.load(HERE / "k02_planar_packs.cu")
INTERLEAVED_PACKS = cuda.load(HERE / "k03_interleaved_packs.cu")
SHIFTED_WORDS = cuda.load(HERE / "k05_shifted_words.cu")


def _batch(image: torch.Tensor) -> torch.Tensor:
    return image if image.dim() == 4 else image.unsqueeze(0)


def _kernel(module: cuda.Module, image: torch.Tensor) -> cuda.Kernel:
    return module[f"rgb_to_grayscale<{cuda.ctype(image.dtype)}>"]


def thread_per_pixel(out: torch.Tensor, image: torch.Tensor) -> None:
    n, _, height, width = _batch(image).shape
    kernel = _kernel(THREAD_PER_PIXEL, image)[cdiv(out.numel(), BLOCK), BLOCK]
    kernel(cuda.strided(image), cuda.out(out), n, height, width, *_batch(image).stride())


def pack_bytes(out: torch.Tensor) -> int:
    """Bytes per thread: 4 up to an eighth of a wave of threads, 8 up to two waves, else 16; at least an element."""
    wave, size = WAVE * sm_count(out), out.numel() * out.element_size()
    return max(out.element_size(), 4 if 8 * size <= 4 * wave else 8 if size <= 2 * 8 * wave else 16)


def _planar(module: cuda.Module, out: torch.Tensor, image: torch.Tensor, blocks: int, bytes: int) -> None:
    n, _, height, width = _batch(image).shape
    kernel = module[f"rgb_to_grayscale<{cuda.ctype(image.dtype)}, {bytes}>"]
    kernel[(blocks, min(n, MAX_GRID_Y)), PACK_BLOCK](image, cuda.out(out), n, height * width)


def planar_packs(out: torch.Tensor, image: torch.Tensor) -> None:
    bytes = pack_bytes(out)
    blocks = pack_blocks(out.size(-1) * out.size(-2), out.element_size(), bytes)
    _planar(PLANAR_PACKS, out, image, blocks, bytes)


def shifted_words(out: torch.Tensor, image: torch.Tensor) -> None:
    bytes = pack_bytes(out)
    size = bytes // out.element_size()
    # Up to 4 * size - 2 pixels of a plane are not in a pack.
    blocks = cdiv(out.size(-1) * out.size(-2) // size + 4 * size, PACK_BLOCK)
    _planar(SHIFTED_WORDS, out, image, blocks, bytes)


def interleaved_packs(out: torch.Tensor, image: torch.Tensor) -> None:
    blocks = cdiv(out.numel() * image.element_size(), 16 * BLOCK)
    _kernel(INTERLEAVED_PACKS, image)[blocks, BLOCK](cuda.strided(image), cuda.out(out), out.numel())


def triton(out: torch.Tensor, image: torch.Tensor) -> None:
    from warpwise.ops.rgb_to_grayscale.k04_triton import rgb_to_grayscale

    batch, block = _batch(image), 1024
    if batch.stride(2) != batch.stride(3) * batch.size(3):
        batch = batch.contiguous()
    n, _, height, width = batch.shape
    blocks = cdiv(height * width, block)
    rgb_to_grayscale[(n * blocks,)](
        batch, out, height * width, blocks, *batch.stride()[:2], batch.stride(3), BLOCK=block, num_warps=4
    )


def interleaved(image: torch.Tensor) -> bool:
    """True if ``image`` (N, 3, H, W) or (3, H, W) is stored as (N, H, W, 3) without gaps."""
    return _batch(image).permute(0, 2, 3, 1).is_contiguous()


def _not_interleaved(image: torch.Tensor) -> str | None:
    return None if interleaved(image) else "takes interleaved pixels (channels last in memory) without gaps"


RUNGS = (
    make_rung(HERE, "k01_thread_per_pixel", "one thread per pixel, any strides", thread_per_pixel, strided=True),
    make_rung(HERE, "k02_planar_packs", "up to 16 bytes of each plane per thread", planar_packs),
    make_rung(
        HERE,
        "k03_interleaved_packs",
        "48 bytes of interleaved pixels per thread",
        interleaved_packs,
        limits=_not_interleaved,
        strided=True,
    ),
    make_rung(
        HERE,
        "k04_triton",
        "blocks of pixels in Triton, any strides",
        triton,
        # Triton rounds the literal weights to float32, too coarse for float64.
        dtypes=(torch.uint8, torch.float32, torch.float16, torch.bfloat16),
        strided=True,
    ),
    make_rung(HERE, "k05_shifted_words", "packs of each plane, of any alignment", shifted_words),
)


def default(image: torch.Tensor) -> str:
    """k03 for interleaved images, k01 for other strides; k02 for planes that are multiples of 16 bytes, else k05."""
    if interleaved(image):
        return "k03_interleaved_packs"
    if not image.is_contiguous():
        return "k01_thread_per_pixel"
    plane = image.size(-1) * image.size(-2) * image.element_size()
    return "k02_planar_packs" if plane % 16 == 0 and image.data_ptr() % 16 == 0 else "k05_shifted_words"
