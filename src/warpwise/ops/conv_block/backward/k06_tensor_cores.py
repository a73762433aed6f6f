"""The launches of both gradients on tensor cores: k06 by mma.sync, k07 by wgmma."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm.limits import HOPPER_SHARED
from warpwise.operation import cdiv, sm_count
from warpwise.ops._conv3x3 import flags
from warpwise.ops._conv3x3_mma import PLANES, QUADS, band, filter_bytes

HERE = Path(__file__).parent
KERNELS = cuda.load(HERE / "k06_tensor_cores.cu")
WARPGROUPS = cuda.load(HERE / "k07_warpgroups.cu")
THREADS, FILTERS, BLOCKS_PER_SM = 256, 32, 2  # kThreads, kMmaFilters
WGMMA_PIXELS, WGMMA_THREADS = 256, 512  # of a band: four tiles of kWgmmaPixels; kThreads of k07
SUMS = 4 * FILTERS * PLANES * 9  # bytes of MmaWeights<8>::kFloats


def gradients(outputs: Any, sums: torch.Tensor, pairs: bool, *args: Any) -> torch.Tensor:
    """The gradients of a batch that is not empty from the parts ``sums`` (K, parts, 2) of the channels' sums.

    Writes all outputs but the weight's gradient, and returns its parts, (parts, elements). ``pairs``: each row of a
    window is one 8-byte load.
    """
    dy, dmean, dvar, dconv, x, weight, gamma, beta, eps, mean, var, y, _ = args
    dx, dw, dgamma, dbeta = outputs
    n, k, h, w = y.shape
    c = x.shape[1]
    bands = band(h, w)
    most = max(1, BLOCKS_PER_SM * sm_count(y) // (bands.bands * cdiv(c, PLANES)))

    def launch(of_input: bool, of_weight: bool) -> torch.Tensor:
        chunks = 1 if of_input else cdiv(k, FILTERS)
        splits = min(n, max(1, most // chunks))
        partials = y.new_empty((splits * bands.bands if of_weight else 0, dw.numel()))
        quads = QUADS * (3 if of_weight else 2)
        shared = quads * bands.quad + (2 * filter_bytes(1) if of_input else 0) + bands.offsets
        kernel = KERNELS[f"gradients<{flags(of_input, of_weight, pairs, dconv is not None)}>"]
        kernel[splits * bands.bands * cdiv(c, PLANES) * chunks, THREADS, max(shared, SUMS)](
            *(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, sums.shape[1], x, weight),
            cuda.out(dx) if of_input else None,
            *(cuda.out(written) if of_weight else None for written in (dgamma, dbeta, partials)),
            *(n, c, h, w, k, eps, bands.rows, splits),
        )
        return partials

    together = dx is not None and k <= FILTERS
    if dx is not None and not together:
        launch(True, False)
    return launch(together, True)


def _wgmma_shared(h: int, w: int, of_input: bool) -> int:
    """Bytes of shared memory of a block of k07: both parts of d and of two chunks of filters, planes of d and x."""
    bands = band(h, w, WGMMA_PIXELS)
    d = 2 * 4 * FILTERS * 32 * cdiv(bands.rows * w, 32)
    filters = 2 * 2 * 4 * 5 * 32 * PLANES if of_input else 0
    return max(d + filters + 3 * QUADS * bands.quad + bands.offsets + 4 * bands.rows * w, SUMS)


def warpgroup_limits(input: torch.Tensor, weight: torch.Tensor) -> str | None:
    """The reason why k07 does not take them, or None."""
    if weight.shape[0] > FILTERS:
        return f"takes up to {FILTERS} filters, not {weight.shape[0]}"
    h, w = input.shape[2:]
    needed = _wgmma_shared(h, w, True)
    return f"needs {needed} bytes of shared memory, more than a block has" if needed > HOPPER_SHARED else None


def gradients_by_warpgroups(outputs: Any, sums: torch.Tensor, pairs: bool, *args: Any) -> torch.Tensor:
    """The same as ``gradients`` on Hopper, for up to 32 filters."""
    dy, dmean, dvar, dconv, x, weight, gamma, beta, eps, mean, var, y, _ = args
    dx, dw, dgamma, dbeta = outputs
    n, k, h, w = y.shape
    c = x.shape[1]
    bands = band(h, w, WGMMA_PIXELS)
    units = bands.bands * cdiv(c, PLANES)
    splits = max(1, min(n, sm_count(y) // units))
    partials = y.new_empty((splits * bands.bands, dw.numel()))
    kernel = WARPGROUPS[f"gradients<{flags(dx is not None, pairs, dconv is not None)}>"]
    kernel[splits * units, WGMMA_THREADS, _wgmma_shared(h, w, dx is not None)](
        *(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, sums.shape[1], x, weight),
        *(None if dx is None else cuda.out(dx), cuda.out(dgamma), cuda.out(dbeta), cuda.out(partials)),
        *(n, c, h, w, k, eps, bands.rows, splits),
    )
    return partials
