"""The launchers of k08, k10 and k12, which sum along a dimension other than the last."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.operation import cdiv, sm_count
from warpwise.ops._configs import config_numbers
from warpwise.ops._dims import inner_size, is_last, length_along
from warpwise.ops._packed_columns import Lines, lines_of
from warpwise.ops.reduce_sum.column_geometry import (
    LONG_WORD,
    MOST_PACKETS,
    NARROW_WORD,
    PACKETS,
    column_geometry,
    word_geometry,
    word_of,
)

HERE = Path(__file__).parent
COLUMNS = cuda.load(HERE / "k08_columns.cu")
PACKED_COLUMNS = cuda.load(HERE / "k10_packed_columns.cu")
ADJACENT_COLUMNS = cuda.load(HERE / "k12_adjacent_columns.cu")

BLOCK = 256  # threads of a block
VECTOR = 16  # bytes per load
MOST_INDEX = 2**31 - 1
PACKED_WIDTH = 32  # packs of a tile of k10
PACKED_VALUES = (8, 4, 2)  # loads in flight of a thread of k10
PACKED_FORM = re.compile(r"u(\d+)")  # loads in flight
PACKED_BYTES = (1 << 21, 1 << 23)  # of a tensor, up to which a thread has two loads in flight, and four
FEW_FOLDED = 24  # columns, at most, for which a thread has two loads in flight
MANY_PACKETS = 2000  # sums of parts: if one launch adds more with four loads in flight, a thread has eight
MOST_WORDS = 2**32 - 257  # words of the output of k12: their indices, also those past the end, have 32 bits


def columns(output: torch.Tensor, input: torch.Tensor, dim: int | None) -> None:
    length = input.numel() if dim is None else length_along(input, dim)
    if not length:
        output.zero_()
        return
    inner, count = 1 if dim is None else inner_size(input, dim), output.numel()
    shape = column_geometry(count, length, input.element_size(), sm_count(input))
    packets = (shape.parts - 1) * count
    if shape.parts == 1 or packets <= MOST_PACKETS and shape.parts <= PACKETS * (shape.threads // shape.width):
        workspace = semaphores(input, 2 * packets) if packets else None
        _columns(output, input, workspace, count, inner, length, shape.share)
        return
    partial = input.new_empty((shape.parts, count), dtype=torch.float32)
    _columns(partial, input, None, count, inner, length, shape.share)
    _columns(output, partial, None, count, count, shape.parts, shape.parts)


def _columns(
    sums: torch.Tensor, x: torch.Tensor, workspace: torch.Tensor | None, count: int, inner: int, length: int, share: int
) -> None:
    """``sums`` (parts, count) of ``count`` columns of ``length`` elements, ``inner`` apart, in parts of ``share``.

    With a ``workspace`` the sums of the parts are added.
    """
    threads, values, width, *_ = column_geometry(count, length, x.element_size(), sm_count(x))
    height = threads // width
    if share >= length:
        height = min(height, max(1, cdiv(length, values)))  # of one batch; one line of threads needs no barrier
    index = "int" if (length + threads) * count <= MOST_INDEX else "long long"
    kernel = COLUMNS[f"sum_columns<{cuda.ctype(x.dtype)}, {cuda.ctype(sums.dtype)}, {index}, {threads}, {values}>"]
    launch = kernel[(cdiv(count, width), cdiv(length, share)), (width, height)]
    launch(x, cuda.out(sums), workspace, count, inner, length, share)


def packed_configs(input: torch.Tensor, dim: int | None) -> tuple[str, ...]:
    """Loads in flight of a thread: eight if one block then reads all, else few of a small tensor, for more blocks.

    More than 24 columns have at least four, for fewer sums of parts. Where one launch would then add more than 2000
    sums, a thread has eight: 29969 x 28 in float32 takes 4.05 µs, 4.7 with four.
    """
    small, medium = PACKED_BYTES
    values = 8 if is_one_block(input, dim) or input.nbytes > medium else 2 if input.nbytes <= small else 4
    columns = input.numel() // max(1, input.numel() if dim is None else length_along(input, dim))
    if values == 4 or values == 2 and columns > FEW_FOLDED:
        shape = _lines(input, columns, 4)
        rows = shape.parts * (1 if shape.tiles == 1 else shape.fold)
        values = 8 if MANY_PACKETS < rows * columns <= MOST_PACKETS else 4
    return tuple(f"u{each}" for each in dict.fromkeys((values, *PACKED_VALUES)))


def is_one_block(input: torch.Tensor, dim: int | None) -> bool:
    """True if one block of k10 with the most loads in flight reads all."""
    length = input.numel() if dim is None else length_along(input, dim)
    if not input.numel():
        return True
    shape = _lines(input, input.numel() // length, PACKED_VALUES[0])
    return shape.tiles * shape.parts == 1


def _lines(input: torch.Tensor, columns: int, values: int) -> Lines:
    length = input.numel() // columns
    return lines_of(columns, length, input.element_size(), sm_count(input), PACKED_WIDTH, values, BLOCK)


def packed_columns(output: torch.Tensor, input: torch.Tensor, dim: int | None, config: str | None = None) -> None:
    if not input.numel():
        output.zero_()
        return
    if dim is not None and inner_size(input, dim) != output.numel():
        input = input.movedim(dim, 0).contiguous()
    input = input.clone() if input.data_ptr() % VECTOR else input
    (values,) = config_numbers("reduce_sum", config or packed_configs(input, dim)[0], PACKED_FORM)
    columns = output.numel()
    shape = _lines(input, columns, values)
    folded = shape.fold if shape.tiles == 1 else 1
    rows = shape.parts * shape.fold // folded
    packets = (rows - 1) * columns
    together = 0 < packets <= MOST_PACKETS and folded == shape.fold
    workspace = semaphores(input, 2 * packets) if together else None
    sums = output if rows == 1 or together else input.new_empty((rows, columns), dtype=torch.float32)
    types = f"{cuda.ctype(input.dtype)}, {cuda.ctype(sums.dtype)}"
    kernel = PACKED_COLUMNS[f"sum_packed_columns<{types}, {BLOCK}, {values}>"]
    launch = kernel[(shape.tiles, shape.parts), (shape.width, shape.height)]
    line = columns * shape.fold // folded
    launch(input, cuda.out(sums), workspace, input.numel(), shape.packs, line, shape.lines, folded)
    if rows > 1 and not together:
        _columns(output, sums, None, columns, columns, rows, rows)


def adjacent_columns(output: torch.Tensor, input: torch.Tensor, dim: int) -> None:
    length, inner, size = length_along(input, dim), inner_size(input, dim), input.element_size()
    if not input.numel():
        output.zero_()
        return
    shape = word_geometry(output.numel(), inner * size, length, size, sm_count(input))
    input = input.clone() if input.data_ptr() % shape.bytes else input
    types = f"{cuda.ctype(input.dtype)}, {shape.bytes}, {shape.threads}, {shape.values}"
    kernel = ADJACENT_COLUMNS[f"sum_adjacent_columns<{types}>"]
    word = shape.bytes // size
    words = output.numel() // word
    kernel[cdiv(words, shape.width), (shape.width, shape.height)](input, cuda.out(output), words, inner // word, length)


def adjacent_limits(input: torch.Tensor, dim: int | None) -> str | None:
    """The limits of k12: a stride of whole words, and an index of words that fits in 32 bits."""
    if dim is None or is_last(input, dim):
        return "takes a dimension other than the last"
    size = input.element_size()
    stride = inner_size(input, dim) * size
    if (word := word_of(stride, size)) is None:
        least = NARROW_WORD if size < NARROW_WORD else LONG_WORD
        return f"takes columns whose elements are a multiple of {least} bytes apart, not {stride}"
    words = input.nbytes // word // max(1, length_along(input, dim))
    return f"takes up to {MOST_WORDS} words of columns, not {words}" if words > MOST_WORDS else None
