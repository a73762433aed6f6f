"""The launcher of the kernels that read rows of any alignment in packs: k14 of softmax, k12 of softmax_backward."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.device.limits import requires_hopper
from warpwise.device.target import power_of_two
from warpwise.operation import cdiv, sm_count
from warpwise.ops._dims import length_along
from warpwise.ops.softmax._launch import PACK, WARP, Launch, aligned, along_rows

LANES = (8, 16, 32)  # lanes of a row in a warp or in a part of one
TEAM = 128  # threads of a block of such rows
TEAM_VECTORS = 4  # packs of a lane, at most; of a row of float32 values in 8 lanes one less (``few_vectors``)
MANY_VECTORS = 5  # the same if rows are many: to start a block for each row would take longer than to move the row
BLOCKS = (512, 1024)  # threads, at most; two blocks of 512 share an SM: one loads while the other computes
CLUSTERS = (1, 2, 4, 8)
FEWEST_PACKS = 512  # of a block of a cluster
FILL = 1024  # threads of an SM
FEW_USE = 0.5  # rows for each SM: fewer are few rows
SHORTEST = 33  # elements of a row whose length is not a multiple of 16 bytes
SPLIT_COLUMNS = 8192  # elements of a row: longer ones are shared by a cluster, if rows are few
REGISTERS = 32  # of a thread, for its elements
WORDS = 4  # registers of a pack


class Shape(NamedTuple):
    """``cluster`` blocks of ``threads``, up to ``most`` of them, with ``vectors`` packs each.

    A cluster of 0: ``threads`` are lanes.
    """

    most: int
    threads: int
    vectors: int
    cluster: int


def most_vectors(itemsize: int, inputs: int) -> int:
    """Packs of a thread: in the forward float32 values, in the backward words of both inputs."""
    return REGISTERS * itemsize // PACK if inputs == 1 else REGISTERS // (WORDS * inputs)


def shape_of(rows: int, columns: int, itemsize: int, inputs: int, sms: int) -> Shape | None:
    """Up to a warp for a row of up to 2 KB, and of 2.5 KB if rows of float32 values are many; else a cluster.

    20039 x 123 in float32 takes 6.1 µs with two packs for each of 16 lanes, 7.4 with four for each of 8.

    The cluster is the smallest that holds a row and leaves no SM idle; None if the largest does not hold a row. A block
    has as many threads as its packs need, and many packs for each if they fill the GPU. Their number is a power of two,
    which limits the number of compiled kernels.
    """
    packs, most_packs = max(1, columns * itemsize // PACK), most_vectors(itemsize, inputs)
    few_vectors = TEAM_VECTORS - 1 if itemsize >= 4 and inputs == 1 else TEAM_VECTORS
    for lanes in LANES:
        if packs <= lanes * (few_vectors if lanes == LANES[0] else TEAM_VECTORS):
            return Shape(TEAM, lanes, cdiv(packs, lanes), 0)
    if packs <= WARP * min(MANY_VECTORS, most_packs) and rows * WARP >= FILL * sms:
        return Shape(TEAM, WARP, cdiv(packs, WARP), 0)
    for most in BLOCKS:
        for cluster in CLUSTERS:
            wider = cluster < CLUSTERS[-1] and cluster * rows < sms and packs >= 2 * cluster * FEWEST_PACKS
            if wider or cluster * most * most_packs < packs:
                continue
            vectors = power_of_two(cdiv(packs, cluster * most))
            while 2 * vectors <= most_packs and rows * packs >= 2 * vectors * FILL * sms:
                vectors *= 2
            return Shape(most, WARP * cdiv(packs, cluster * vectors * WARP), vectors, cluster)
    return None


def packed_rows(kernel: str, file: Path) -> Launch:
    module = cuda.load(file)

    def launch(out: torch.Tensor, *inputs: torch.Tensor) -> None:
        (rows, columns), size = out.shape, out.element_size()
        shape = shape_of(rows, columns, size, len(inputs), sm_count(out))
        assert shape is not None
        ctype, arguments = cuda.ctype(out.dtype), (*aligned(inputs), cuda.out(out))
        if shape.cluster == 0:
            together = TEAM // shape.threads
            lanes = module[f"{kernel}_packed_rows_of_lanes<{ctype}, {shape.threads}, {shape.vectors}>"]
            lanes[cdiv(rows, together), (shape.threads, together)](*arguments, rows, columns)
            return
        options = f"{ctype}, {shape.most}, {shape.vectors}"
        name = f"<{options}>" if shape.cluster == 1 else f"_of_clusters<{options}, {shape.cluster}>"
        module[f"{kernel}_packed_rows{name}"][rows * shape.cluster, shape.threads](*arguments, columns)

    return along_rows(launch)


def _rows_of(*args: torch.Tensor | int) -> tuple[list[torch.Tensor], int, int]:
    """The input tensors, the number of rows, and their length, of the arguments of softmax or of softmax_backward."""
    *inputs, dim = args
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    assert len(tensors) == len(inputs) and isinstance(dim, int)
    length = length_along(tensors[0], dim)
    return tensors, tensors[0].numel() // max(1, length), length


def packed_limits(*args: torch.Tensor | int) -> str | None:
    """The limits of ``packed_rows``, for the arguments of softmax or of softmax_backward."""
    (tensor, *_), rows, length = _rows_of(*args)
    size, inputs = tensor.element_size(), len(args) - 1
    if rows * CLUSTERS[-1] >= 2**31:
        return f"takes fewer than {2**31 // CLUSTERS[-1]} rows, not {rows}"
    shape = shape_of(rows, length, size, inputs, sm_count(tensor))
    if shape is None:
        most = CLUSTERS[-1] * BLOCKS[-1] * most_vectors(size, inputs) * PACK // size
        return f"takes rows of up to {most} elements, not {length}"
    return requires_hopper(tensor, "older GPUs have no clusters") if shape.cluster > 1 else None


def are_faster(registers: int, *args: torch.Tensor | int) -> bool:
    """True for rows of 33 and more elements that are not a multiple of 16 bytes, and for rows that exceed the
    ``registers`` of a block, as measured.

    Few rows are held in a cluster from ``SPLIT_COLUMNS`` on. Tensors that are not aligned would be copied.
    """
    inputs, rows, length = _rows_of(*args)
    tensor = inputs[0]
    few = rows < FEW_USE * sm_count(tensor) and length > SPLIT_COLUMNS
    odd = length >= SHORTEST and length * tensor.element_size() % PACK != 0
    odd = odd and not any(value.data_ptr() % PACK for value in inputs)
    return (length > registers or few or odd) and packed_limits(*args) is None
