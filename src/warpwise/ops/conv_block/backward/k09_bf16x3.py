"""The launch of both gradients from three bfloat16 parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._conv3x3 import flags
from warpwise.ops._conv3x3_mma import MOST_PIXELS, PLANES, mma_limits
from warpwise.ops.conv_block.backward.k06_tensor_cores import FILTERS, SUMS, WARPS_PER_SM

KERNELS = cuda.load(Path(__file__).with_suffix(".cu"))
POSITION = (6 * FILTERS + 16) + (6 * PLANES + 16)  # bytes of a position: kPitch of BfGradient and of BfImage
FILTER_BYTES = 9 * 2 * 3 * 512  # of BfFilters


def limits(*args: Any) -> str | None:
    """The reason why a block does not take the arguments of the backward, or None."""
    dconv, input, weight, convolved, needs_input = args[3], args[4], args[5], args[11], args[12]
    h, w = input.shape[2:]
    if h % 2 or w % 2 or h * w > MOST_PIXELS or len(weight) > FILTERS or not needs_input:
        return (
            f"takes images of even sides and up to {MOST_PIXELS} pixels, up to {FILTERS} filters, and computes the "
            f"gradient of the input, not {h} x {w} and {len(weight)} filters"
        )
    if any(tensor is not None and tensor.data_ptr() % 8 for tensor in (convolved, dconv) if not input.is_meta):
        return "takes a convolution and its gradient aligned to 8 bytes"
    return mma_limits(input)


def gradients(outputs: Any, sums: torch.Tensor, y: torch.Tensor, *args: Any) -> torch.Tensor:
    """As ``k06_tensor_cores.gradients``."""
    dy, dmean, dvar, dconv, x, weight, gamma, beta, eps, mean, var, *_ = args
    dx, dw, dgamma, dbeta = outputs
    n, k, h, w = y.shape
    c = x.shape[1]
    sms, tiles = sm_count(y), cdiv(c, PLANES)
    threads = 512 if n * tiles <= sms else 256
    splits = n if threads == 512 else min(n, max(1, 32 * WARPS_PER_SM // threads * sms // tiles))
    partials = y.new_empty((splits, dw.numel()))
    shared = (h + 2) * (w + 2) * POSITION + FILTER_BYTES + 4 * (h + 2) * w + h * w  # 4 bytes per window
    KERNELS[f"gradients<{threads}, {flags(dconv is not None)}>"][splits * tiles, threads, max(shared, SUMS)](
        *(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, sums.shape[1], x, weight),
        *(cuda.out(written) for written in (dx, dgamma, dbeta, partials)),
        *(n, c, h, w, k, eps, splits),
    )
    return partials
