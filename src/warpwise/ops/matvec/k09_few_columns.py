"""The launcher of k09, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv
from warpwise.ops._configs import config_numbers
from warpwise.ops.matvec._shared import VECTOR, column_load_bytes, column_major, column_pitch

FEW_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"t(\d+)_p(\d+)")  # threads of a block, packs of a thread in each column
MOST_COLUMNS = 48
PACKS = (1, 2)
MOST_ELEMENTS = 192  # of a thread, each of which takes a register
LARGE = 1 << 22  # bytes of a large matrix
# By size: threads of a block, and elements of a pack of all columns up to which a thread has two packs.
THREADS, TWICE = (64, 128), (16, 46)


def limits(a: torch.Tensor, x: torch.Tensor) -> str | None:
    return None if 0 < a.shape[1] <= MOST_COLUMNS else f"takes 1 to {MOST_COLUMNS} columns, not {a.shape[1]}"


def load_bytes(a: torch.Tensor) -> int:
    """Bytes of a load: as many as the columns' alignment allows, if the registers of a thread hold the elements."""
    bytes, itemsize = column_load_bytes(a), a.element_size()
    while bytes > itemsize and a.shape[1] * bytes // itemsize > MOST_ELEMENTS:
        bytes //= 2
    return bytes


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = column_major(a), x.contiguous()
    (m, k), pitch, bytes = a.shape, column_pitch(a), load_bytes(a)
    threads, packs = config_numbers("matvec", config or configs(a, x)[0], FORM)
    kernel = FEW_COLUMNS[f"matvec_few_columns<{cuda.ctype(a.dtype)}, {k}, {bytes}, {threads}, {packs}>"]
    of_block = threads * packs * bytes // a.element_size()  # rows
    kernel[cdiv(m, of_block), threads](cuda.strided(a), x, cuda.out(y), m, pitch)


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """Blocks of 64 threads (from 4 MB on 128), each of which has one pack, or two for loads of up to 8 bytes if a pack
    of all columns is up to 16 elements (from 4 MB on 46)."""
    bytes, itemsize, large = load_bytes(a), a.element_size(), a.nbytes >= LARGE
    of_pack = a.shape[1] * bytes // itemsize
    threads, packs = THREADS[large], 2 if bytes < VECTOR and of_pack <= TWICE[large] else 1
    others = ((count, each) for count in (128, 64) for each in PACKS if each * of_pack <= MOST_ELEMENTS)
    found = ((threads, packs), *others)
    return tuple(f"t{count}_p{each}" for count, each in dict.fromkeys(found))
