"""Checkpoints in the safetensors format: a JSON header and the tensors' bytes, nothing that is executed.

The file is eight bytes with the header's size, little-endian, the header, then the data. The header maps each name to
its dtype, shape and place in the data, and ``__metadata__`` to strings.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cache

FORMAT = "warpwise train 1"
_NAMES = {torch.float32: "F32", torch.float64: "F64", torch.bfloat16: "BF16", torch.float16: "F16", torch.int64: "I64"}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
MOST_HEADER = 100 << 20  # bytes, the limit of the format


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file and what is wrong."""


class Checkpoint(NamedTuple):
    """``tensors`` by name (CPU), and ``state``: settings, progress and history, plain values for JSON."""

    tensors: dict[str, torch.Tensor]
    state: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write the file atomically: a reader, or a crash, sees the old one or the new one."""
        cache.atomic_write(path, encoded(self.tensors, {"format": FORMAT, "state": json.dumps(self.state)}))

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a file that ``save`` wrote. Raises ``CheckpointError``, and ``OSError`` if it cannot be read."""
        tensors, metadata = decoded(path)
        if metadata.get("format") != FORMAT:
            raise CheckpointError(f"{path}: expected a checkpoint of warpwise train, got other safetensors")
        return cls(tensors, json.loads(metadata["state"]))


def encoded(tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a safetensors file, tensors in order of their names."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    parts, at = [], 0
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        header[name] = {
            "dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(data)]
        }  # fmt: skip
        parts.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the data start at a multiple of eight bytes
    return b"".join([struct.pack("<Q", len(text)), text, *parts])


def decoded(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file. Raises ``CheckpointError`` if it is damaged."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0] if len(content) >= 8 else 0
    if not 2 <= size <= min(MOST_HEADER, len(content) - 8):
        raise CheckpointError(f"{path}: not a safetensors file, or truncated")
    try:
        header = json.loads(content[8 : 8 + size])
        metadata = header.pop("__metadata__", {})
        data = memoryview(content)[8 + size :]
        tensors = {name: _tensor(data, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise CheckpointError(f"{path}: the safetensors file is damaged ({error})") from error
    return tensors, metadata


def _tensor(data: memoryview, entry: Mapping[str, Any]) -> torch.Tensor:
    first, past = entry["data_offsets"]
    dtype, shape = _DTYPES[entry["dtype"]], entry["shape"]
    part = bytearray(data[first:past])
    if len(part) != past - first or not 0 <= first <= past:
        raise ValueError(f"expected {past - first} bytes of a tensor, got {len(part)}")
    flat = torch.frombuffer(part, dtype=dtype) if part else torch.empty(0, dtype=dtype)
    return flat.reshape(shape)
