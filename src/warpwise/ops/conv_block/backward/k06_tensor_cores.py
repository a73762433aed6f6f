"""The launch of both gradients on tensor cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._conv3x3 import flags
from warpwise.ops._conv3x3_mma import PLANES, QUADS, band, filter_bytes

KERNELS = cuda.load(Path(__file__).with_suffix(".cu"))
FILTERS, WARPS_PER_SM = 32, 16  # kMmaFilters
SUMS = 4 * FILTERS * PLANES * 9  # bytes of MmaWeights<8>::kFloats


def gradients(
    outputs: Any, sums: torch.Tensor, settled: bool, pairs: bool, y: torch.Tensor, *args: Any
) -> torch.Tensor:
    """The gradients of a non-empty batch from ``sums`` (K, parts, 2), the partial sums of the channels.

    ``y`` is the convolution. ``settled``: the previous kernel writes none of the tensors but ``sums``.

    Writes all outputs but the weight's gradient, and returns its parts, (parts, elements). ``pairs``: each row of a
    window is one 8-byte load.
    """
    dy, dmean, dvar, dconv, x, weight, gamma, beta, eps, mean, var, *_ = args
    dx, dw, dgamma, dbeta = outputs
    n, k, h, w = y.shape
    c = x.shape[1]
    bands = band(h, w)
    sms, blocks = sm_count(y), bands.bands * cdiv(c, PLANES)  # blocks of an image
    even = pairs and h % 2 == 0 and bands.bands == 1
    threads = 512 if n * blocks <= sms else 256
    most = max(1, 32 * WARPS_PER_SM // threads * sms // blocks)

    def launch(of_input: bool, of_weight: bool) -> torch.Tensor:
        chunks = 1 if of_input else cdiv(k, FILTERS)
        whole = even and (of_weight or k % FILTERS == 0)  # a block of dx alone loops over the filters
        splits = min(n, max(1, most // chunks))
        partials = y.new_empty((splits * bands.bands if of_weight else 0, dw.numel()))
        quads = QUADS * (3 if of_weight else 2)
        shared = quads * bands.quad + (2 * filter_bytes(1) if of_input else 0) + bands.offsets
        shared += h * w if whole else 0  # 4 bytes per window
        kernel = KERNELS[f"gradients<{threads}, {flags(of_input, of_weight, pairs, whole, dconv is not None)}>"]
        kernel[splits * bands.bands * cdiv(c, PLANES) * chunks, threads, max(shared, SUMS)](
            *(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, sums.shape[1], x, weight),
            cuda.out(dx) if of_input else None,
            *(cuda.out(written) if of_weight else None for written in (dgamma, dbeta, partials)),
            *(n, c, h, w, k, eps, bands.rows, splits, settled),
        )
        return partials

    together = dx is not None and k <= FILTERS
    if dx is not None and not together:
        launch(True, False)
    return launch(together, True)
