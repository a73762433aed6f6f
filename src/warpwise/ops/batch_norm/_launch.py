"""The geometry that the ladders of batch_norm and batch_norm_backward share."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.arguments.layout import has_nhwc_strides
from warpwise.operation import cdiv, sm_count

MANY_BYTES = 2 << 20  # bytes of an input for which rows_of_parts has larger blocks and tiles
THREADS = 256  # of a block: kThreads of the kernels
MANY_THREADS = 512  # of a block of rows_of_parts for MANY_BYTES or more
BLOCKS_PER_SM = 4
LANES_OF_PARTS = 64  # most channels of a tile of rows_of_parts
MANY_LANES_OF_PARTS = 128  # the same for MANY_BYTES or more
LITTLE_IDLE = 1.1  # lanes over vectors, up to which a power of two of lanes is faster than a lane for each vector
NARROWER = ((1, 1.0), (2, 1.04), (4, 1.08))  # parts of a tile's width, and the time of as many lanes
FEWEST_ROW_BYTES = 64  # bytes of a row of a tile: two sectors
SHIFTED_ELEMENTS = 4  # elements of a vector if the images are not a multiple of vectors
NARROW_BYTES = 8  # bytes of a vector, below which an image is read by shifted vectors
SHORT_CHANNEL = 4096  # most vectors of a channel for which one block is as fast as several
FEW_VECTORS = 1024  # most vectors of a channel for a block of 256 threads
FEWEST_ELEMENTS = 2048  # minimum number of elements of a block
ROWS_OF_THREAD = 4  # fewest rows per thread of a kernel without sums
ROWS_OF_SUM = 8  # fewest rows per thread of a kernel with sums
FEWEST_INNER_BYTES = 32  # a sector: the fewest adjacent bytes of a channel for which a rung is the default
MOST_ELEMENTS = 2**30  # of a channel, because indices are 32 bits
MOST_CHANNELS = 65535  # grid.y counts channels


def sizes(input: torch.Tensor) -> tuple[int, int, int]:
    """(n, channels, inner)."""
    return input.shape[0], input.shape[1], math.prod(input.shape[2:])


def is_row_long(input: torch.Tensor) -> bool:
    """True if a warp that reads a channel of an image reads whole sectors. Otherwise PyTorch is the default."""
    return sizes(input)[2] * input.element_size() >= FEWEST_INNER_BYTES


def limits(input: torch.Tensor, *rest: Any) -> str | None:
    n, channels, inner = sizes(input)
    if n * inner > MOST_ELEMENTS or channels > MOST_CHANNELS:
        return f"takes up to {MOST_CHANNELS} channels of up to {MOST_ELEMENTS} elements, not {channels} of {n * inner}"
    return None


def parts(input: torch.Tensor) -> int:
    """Blocks per channel: enough to occupy the GPU, each with a few thousand elements."""
    n, channels, inner = sizes(input)
    return max(1, min(cdiv(BLOCKS_PER_SM * sm_count(input), channels), cdiv(n * inner, FEWEST_ELEMENTS)))


def is_whole(input: torch.Tensor, *others: torch.Tensor | None) -> bool:
    """True if a block per channel is at least as fast as several: one or two batches of loads, or a channel per SM."""
    short = image_vectors(input, *others, shift_halves=True).vectors <= SHORT_CHANNEL
    return short or 4 * input.shape[1] >= 3 * sm_count(input)


class ImageVectors(NamedTuple):
    """Vectors of core/channel.cuh: elements of a vector, whether it is SHIFTED, and vectors of a channel."""

    width: int
    shifted: bool
    vectors: int

    @property
    def template(self) -> str:
        return f"{self.width}, {str(self.shifted).lower()}"

    @property
    def threads(self) -> int:
        """The threads of a block for a whole channel."""
        return 256 if self.vectors <= FEW_VECTORS else 1024


def image_vectors(input: torch.Tensor, *others: torch.Tensor | None, shift_halves: bool = False) -> ImageVectors:
    """The widest vectors that divide an image; if these have fewer than 8 bytes, vectors of four elements, SHIFTED.

    SHIFTED vectors of 16-bit elements only with ``shift_halves``: in other kernels the tests of their elements take
    longer than the loads that they save.
    """
    n, _, inner = sizes(input)
    size, width = input.element_size(), vector(inner, input, *others)
    full = vector(SHIFTED_ELEMENTS, input, *others)
    if (size == 4 or shift_halves) and width * size < NARROW_BYTES and width < full <= inner:
        return ImageVectors(full, True, n * ((inner + 2 * full - 2) // full))
    return ImageVectors(width, False, n * (inner // width))


def vector(adjacent: int, *tensors: torch.Tensor | None) -> int:
    """The most elements per load of up to 16 bytes that divide ``adjacent`` and to which all tensors are aligned."""
    given = [tensor for tensor in tensors if tensor is not None]
    size = given[0].element_size()
    aligned = (n for n in (8, 4, 2) if all(tensor.data_ptr() % (n * size) == 0 for tensor in given))
    return next((n for n in aligned if adjacent % n == 0 and n * size <= 16), 1)


def parameter_type(input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> str:
    """The C type of weight and bias, which have one dtype."""
    given = weight if weight is not None else bias
    return cuda.ctype(input.dtype if given is None else given.dtype)


def same_parameters(weight: torch.Tensor | None, bias: torch.Tensor | None) -> str | None:
    """The reason why the kernels do not take these parameters, or None."""
    if weight is not None and bias is not None and weight.dtype != bias.dtype:
        return f"takes weight and bias of one dtype, not {weight.dtype} and {bias.dtype}"
    return None


def in_rows(tensor: torch.Tensor) -> bool:
    """True if several channels are adjacent in memory, (N, H, W, C) or (N, C) without gaps, also in the result."""
    if tensor.dim() != 4:
        return tensor.dim() == 2 and tensor.is_contiguous()
    without_gaps = tensor.shape[1] > 1 and tensor.is_contiguous(memory_format=torch.channels_last)
    return without_gaps and (tensor.is_contiguous() or has_nhwc_strides(tensor))


class Rows(NamedTuple):
    """The launch of kernels of core/channels_last.cuh: `across` threads in a row, `parts` x `tiles` blocks for sums.

    The last block of a tile adds the sums of all, which limits `parts`; kernels without sums have more `blocks`.
    """

    rows: int
    channels: int
    vector: int
    across: int
    parts: int
    blocks: int
    tiles: int
    threads: int


def rows(input: torch.Tensor, *others: torch.Tensor | None) -> Rows:
    """Up to one block per SM for sums, four without, each with several rows per thread."""
    return _rows(input, others, 32, THREADS, ((1, ROWS_OF_SUM), (BLOCKS_PER_SM, ROWS_OF_THREAD)))


def rows_of_parts(input: torch.Tensor, *others: torch.Tensor | None) -> Rows:
    """The same for kernels whose second launch adds the partial sums in each of its blocks.

    For MANY_BYTES or more one block of 512 threads per SM, so that there are half as many parts to add, and the widest
    tiles of equal width: adjacent blocks then read adjacent memory. Otherwise two blocks of 256 threads, and tiles of
    64 channels, of which several groups of threads add parts, or narrower ones if fewer lanes have no channel.
    """
    width = vector(input.shape[1], input, *others)
    vectors = cdiv(input.shape[1], width)
    if input.nbytes >= MANY_BYTES:
        even = cdiv(vectors, cdiv(vectors, min(32, MANY_LANES_OF_PARTS // width)))
        power = 1 << (even - 1).bit_length()
        across = power if power <= LITTLE_IDLE * even else even
        return _rows(input, others, across, MANY_THREADS, ((1, ROWS_OF_THREAD),) * 2)
    most = min(32, LANES_OF_PARTS // width)
    least = cdiv(FEWEST_ROW_BYTES, width * input.element_size())
    widths = [(most // n, time) for n, time in NARROWER if n == 1 or most // n >= least]
    across, _ = min(widths, key=lambda one: cdiv(vectors, one[0]) * one[0] * one[1])
    return _rows(input, others, across, THREADS, ((MANY_THREADS // THREADS, ROWS_OF_THREAD),) * 2)


def _rows(
    input: torch.Tensor,
    others: tuple[torch.Tensor | None, ...],
    across: int,
    threads: int,
    limits: tuple[tuple[int, int], ...],
) -> Rows:
    """``across``: most threads in a row; ``limits``: blocks per SM and rows per thread, with and without sums."""
    channels = input.shape[1]
    count, width = input.numel() // max(1, channels), vector(channels, input, *others)
    across = min(across, 1 << max(0, cdiv(channels, width) - 1).bit_length())
    tiles = cdiv(channels, width * across)
    at_once = threads // across
    parts, blocks = (
        max(1, min(cdiv(most * sm_count(input), tiles), cdiv(count, at_once * each))) for most, each in limits
    )
    return Rows(count, channels, width, across, parts, blocks, tiles, threads)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous view of a tensor whose channels are adjacent."""
    return tensor.permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor
