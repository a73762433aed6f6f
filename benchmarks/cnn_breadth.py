"""Compare training steps with the best of PyTorch for other images, classes, channels and batches.

    python benchmarks/cnn_breadth.py [--network NAME ...] [--batch N ...] [--jobs N] [--json FILE]

A point is a network and a batch: ``cnn.py --random C H W --classes N --features A B --only step`` in a process of its
own. First ``--jobs`` processes at a time run all points, so that the compiled code of torch.compile and of the kernels
is in the caches; then the points are measured one after the other. ``--json`` replaces the points of that file, and
keeps its other points if they are of the same GPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src")]

from warpwise.cache import atomic_write

WAYS = ("torch in a graph", "compile in a graph")
BATCHES = (64, 300, 1000, 4096)
ROUNDS, STEPS, MANY, FEW_STEPS = 2, 200, 2000, 60  # steps of a round; of batches above MANY, FEW_STEPS
NOTE = (
    f"benchmarks/cnn_breadth.py: steps in a CUDA graph, each point in a process of its own; medians of {ROUNDS} rounds "
    f"of {STEPS} steps ({FEW_STEPS} of batches above {MANY})"
)


class Network(NamedTuple):
    images: tuple[int, int, int]
    classes: int
    features: tuple[int, int]

    @property
    def name(self) -> str:
        """ "3x32x32-100-8-16"."""
        return "-".join(("x".join(map(str, self.images)), *map(str, (self.classes, *self.features))))


NETWORKS = tuple(
    Network(images, classes, features)
    for images, classes in (((1, 28, 28), 10), ((3, 32, 32), 100))
    for features in ((8, 16), (32, 64))
)


def measured(network: Network, batch: int, compiles: bool = False) -> dict[str, Any]:
    """The environment, and the medians in µs and the speed of one point; few steps if it only ``compiles``.

    Raises ``RuntimeError`` with the output of a process that fails.
    """
    rounds, steps = (1, 10) if compiles else (ROUNDS, STEPS if batch <= MANY else FEW_STEPS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "point.json"
        arguments = [
            *("--random", *network.images, "--classes", network.classes, "--features", *network.features),
            *("--only", "step", "--ways", *WAYS, "--batch", batch, "--rounds", rounds),
            *("--steps", steps, "--json", file),
        ]
        command = [sys.executable, str(ROOT / "benchmarks" / "cnn.py"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{network.name}, batch {batch}: {done.stdout[-1000:]}{done.stderr[-3000:]}")
        kept = json.loads(file.read_text())
    step = kept["points"][str(batch)]["step"]
    medians = {way: round(one["median_us"], 1) for way, one in step["ways"].items()}
    return {"environment": kept["environment"], "median_us": medians, "speed": step["speed"]}


def updated(kept: dict[str, Any], network: Network, batch: int, point: dict[str, Any]) -> dict[str, Any]:
    """``kept`` with the point, whose environment becomes that of the file."""
    environment = point["environment"]
    if kept.get("place") != environment["device"]:
        kept = {"points": []}
    points = {(*one["images"], one["classes"], *one["features"]): one for one in kept["points"]}
    empty = {
        "images": [*network.images],
        "classes": network.classes,
        "features": [*network.features],
        "batches": {},
    }
    one = points.setdefault((*network.images, network.classes, *network.features), empty)
    batches = one["batches"] | {str(batch): {"median_us": point["median_us"], "speed": point["speed"]}}
    one["batches"] = {size: batches[size] for size in sorted(batches, key=int)}
    return {
        "environment": environment,
        "place": environment["device"],
        "note": NOTE,
        "points": [points[key] for key in sorted(points)],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    named = {network.name: network for network in NETWORKS}
    parser.add_argument("--network", nargs="+", choices=tuple(named), default=list(named))
    parser.add_argument("--batch", type=int, nargs="+", default=BATCHES)
    parser.add_argument(
        "--jobs",
        type=int,
        default=8,
        help="number of processes that compile at the same time; 0: nothing is compiled ahead",
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    wanted = [(named[name], batch) for name in options.network for batch in options.batch]
    failed = set()

    def run(network: Network, batch: int, compiles: bool) -> dict[str, Any] | None:
        try:
            return measured(network, batch, compiles)
        except RuntimeError as error:
            print(error, flush=True)
            failed.add((network, batch))
            return None

    if options.jobs:
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda one: run(*one, compiles=True), wanted))
    kept = json.loads(options.json.read_text()) if options.json and options.json.exists() else {"points": []}
    for network, batch in wanted:
        if (network, batch) in failed or not (point := run(network, batch, compiles=False)):
            continue
        times = ", ".join(f"{way} {us:.1f}" for way, us in point["median_us"].items())
        print(
            f"{network.name:<18} batch {batch:>5}: {point['speed']:.2f} × the best of PyTorch; µs: {times}", flush=True
        )
        kept = updated(kept, network, batch, point)
        if options.json:
            atomic_write(options.json, json.dumps(kept, indent=1))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
