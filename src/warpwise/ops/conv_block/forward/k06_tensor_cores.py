"""The launches of the convolution on tensor cores: k06 by mma.sync, k07 by wgmma."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.device.limits import HOPPER_SHARED
from warpwise.operation import cdiv, sm_count
from warpwise.ops._conv3x3 import flags
from warpwise.ops._conv3x3_mma import PLANES, QUADS, Band, band, filter_bytes
from warpwise.ops.conv_block.spec import Four

HERE = Path(__file__).parent
KERNELS = cuda.load(HERE / "k06_tensor_cores.cu")
WARPGROUPS = cuda.load(HERE / "k07_warpgroups.cu")
WGMMA_PIXELS, WGMMA_FILTERS, WGMMA_THREADS = 256, 32, 512  # a band has four tiles of kWgmmaPixels; kWgmmaFilters
WGMMA_FILTER_BYTES = 4 * 2 * 5 * 32 * WGMMA_FILTERS  # WgmmaFilters::kFloats
POOL_THREADS = 256  # kPoolThreads
MOST_RESIDENT = 96 * 1024  # bytes of shared memory of a block of k06 that keeps all its filters


def warpgroup_bytes(bands: Band, chunks: int) -> int:
    """Shared memory of a block of wgmma that keeps the filters of ``chunks`` chunks of planes."""
    return 2 * QUADS * bands.quad + bands.offsets + chunks * WGMMA_FILTER_BYTES


def warpgroups_fit(h: int, w: int, channels: int) -> bool:
    """True if a block of wgmma keeps the filters of all ``channels``: one block is resident on an SM anyway."""
    return warpgroup_bytes(band(h, w, WGMMA_PIXELS), cdiv(channels, PLANES)) <= HOPPER_SHARED


def convolve(input: torch.Tensor, weight: torch.Tensor, convolved: torch.Tensor) -> torch.Tensor:
    """``convolved`` = the convolution of N > 0 images; returns the partial statistics (K, parts, 3)."""
    n, c, h, w = input.shape
    k = weight.shape[0]
    tiles, chunks = 1 if k <= PLANES else 2, cdiv(c, PLANES)
    bands, sms = band(h, w), sm_count(input)
    planes = 2 * QUADS * bands.quad + bands.offsets
    resident = planes + chunks * filter_bytes(tiles) <= MOST_RESIDENT
    shared = planes + (chunks if resident else 1) * filter_bytes(tiles)
    units = bands.bands * cdiv(k, PLANES * tiles)  # blocks that take an image
    warps, count, blocks_per_sm = (8, 4, 2) if n * units <= 2 * sms else (4, 7, 3)
    splits = max(1, min(n, blocks_per_sm * sms // units))
    parts = splits * bands.bands * warps
    partials = input.new_empty((k, parts, 3))
    kernel = KERNELS[f"convolution_with_statistics<{warps}, {tiles}, {count}, {flags(resident)}>"]
    kernel[splits * units, 32 * warps, shared](
        *(input, weight, cuda.out(convolved), cuda.out(partials), parts, n, c, h, w, k, bands.rows, splits)
    )
    return partials


def convolve_by_warpgroups(input: torch.Tensor, weight: torch.Tensor, convolved: torch.Tensor) -> torch.Tensor:
    """The same on Hopper."""
    n, c, h, w = input.shape
    k = weight.shape[0]
    chunks, bands, sms = cdiv(c, PLANES), band(h, w, WGMMA_PIXELS), sm_count(input)
    resident = warpgroups_fit(h, w, c)
    units = bands.bands * cdiv(k, WGMMA_FILTERS)  # blocks that take an image
    splits = max(1, min(n, sms // units))
    partials = input.new_empty((k, splits * bands.bands, 3))
    kernel = WARPGROUPS[f"convolution_with_statistics<{flags(resident)}>"]
    kernel[splits * units, WGMMA_THREADS, warpgroup_bytes(bands, chunks if resident else 1)](
        *(input, weight, cuda.out(convolved), cuda.out(partials)),
        *(splits * bands.bands, n, c, h, w, k, bands.rows, splits),
    )
    return partials


def normalise_and_pool(
    outputs: Four,
    convolved: torch.Tensor,
    partials: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
) -> None:
    """The outputs but the convolution, from it and its partial statistics."""
    output, mean, var, _ = outputs
    n, k, h, w = convolved.shape
    blocks = max(1, min(cdiv(output.numel() // k, 2 * POOL_THREADS), 8 * sm_count(output) // k))
    kernel = WARPGROUPS[f"normalise_and_pool<{flags(w % 2 == 0)}>"][(blocks, k), POOL_THREADS]
    statistics = (cuda.out(mean), cuda.out(var), cuda.out(output))
    kernel(convolved, partials, gamma, beta, *statistics, partials.shape[1], n, k, h, w, eps)
