"""``python -m warpwise.lab.profile.ncu.child FILE``: the child process of ncu and compute-sanitizer. It runs the
launches saved by ``measure.described``.

With ``--once`` there is no warm-up and no profiled range, and output arrays stay uninitialised.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from warpwise.cuda.launch.views import Out, Strided
from warpwise.lab.profile.ncu.capture import profiled
from warpwise.lab.profile.ncu.measure import restored


def main(path: Path, once: bool = False) -> None:
    """Run the launches in the file ``path`` on the GPU: a warm-up on copies of the arguments, then profiled."""
    if once:
        for data in uninitialised(_load(path)):
            restored(data)()
        torch.cuda.synchronize()
        return
    for data in _load(path):
        restored(data)()
    torch.cuda.synchronize()
    for launch in [restored(data) for data in _load(path)]:
        launch.launcher.kernel.on_gpu(torch.device("cuda"))
        with profiled():
            launch()


def uninitialised(launches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The launches with new memory for each argument marked by ``cuda.out`` that shares no storage with another."""
    used = Counter(_storage(value) for data in launches for value in data["args"])
    return [
        {
            **data,
            "args": [
                _new(value) if isinstance(value, Out) and used[_storage(value)] == 1 else value
                for value in data["args"]
            ],
        }
        for data in launches
    ]


def _storage(value: Any) -> int | None:
    inner = value.value if isinstance(value, Out | Strided) else value
    return inner.untyped_storage().data_ptr() if isinstance(inner, torch.Tensor) else None


def _new(value: Out) -> Out:
    tensor = value.value
    if not isinstance(tensor, torch.Tensor):
        return value
    room = torch.empty(tensor.untyped_storage().nbytes(), dtype=torch.uint8, device=tensor.device).view(tensor.dtype)
    return Out(room.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()))


def _load(path: Path) -> list[dict[str, Any]]:
    return torch.load(path, map_location="cuda", weights_only=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), once="--once" in sys.argv[2:])
