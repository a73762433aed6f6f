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
THREADS, FILTERS, BLOCKS_PER_SM = 256, 32, 2  # kThreads, kMmaFilters
SUMS = 4 * FILTERS * PLANES * 9  # bytes of MmaWeights<8>::kFloats


def gradients(outputs: Any, sums: torch.Tensor, pairs: bool, y: torch.Tensor, *args: Any) -> torch.Tensor:
    """The gradients of a batch that is not empty from the parts ``sums`` (K, parts, 2) of the channels' sums.

    ``y`` is the convolution.

    Writes all outputs but the weight's gradient, and returns its parts, (parts, elements). ``pairs``: each row of a
    window is one 8-byte load.
    """
    dy, dmean, dvar, dconv, x, weight, gamma, beta, eps, mean, var, *_ = args
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
