"""The ladder of block_cross_entropy_gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.cuda.gpu.branch import gradients_aside
from warpwise.device.limits import HOPPER_SHARED, SM_SHARED, requires_ampere, shared_bytes
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops._defaults import first_taking
from warpwise.ops.linear_backward.op import LINEAR_BACKWARD
from warpwise.ops.linear_cross_entropy.after_block.spec import DTYPES, ROWS, SPEC, Results
from warpwise.ops.linear_cross_entropy.spec import Optional

HERE = Path(__file__).parent
THREADS, CHANNELS, UNITS, CLASSES, LOSS_ROWS = 256, 2, 128, 16, 2  # kThreads, kChannels and so on
ALONE = SM_SHARED // 2 - 512  # shared memory of a block, in bytes, so that an SM has one and room for other kernels
KERNELS = cuda.load(HERE / "k01_three_launches.cu")


def _tiles(k: int, plane: int) -> int:
    """Tiles of eight columns of a slab."""
    slabs = ((first * plane, min(k, first + CHANNELS) * plane) for first in range(0, k, CHANNELS))
    return max(cdiv(end - begin // 4 * 4, 8) for begin, end in slabs)


def _pitches(k: int, plane: int) -> tuple[int, int]:
    """Floats of a row of a slab in pool_and_multiply, 4 modulo 8, and in gradient_of_pooled, 8 modulo 16.

    The latter has columns for a whole number of warps, of two tiles each.
    """
    tiles = _tiles(k, plane)
    return 8 * tiles + 4, 8 * (cdiv(tiles, 2) * 2 + 1)


def _shared(convolved: torch.Tensor, parts: int) -> tuple[int, int]:
    """Bytes of shared memory of pool_and_multiply, and of gradient_of_pooled."""
    _, k, h, w = convolved.shape
    of_pooling, of_gradient = _pitches(k, (h // 2) * (w // 2))
    staged = CHANNELS * (ROWS * h * w + 3 * parts)
    return 4 * ((ROWS + UNITS) * of_pooling + staged), 4 * (UNITS * of_gradient + ROWS * (UNITS + 4))


def limits(convolved: torch.Tensor, *rest: Any) -> str | None:
    n, k, h, w = convolved.shape
    plane, weight, classes = (h // 2) * (w // 2), rest[4], len(rest[6])
    units, features = weight.shape
    if reason := requires_ampere(convolved):
        return reason
    if not (n and k and plane) or features % 4 or units % 4 or not 0 < units <= UNITS or classes > CLASSES:
        return (
            f"takes images, {UNITS} hidden units and {CLASSES} classes at most, and multiples of 4 features and units, "
            f"not {n} x {features}, {units} units and {classes} classes"
        )
    if any(tensor.data_ptr() % 16 for tensor in (weight, rest[5], rest[6])):
        return "takes hidden_weight, hidden_bias and linear_weight at multiples of 16 bytes"
    most = shared_bytes(convolved) or HOPPER_SHARED
    if max(_shared(convolved, rest[0].shape[1])) > most or convolved.numel() >= 2**30:
        return f"takes tiles of up to {most} bytes of shared memory and 2^30 elements, not {tuple(convolved.shape)}"
    return None


def three_launches(
    outputs: Results,
    convolved: torch.Tensor,
    statistics: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    eps: float,
    hidden_weight: torch.Tensor,
    hidden_bias: torch.Tensor,
    linear_weight: torch.Tensor,
    target: torch.Tensor,
    linear_bias: Optional,
    ignore_index: int,
) -> None:
    loss, output, mean, var, grad_output, channel_sums, *grads = outputs
    (n, k, h, w), (classes, units) = convolved.shape, linear_weight.shape
    plane = (h // 2) * (w // 2)
    grid, pitches = (cdiv(n, ROWS), cdiv(k, CHANNELS)), _pitches(k, plane)
    of_pooling, of_gradient = _shared(convolved, statistics.shape[1])
    if convolved.is_cuda:
        of_pooling, of_gradient = max(ALONE, of_pooling), max(ALONE, of_gradient)
    new = convolved.new_empty
    products, hidden, d_hidden = new((grid[1], n, units)), new((n, units)), new((n, units))
    d, losses = new((n, CLASSES)), new(n + 1)
    word = 16 if h * w % 4 == 0 and not convolved.data_ptr() % 16 else 4
    kernel = KERNELS[f"pool_and_multiply<{word}>"][grid, THREADS, of_pooling]
    statistic = cuda.out(mean), cuda.out(var), cuda.out(output), cuda.out(products)
    kernel(convolved, statistics, gamma, beta, hidden_weight, *statistic, statistics.shape[1], n, k, h, w, units,
           pitches[0], eps)  # fmt: skip
    kernel = KERNELS["loss_of_rows"][cdiv(n, LOSS_ROWS), 32 * LOSS_ROWS]
    kernel(products, hidden_bias, linear_weight, linear_bias, target,
           *map(cuda.out, (hidden, d_hidden, d, losses)), n, units, classes, grid[1], ignore_index)  # fmt: skip

    def add(loss: torch.Tensor, dw: torch.Tensor, db: Optional) -> None:
        kernel = KERNELS["add_rows"][cdiv(classes * (units + 1), 32) + 1, THREADS]
        written = cuda.out(dw), None if db is None else cuda.out(db), cuda.out(loss)
        kernel(d, hidden, losses, *written, n, units, classes)

    def of_hidden_layer(*outputs: Any) -> None:
        args = d_hidden, output.view(n, k * plane), hidden_weight, None, False
        LINEAR_BACKWARD.launch(LINEAR_BACKWARD.rung("k03_k_groups"), (None, *outputs), *args)

    gradients_aside(add, (loss, *grads[2:]), (d, hidden, losses))
    kernel = KERNELS["gradient_of_pooled"][grid, THREADS, of_gradient]
    kernel(d_hidden, hidden_weight, output, convolved, mean, var, gamma, beta, cuda.out(grad_output),
           cuda.out(channel_sums), n, k, h, w, units, pitches[1], eps)  # fmt: skip
    gradients_aside(of_hidden_layer, tuple(grads[:2]), (d_hidden, output), postponed=True)


RUNGS = (
    make_rung(HERE, "k01_three_launches", "tiles of whole channels pool what they multiply, and add their gradients",
              three_launches, dtypes=DTYPES, limits=limits),
)  # fmt: skip


def default(*args: Any) -> str | None:
    """k01 for up to an image per SM."""
    return first_taking(SPEC, RUNGS, args, "k01_three_launches") if len(args[0]) <= sm_count(args[0]) else None
