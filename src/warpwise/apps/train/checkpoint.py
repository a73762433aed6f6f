"""Checkpoints in the safetensors format: a JSON header and the tensors' bytes, nothing that is executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch

from warpwise import cache

FORMAT = "warpwise train 1"


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file and what is wrong."""


class Checkpoint(NamedTuple):
    """``tensors`` by name (CPU), and ``state``: settings, progress and history, plain values for JSON."""

    tensors: dict[str, torch.Tensor]
    state: dict[str, Any]

    def save(self, path: Path) -> None:
        """Write the file atomically: after a crash, and for a reader, it is the old file or the new one."""
        import safetensors.torch

        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        metadata = {"format": FORMAT, "state": json.dumps(self.state)}
        cache.atomic_write(path, safetensors.torch.save(tensors, metadata))

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a file that ``save`` wrote. Raises ``CheckpointError``, and ``OSError`` if it cannot be read."""
        import safetensors

        if path.is_dir():
            raise CheckpointError(f"{path}: expected a safetensors file, got a folder")
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a mapping
        except safetensors.SafetensorError as error:
            raise CheckpointError(f"{path}: the safetensors file is damaged or truncated ({error})") from error
        if metadata.get("format") != FORMAT:
            raise CheckpointError(f"{path}: expected a checkpoint of warpwise train, got other safetensors")
        try:
            state = json.loads(metadata["state"])
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"{path}: the state in its metadata is damaged ({error!r})") from error
        return cls(tensors, state)
