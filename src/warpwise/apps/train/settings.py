"""The settings that determine a training run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

DTYPES = ("fp32", "tf32", "bf16")


@dataclass(frozen=True)
class Settings:
    """A run: the data set and model by name, batch size, epochs, learning rate, momentum, seed, dtype and engine.

    ``features`` are the channels of the two blocks of model "cnn".

    The same settings give the same weights, bit for bit, on one device.
    """

    dataset: str = "digits"
    model: str = "cnn"
    batch: int = 128
    epochs: int = 5
    lr: float = 0.05
    momentum: float = 0.9
    seed: int = 0
    dtype: str = "fp32"
    engine: str = "ours"
    features: tuple[int, ...] = (16, 32)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "features": list(self.features)}

    def difference(self, other: dict[str, Any]) -> str | None:
        """What differs in ``other``, the settings of a checkpoint, other than the number of epochs and the engine."""
        mine, other = self.to_json(), {"features": list(Settings().features), **other}
        for name in mine:
            if name not in ("epochs", "engine") and mine[name] != other.get(name):
                return f"{name} {other.get(name)!r}, this run has {mine[name]!r}"
        return None
