"""``python -m warpwise.lab.ncu.child FILE``: what ncu and compute-sanitizer run. Launches what ``measure.described`` saved.

With ``--once`` there is no warm-up and no range to profile.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from warpwise.lab.ncu.capture import profiled
from warpwise.lab.ncu.measure import restored


def main(path: Path, once: bool = False) -> None:
    """Launch everything in the file at ``path``, on the GPU: a warm-up on copies of the arguments, then each profiled."""
    if not once:
        for data in _load(path):
            restored(data)()
        torch.cuda.synchronize()
    for launch in [restored(data) for data in _load(path)]:
        if once:
            launch()
            continue
        launch.launcher.kernel.on_gpu(torch.device("cuda"))
        with profiled():
            launch()
    torch.cuda.synchronize()


def _load(path: Path) -> list[dict[str, object]]:
    return torch.load(path, map_location="cuda", weights_only=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), once="--once" in sys.argv[2:])
