"""A reader of IDX files, the format of MNIST: a header of big-endian integers, then the elements."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy
import torch

GZIP = b"\x1f\x8b"
UINT8 = 0x08
_KINDS = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}


class DataError(ValueError):
    """A data file or a data set that cannot be used; the message names the file and what is wrong."""


def _bytes_of(path: Path) -> bytes:
    """The content of a plain or gzip-compressed file."""
    content = path.read_bytes()
    if not content.startswith(GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}: the gzip stream is truncated or damaged ({error}); fetch the file again") from error


def read_idx(path: Path | str, dims: int) -> torch.Tensor:
    """The uint8 array of ``dims`` dimensions in an IDX file, plain or gzip-compressed.

    Raises ``DataError`` if the magic number is not that of such an array, or if the file is shorter or longer than its
    header says; ``OSError`` if it cannot be read.
    """
    path = Path(path)
    content = _bytes_of(path)
    if len(content) < 4:
        raise DataError(f"{path}: expected an IDX file, got {len(content)} bytes; its magic number alone has 4")
    zeros, kind, count = struct.unpack(">HBB", content[:4])
    if zeros or kind not in _KINDS:
        magic = content[:4].hex()
        raise DataError(f"{path}: expected the magic number of an IDX file, 0000{UINT8:02x}{dims:02x}, got {magic}")
    if kind != UINT8 or count != dims:
        raise DataError(f"{path}: expected uint8 in {dims} dimensions, got {_KINDS[kind]} in {count}")
    header = 4 + 4 * dims
    if len(content) < header:
        raise DataError(f"{path}: expected a header of {header} bytes, got {len(content)}; the file is truncated")
    shape = struct.unpack(f">{dims}I", content[4:header])
    expected, got = header + math.prod(shape), len(content)
    if got != expected:
        size = " × ".join(map(str, shape))
        reason = "truncated" if got < expected else "longer than its header says"
        raise DataError(f"{path}: expected {expected:,} bytes for {size}, got {got:,}; the file is {reason}")
    return torch.from_numpy(numpy.frombuffer(content, numpy.uint8, offset=header).copy()).view(shape)
