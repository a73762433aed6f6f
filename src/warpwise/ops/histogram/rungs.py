"""The ladder of histogram, slowest idea first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import Rung, cdiv, make_rung, sm_count

HERE = Path(__file__).parent
BLOCK, LANE_BLOCK = 256, 512  # kThreads of k03 and k04, and of k05
THREADS_AN_SM = 2048
SHARED_BYTES = 48 * 1024  # of a block without cudaFuncAttributeMaxDynamicSharedMemorySize
WARP_COPIES, LANE_COPIES = BLOCK // 32, 32
TRITON_BINS, TRITON_BLOCK, TRITON_BLOCKS_AN_SM = 1024, 2048, 8

GLOBAL_ATOMICS = cuda.load(HERE / "k01_global_atomics.cu")
LANES = cuda.load(HERE / "k05_lane_copies.cu")

Launch = Callable[..., None]


def zeroed(launch: Launch) -> Launch:
    """``launch(counts, input, bins)`` adds to zeros; an empty input launches nothing."""

    def launch_zeroed(counts: torch.Tensor, input: torch.Tensor, bins: int) -> None:
        counts.zero_()
        if input.numel():
            launch(counts, input, bins)

    return launch_zeroed


@zeroed
def global_atomics(counts: torch.Tensor, input: torch.Tensor, bins: int) -> None:
    kernel = GLOBAL_ATOMICS[f"histogram_global_atomics<{cuda.ctype(input.dtype)}>"]
    kernel[cdiv(input.numel(), BLOCK), BLOCK](input, counts, input.numel(), bins)


def _grid(input: torch.Tensor, block: int) -> int:
    """One wave, with at least 64 bytes per thread: less would not amortise clearing and adding a block's copies."""
    resident = THREADS_AN_SM // block * sm_count(input)
    return min(resident, cdiv(input.numel() * input.element_size(), 64 * block))


def privatised(kernel: str, file: str, copies: int, block: int = BLOCK) -> Launch:
    """A launcher of one wave of blocks, each with ``copies`` private copies of the counters.

    With several copies, each has an additional counter for values outside of the bins.
    """
    module = cuda.load(HERE / file)

    @zeroed
    def launch(counts: torch.Tensor, input: torch.Tensor, bins: int) -> None:
        grid = _grid(input, block)
        name = f"{kernel}<{cuda.ctype(input.dtype)}>"
        module[name][grid, block, copies * (bins + (copies > 1)) * 4](input, counts, input.numel(), bins)

    return launch


def lane_copies(counts: torch.Tensor, input: torch.Tensor, bins: int) -> None:
    """One block stores its sums. Several add to counts that a first launch clears: only launches can be replayed."""
    if not input.numel():
        counts.zero_()
        return
    grid, block = _grid(input, LANE_BLOCK), LANE_BLOCK
    if grid > 1:
        LANES["clear_counts"][cdiv(bins, block), block](cuda.out(counts), bins)
    kernel = LANES[f"histogram_lane_copies<{cuda.ctype(input.dtype)}>"]
    kernel[grid, block, LANE_COPIES * (bins + 1) * 4](input, counts, input.numel(), bins)


@zeroed
def triton(counts: torch.Tensor, input: torch.Tensor, bins: int) -> None:
    from warpwise.ops.histogram.k06_triton import histogram

    grid = min(TRITON_BLOCKS_AN_SM * sm_count(input), cdiv(input.numel(), TRITON_BLOCK))
    padded = max(32, 1 << (bins - 1).bit_length())
    histogram[(grid,)](input, counts, input.numel(), bins, BINS=padded, BLOCK=TRITON_BLOCK, num_warps=8)


def counted_in_32_bits(input: torch.Tensor, blocks_an_sm: int) -> str | None:
    """The limit of 32-bit counters: the elements that one block counts."""
    most = 2**31 * blocks_an_sm * sm_count(input)
    return f"takes up to {most} elements, 2**31 a block, not {input.numel()}" if input.numel() > most else None


def shared(copies: int, block: int = BLOCK) -> Callable[..., str | None]:
    """The limits of a rung: ``copies`` copies of the counters fit in a block's shared memory."""
    most = SHARED_BYTES // (4 * copies) - (copies > 1)

    def limits(input: torch.Tensor, bins: int) -> str | None:
        if bins > most:
            room = f"{copies} copies of 4 bytes in {SHARED_BYTES} bytes of shared memory"
            return f"takes up to {most} bins ({room}), not {bins}"
        return counted_in_32_bits(input, THREADS_AN_SM // block)

    return limits


def blocks_enough(input: torch.Tensor, bins: int) -> str | None:
    if cdiv(input.numel(), BLOCK) > 2**31 - 1:
        return f"takes up to {(2**31 - 1) * BLOCK} elements, one thread each, not {input.numel()}"
    return None


def triton_bins(input: torch.Tensor, bins: int) -> str | None:
    if bins > TRITON_BINS:
        return f"takes up to {TRITON_BINS} bins (its counters stay in registers), not {bins}"
    return counted_in_32_bits(input, TRITON_BLOCKS_AN_SM)


def rung(name: str, idea: str, launch: Launch, limits: Callable[..., str | None]) -> Rung:
    return make_rung(HERE, name, idea, launch, limits=limits)


RUNGS = (
    rung("k01_global_atomics", "one atomic in global memory an element", global_atomics, blocks_enough),
    rung(
        "k02_block_copies",
        "a copy of the counters a block, in shared memory",
        privatised("histogram_block_copies", "k02_block_copies.cu", 1),
        shared(1),
    ),
    rung(
        "k03_warp_copies",
        "a copy per warp, 16-byte loads",
        privatised("histogram_warp_copies", "k03_warp_copies.cu", WARP_COPIES),
        shared(WARP_COPIES),
    ),
    rung(
        "k04_runs",
        "runs of equal values counted before the atomic",
        privatised("histogram_runs", "k04_runs.cu", WARP_COPIES),
        shared(WARP_COPIES),
    ),
    rung(
        "k05_lane_copies",
        "a copy per lane, in the lane's own bank",
        lane_copies,
        shared(LANE_COPIES, LANE_BLOCK),
    ),
    rung("k06_triton", "Triton's histogram of each block", triton, triton_bins),
)


def default(input: torch.Tensor, bins: int) -> str | None:
    """The rung with the most copies of the counts that fit in shared memory; global atomics if none fits."""
    fitting = (RUNGS[position] for position in (4, 3, 1, 0))
    return next((rung.name for rung in fitting if not rung.limits(input, bins)), None)
