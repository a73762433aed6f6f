"""A file that keeps the best of the finished starts of a fit, so that an interrupted fit can continue."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import torch

from warpwise.cache import atomic_write


class CheckpointError(ValueError):
    """The file of a checkpoint cannot be used, for ``reason``; the message adds what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; delete the file to start again")
        self.reason = reason


class Checkpoint:
    """The state of a fit in the file ``path``; ``key`` identifies data, graph and parameters."""

    def __init__(self, path: str | Path, key: str) -> None:
        self.path, self.key = Path(path), key

    def load(self) -> dict[str, Any] | None:
        """The last saved state, on the CPU, or None if there is no file.

        Raises ``CheckpointError`` if the file is not a checkpoint, or belongs to other data or parameters.
        """
        if not self.path.exists():
            return None
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            key = state.pop("key")
        except Exception as error:
            raise CheckpointError(f"checkpoint: {self.path} is not a checkpoint of SpatialMixture") from error
        if key != self.key:
            raise CheckpointError(f"checkpoint: {self.path} is of other data or parameters")
        return state

    def save(self, state: dict[str, Any]) -> None:
        buffer = io.BytesIO()
        torch.save({**state, "key": self.key}, buffer)
        atomic_write(self.path, buffer.getvalue())

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def key_of(parameters: dict[str, Any], *tensors: torch.Tensor) -> str:
    """A digest of ``parameters`` and of the contents of ``tensors``."""
    digest = hashlib.sha256(repr(sorted(parameters.items())).encode())
    for tensor in tensors:
        digest.update(repr(tuple(tensor.shape)).encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
