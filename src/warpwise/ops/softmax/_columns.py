"""Blocks of k09_columns and of the backward's k07_columns."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import torch

from warpwise.device.limits import requires_hopper
from warpwise.device.target import power_of_two
from warpwise.operation import cdiv, sm_count
from warpwise.ops import _packed_columns
from warpwise.ops._dims import inner_size, length_along
from warpwise.ops._packed_columns import Lines, lines_of

SECTOR = 32  # bytes of each row that a block reads, at least
LINE = 128  # the same if its registers hold so many columns
WIDE = 256  # the same for columns too long for the registers of a block
PACK = 4  # bytes of a load
FEW, VALUES = 8, 16  # loads of a thread in flight, at least and at most
MOST_HELD = 48  # elements that a thread holds, at most, if it has its columns alone
MOST_HELD_HALVES = 64  # the same for 2-byte elements
MOST_HELD_PAIRS = 32  # elements of each of the two inputs of the backward
FILL_HELD = 192  # threads for each SM, at least, that have their columns alone
LEAST_BLOCK = 64  # threads of their blocks, at least
FEW_HELD = 24  # elements of a column: up to so many a thread holds a multiple of 4, else of 8
BLOCK = 256  # threads of a block
MOST_THREADS = 1024
BLOCKS_AN_SM = 4  # resident blocks of 256 threads, with up to 64 registers for each thread
MANY_BLOCKS = 8  # for each SM; if there were more, a thread has ADJACENT columns
ADJACENT = 4
MOST_ADJACENT = 4  # elements of each of these columns, at most
FEW_BATCHES = 2  # batches of a thread, if blocks are few: for more, the block has more threads
MORE_PARTS = 1.25  # factor up to which the number of parts may grow to save a batch
MOST_PARTS = 8  # blocks of a cluster
PACKED_BYTES = 1 << 23  # of a tensor, from which on three launches are short beside the accesses
FEW_PACKED = 64  # kFewColumns: columns that two launches read in packs
FEW_PACKED_BYTES = 1 << 21  # of a tensor of few columns, at least
SLOW_PACKED_BYTES = 3 << 19  # the same, if k09 is slow: see ``is_packed``
SLOW_PACKED_HALVES = 3 << 18  # and the elements have 2 bytes
FEW_BLOCKS_AN_SM = (1, 2)  # of the first and of the second launch, at most
CLUSTER_BYTES = 1 << 24  # of a tensor, up to which a cluster is preferred to a block
LEAST_SPREAD = 400  # elements of a column of which a cluster spreads few blocks: see ``is_for_cluster``
LARGE_BYTES = 1 << 25  # of a tensor whose input and output do not fit in L2


class PackedBytes(NamedTuple):
    """Bytes of a tensor of more than 64 long columns, from which on the packed kernels compute it: of 4-byte elements
    (``words``), and of 2-byte elements of which the other kernels load two (``pairs``) or one (``halves``) at once.
    """

    words: int
    pairs: int
    halves: int


FORWARD_PACKED = PackedBytes(words=13 << 19, pairs=5 << 19, halves=6 << 20)
BACKWARD_PACKED = PackedBytes(words=PACKED_BYTES, pairs=1 << 21, halves=3 << 19)


class Geometry(NamedTuple):
    """``lanes`` × ``height`` threads per block, ``values`` loads in flight, ``parts`` of ``share`` elements."""

    lanes: int
    height: int
    values: int
    parts: int
    share: int

    @property
    def threads(self) -> int:
        """The largest block that the kernel is compiled for."""
        return max(BLOCK, power_of_two(self.lanes * self.height))


def geometry(columns: int, length: int, itemsize: int, packed: int, sms: int, most_values: int = VALUES) -> Geometry:
    """The geometry for ``columns`` of ``length`` elements of ``itemsize`` bytes, ``packed`` of them per load."""
    if length * packed <= most_values and columns >= sms * FILL_HELD * packed:  # a thread holds its columns: no barrier
        step = 2 if length <= 2 else 4 if length <= FEW_HELD else 8
        lanes = BLOCK
        while lanes > LEAST_BLOCK and cdiv(columns, lanes * packed) < BLOCKS_AN_SM * sms:  # the SMs have as many each
            lanes //= 2
        return Geometry(lanes, 1, step * cdiv(length, step), 1, length)
    # The widest block that holds all of its columns in registers and leaves no SM idle, but at least a sector.
    for bytes in (LINE, LINE // 2, SECTOR):
        width = bytes // itemsize
        lanes, tiles = cdiv(min(columns, width), packed), cdiv(columns, width)
        most = MOST_THREADS if tiles <= sms else MOST_THREADS // 2  # two blocks per SM: one loads while one computes
        if lanes * cdiv(length, VALUES) <= most and (tiles >= sms or bytes == SECTOR):
            # With one input of many tiles, few loads would leave too few bytes in flight.
            few = length <= FEW_HELD or most_values < MOST_HELD or tiles < BLOCKS_AN_SM * sms
            return _held(columns, length, packed, sms, lanes, BLOCK if tiles > sms else 2 * BLOCK, few)
    tiles = cdiv(columns, WIDE // itemsize)
    lanes = cdiv(cdiv(columns, tiles), packed)
    height = BLOCK // lanes
    # One wave of blocks, with two batches per thread. Each block combines the statistics of all parts.
    parts = max(1, min(BLOCKS_AN_SM * sms // tiles, length // (2 * VALUES * height), math.isqrt(length // 4)))
    values = VALUES
    if parts > 1 and parts * tiles < sms:  # few blocks: one short batch per thread
        values = VALUES // 2
        most_parts = min(BLOCKS_AN_SM * sms // tiles, math.isqrt(length // 4))
        while 2 * height * lanes <= MOST_THREADS and length > most_parts * FEW_BATCHES * values * height:
            height *= 2  # each part takes long: more threads read it
        parts = min(most_parts, cdiv(length, values * height))
        # The last batch of a part takes as long as a full one: a few more parts may need one batch less.
        batches = cdiv(cdiv(length, parts), values * height)
        fuller = cdiv(length, max(1, batches - 1) * values * height)
        if batches > 1 and fuller <= min(MORE_PARTS * parts, BLOCKS_AN_SM * sms // tiles):
            parts = fuller
    if parts == 1:
        height = min(MOST_THREADS // lanes if tiles < sms else height, cdiv(length, VALUES))
    share = cdiv(length, parts)
    return Geometry(lanes, height, values, cdiv(length, share), share)


def _held(columns: int, length: int, packed: int, sms: int, lanes: int, most: int, few: bool = True) -> Geometry:
    """One batch: ``few`` loads per thread if ``most`` threads suffice, and no more lines than a column needs."""
    values = FEW if few else VALUES
    while values < VALUES and lanes * cdiv(length, values) > most:
        values *= 2
    height = cdiv(length, values)
    while 2 * lanes * height <= BLOCK and cdiv(columns, 2 * lanes * packed) >= sms:
        lanes *= 2
    return Geometry(lanes, height, values, 1, length)


def cluster_geometry(columns: int, length: int, itemsize: int, packed: int, sms: int) -> Geometry | None:
    """As ``geometry``, with the blocks of a cluster as parts, which hold a column in registers; None beyond them."""
    # Two blocks of 512 threads share an SM: one loads while the other computes.
    for most, bytes in itertools.product((MOST_THREADS // 2, MOST_THREADS), (LINE, LINE // 2, SECTOR)):
        width = bytes // itemsize
        lanes, tiles = cdiv(min(columns, width), packed), cdiv(columns, width)
        for parts in (2, 4, MOST_PARTS):
            share = cdiv(length, parts)
            enough = tiles * parts >= sms or bytes == SECTOR and (2 * tiles * parts > sms or parts == MOST_PARTS)
            if enough and lanes * cdiv(share, VALUES) <= most:
                return _held(0, share, packed, sms, lanes, BLOCK)._replace(parts=parts)
    return None


def of(
    dim: int, out: torch.Tensor, *inputs: torch.Tensor, cluster: bool = False
) -> tuple[Geometry | None, int, int, int, int]:
    """The geometry, the elements of a load, and the arguments of a kernel: columns, inner and length."""
    length, inner, size = length_along(out, dim), inner_size(out, dim), out.element_size()
    count, packed = out.numel() // length, max(1, PACK // size)
    if inner % packed or not _are_aligned(PACK, out, *inputs):
        packed = 1
    many = not cluster and count > MANY_BLOCKS * sm_count(out) * BLOCK * packed
    if many and length <= MOST_ADJACENT and inner % ADJACENT == 0 and _are_aligned(ADJACENT * size, out, *inputs):
        packed = ADJACENT  # the GPU starts a block every 1.5 ns: 2 x 1000000 in float32 are 977 blocks, not 3907
    if cluster:
        return cluster_geometry(count, length, size, packed, sm_count(out)), packed, count, inner, length
    most = MOST_HELD_PAIRS if len(inputs) > 1 else MOST_HELD_HALVES if size == 2 else MOST_HELD
    return geometry(count, length, size, packed, sm_count(out), most), packed, count, inner, length


def _are_aligned(bytes: int, *tensors: torch.Tensor) -> bool:
    return all(tensor.data_ptr() % bytes == 0 for tensor in tensors)


def cluster_limits(out: torch.Tensor, dim: int) -> str | None:
    """The limits of kernels that hold a column in the registers of a cluster."""
    length = length_along(out, dim)
    if out.numel() and of(dim, out, cluster=True)[0] is None:
        return f"takes columns of which 8 blocks hold 32 bytes of each row in registers, not {length} elements"
    return requires_hopper(out, "older GPUs have no clusters")


def held_bytes(dim: int, out: torch.Tensor, *inputs: torch.Tensor) -> int:
    """The bytes of each row that a block has, if it holds its columns in registers; else 0."""
    shape, packed, *_ = of(dim, out, *inputs)
    assert shape is not None
    held = shape.parts == 1 and shape.share <= shape.height * shape.values
    return shape.lanes * packed * out.element_size() if held else 0


def is_held(dim: int, out: torch.Tensor, *inputs: torch.Tensor) -> bool:
    """True if a block holds its columns in registers."""
    return held_bytes(dim, out, *inputs) > 0


def is_packed(dim: int, out: torch.Tensor, bytes: PackedBytes = FORWARD_PACKED) -> bool:
    """True for long columns along the first dimension that the packed kernels compute faster than k09 or k07.

    Columns that a block holds are not packed. Others are packed from ``bytes`` on. Up to ``FEW_PACKED`` columns
    take two launches, as do k09's parts. They are packed from ``FEW_PACKED_BYTES`` on, or fewer if k09 is slow: if
    a thread needs a second batch of loads, a block more than 256 threads, or an SM a second block. Those that
    clusters hold stay there up to ``PACKED_BYTES``.
    """
    length, inner, (shape, packed, *_) = length_along(out, dim), inner_size(out, dim), of(dim, out)
    assert shape is not None
    least = bytes.words if out.element_size() >= PACK else bytes.pairs if packed > 1 else bytes.halves
    if inner <= FEW_PACKED:
        batches, waves = cdiv(shape.share, shape.height * shape.values), cdiv(shape.parts, sm_count(out))
        slow = batches > 1 or waves > 1 or shape.threads > BLOCK
        fewer = SLOW_PACKED_HALVES if out.element_size() == 2 else SLOW_PACKED_BYTES
        least = PACKED_BYTES if is_for_cluster(dim, out) else fewer if slow else FEW_PACKED_BYTES
    return out.numel() == length * inner and out.nbytes >= least and not is_held(dim, out)


def packed_lines(out: torch.Tensor, batch: int) -> tuple[Lines, bool]:
    """The geometry of the packed kernels for ``out`` (length, columns); and if its columns are few: two launches.

    Every block of the second launch then reads all partial results: few blocks of each launch fill the SMs, up to a
    size at which more are needed. Otherwise a block reads few packs of each line of a small tensor, so that few blocks
    of many lines have partial results.
    """
    (length, columns), size, sms = out.shape, out.element_size(), sm_count(out)
    if columns <= FEW_PACKED and out.nbytes < LARGE_BYTES:
        return lines_of(columns, length, size, sms, FEW_PACKED, batch, FEW_PACKED, FEW_BLOCKS_AN_SM[0]), True
    return lines_of(columns, length, size, sms, 64 if out.nbytes >= PACKED_BYTES else 16, batch), False


def packed_blocks(out: torch.Tensor, few: bool, values: int) -> int:
    """Blocks of the last launch of the packed kernels, whose threads have ``values`` packs at once."""
    blocks = cdiv(out.nbytes, _packed_columns.PACK * _packed_columns.THREADS * values)
    return min(blocks, FEW_BLOCKS_AN_SM[1] * sm_count(out)) if few else blocks


def is_for_cluster(dim: int, out: torch.Tensor, *inputs: torch.Tensor) -> bool:
    """True if a cluster is faster than a block, or several launches, as measured: it takes about 1 µs to start.

    Few clusters leave most SMs idle: 51723 × 2 in float32 backward takes 5.2 µs in one, 4.9 in 25 blocks and two
    launches; 14279 × 24 takes 5.8 in three, 7.3 in two launches. Blocks that hold their columns, but for at most half
    of the SMs, do too: 1015 × 138 in bfloat16 backward takes 4.9 µs in 9 blocks of 512 threads, 2.4 in clusters.
    """
    shape, packed, count, *_ = of(dim, out, *inputs)
    clusters, *_ = of(dim, out, *inputs, cluster=True)
    assert shape is not None
    if clusters is None or out.nbytes > CLUSTER_BYTES or cluster_limits(out, dim):
        return False
    enough = 8 * cdiv(count, clusters.lanes * packed) * clusters.parts >= sm_count(out)
    if not is_held(dim, out, *inputs):
        return enough
    few = 2 * cdiv(count, shape.lanes * packed) <= sm_count(out)
    spreads = enough and few and length_along(out, dim) >= LEAST_SPREAD and shape.threads > BLOCK
    return spreads or shape.threads == MOST_THREADS
