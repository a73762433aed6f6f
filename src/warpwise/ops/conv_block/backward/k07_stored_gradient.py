"""The launches of both gradients of the convolution from its stored gradient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._conv3x3 import flags
from warpwise.ops._conv3x3_mma import PLANES, QUADS, Band, band
from warpwise.ops.conv_block.forward.k06_tensor_cores import (
    WGMMA_FILTERS,
    WGMMA_PIXELS,
    warpgroup_bytes,
    warpgroups_fit,
)

KERNELS = cuda.load(Path(__file__).with_suffix(".cu"))
INPUT_THREADS, WEIGHT_THREADS, FILTERS = 512, 192, 64  # kInputThreads, kWeightThreads, kFilters
WEIGHT_BLOCKS_PER_SM, PIXELS_OF_IMAGE = 2, 40
STORE_THREADS, STORE_BLOCKS_PER_SM = 256, 4  # kStoreThreads


def grad_convolved(outputs: Any, sums: torch.Tensor, pairs: bool, y: torch.Tensor, *args: Any) -> torch.Tensor:
    """The gradient of the convolution ``y`` (N, K, H, W), from ``sums`` (K, parts, 2), partial sums of the channels.

    Writes the gradients of gamma and beta. ``pairs``: each row of a window is one 8-byte load.
    """
    dy, dmean, dvar, dconv, _, _, gamma, beta, eps, mean, var, *_ = args
    dgamma, dbeta = outputs[2:]
    n, k, h, w = y.shape
    d = torch.empty_like(y)
    blocks = max(1, min(cdiv(n * cdiv(h, 2) * cdiv(w, 2), 4 * STORE_THREADS), STORE_BLOCKS_PER_SM * sm_count(y) // k))
    kernel = KERNELS[f"store_gradient<{flags(pairs, dconv is not None)}>"][(blocks, k), STORE_THREADS]
    kernel(
        *(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, sums.shape[1]),
        *(cuda.out(d), cuda.out(dgamma), cuda.out(dbeta), n, k, h, w, eps),
    )
    return d


def grad_input(d: torch.Tensor, weight: torch.Tensor, dx: torch.Tensor) -> None:
    """``dx`` (N, C, H, W) from the gradient of the convolution ``d`` (N, K, H, W), N > 0."""
    n, c, h, w = dx.shape
    k = weight.shape[0]
    tiles, chunks, resident, sms = cdiv(c, WGMMA_FILTERS), cdiv(k, PLANES), warpgroups_fit(h, w, k), sm_count(d)

    def splits_of(bands: Band) -> int:
        return max(1, min(n, sms // (bands.bands * tiles)))

    def pixels(bands: Band) -> int:
        """The pixels of a block, with those that take as long as the work of an image besides its products."""
        return cdiv(n, splits_of(bands)) * (bands.rows * w + PIXELS_OF_IMAGE)

    bands = min((band(h, w, WGMMA_PIXELS // parts) for parts in (1, 2) if WGMMA_PIXELS // parts >= w), key=pixels)
    splits = splits_of(bands)
    units = bands.bands * tiles  # blocks of an image
    kernel = KERNELS[f"grad_input<{flags(resident)}>"]
    kernel[splits * units, INPUT_THREADS, warpgroup_bytes(bands, chunks if resident else 1)](
        d, weight, cuda.out(dx), n, c, h, w, k, bands.rows, splits
    )


def grad_weight(x: torch.Tensor, d: torch.Tensor, elements: int) -> torch.Tensor:
    """The parts, (parts, elements), of the gradient of the weight."""
    n, c, h, w = x.shape
    k = d.shape[1]
    bands = band(h, w, WGMMA_PIXELS)
    units = bands.bands * cdiv(c, PLANES) * cdiv(k, FILTERS)
    splits = max(1, min(n, WEIGHT_BLOCKS_PER_SM * sm_count(x) // units))
    partials = x.new_empty((splits * bands.bands, elements))
    shared = max((QUADS + FILTERS // 4) * bands.quad + bands.offsets, 4 * FILTERS * PLANES * 9)
    KERNELS["grad_weight"][splits * units, WEIGHT_THREADS, shared](
        x, d, cuda.out(partials), n, c, h, w, k, bands.rows, splits
    )
    return partials
