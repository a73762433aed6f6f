"""A training step of the small convolutional network: ours beside four ways of PyTorch, and whole runs.

    python benchmarks/cnn.py --data DIR [--dataset fashion] [--batch 128 512 2048] [--only step agree accuracy]
                             [--features A B] [--ways NAME ...] [--rounds R] [--steps S] [--seeds N]
                             [--json FILE]
    python benchmarks/cnn.py --random C H W [--classes N] ...

step: the time of a step, batch load to weight update, of eager PyTorch, torch.compile, both captured in CUDA graphs,
and ours: ``--rounds`` times ``--steps`` steps of each in random order within one process, the median of the rounds, and
the memory that each allocates. Every way takes the same batches by ``CompiledStep.many``, whose graphs have several
steps.
agree: the losses of the first 200 steps from the same weights and batches, ours against eager PyTorch in fp32, and
eager PyTorch with other algorithms of cuDNN against the same, which shows what rounding gives.
accuracy: epochs and seconds of training until 90 % of the test images are right, and the accuracy after ten epochs, for
several seeds. ``--random`` takes random images and labels in place of a data set, and ``--features`` other channels of
the two blocks. A GPU is needed but for ``--only agree``. The result is written to ``--json``, with the GPU and the
versions.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src")]

import torch

from warpwise.apps import data
from warpwise.apps.train import Settings, Trainer
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place
from warpwise.nn import CompiledStep

STEPS, WARM_UP = 200, 20
GOAL, EPOCHS = 0.90, 10
WAYS = {  # engine, and whether the step is captured
    "torch": ("torch", False), "compile": ("compile", False), "torch in a graph": ("graph", True),
    "compile in a graph": ("compile", True), "ours": ("ours", True),
}  # fmt: skip


def random_images(shape: Sequence[int], classes: int, count: int = 8192) -> data.ImageSet:
    """``count`` images (C, H, W) of random bytes with random labels, and a few more to test with."""
    generator = torch.Generator().manual_seed(0)

    def drawn(number: int) -> data.Images:
        pixels = torch.randint(0, 256, (number, *shape), dtype=torch.uint8, generator=generator)
        return data.Images(pixels, torch.randint(0, classes, (number,), generator=generator))

    return data.ImageSet("random", drawn(count), drawn(64), tuple(map(str, range(classes))), "random")


def trainer(images: data.ImageSet, way: str, batch: int, device: torch.device, **settings: Any) -> Trainer:
    engine, captured = WAYS[way]
    made = Settings(images.name, "cnn", batch, engine=engine, **{"momentum": 0.0, **settings})
    return Trainer(made, images, device, captured=captured)


def steps(one: Trainer, count: int) -> torch.Tensor:
    """``count`` steps over the order of the first epochs; the losses, (count,)."""
    batch = one.settings.batch
    epochs = -(-count // one.steps)
    order = torch.cat([one.order(epoch)[: one.steps * batch].view(one.steps, batch) for epoch in range(epochs)])
    return many(one, order[:count])


def many(one: Trainer, indices: torch.Tensor) -> torch.Tensor:
    """A step for each row of ``indices``, (steps, batch); the losses, (steps,)."""
    assert isinstance(one.step, CompiledStep)
    return one.step.many(indices)


def timed(
    images: data.ImageSet,
    batch: int,
    device: torch.device,
    rounds: int,
    ways: Sequence[str] = tuple(WAYS),
    count: int = STEPS,
    **settings: Any,
) -> dict[str, Any]:
    """Microseconds a step, of ``rounds`` times ``count`` steps, and bytes allocated, of each way."""
    found: dict[str, Any] = {}
    ready = {}
    for way in ways:
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        ready[way] = trainer(images, way, batch, device, **settings)
        steps(ready[way], WARM_UP)
        torch.cuda.synchronize()
        found[way] = {"bytes": torch.cuda.max_memory_allocated(device) - before, "us": []}
    indices = torch.stack([torch.randperm(len(images.train), device=device)[:batch] for _ in range(count)])
    for _ in range(rounds):
        for way in random.sample(list(ways), len(ways)):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            many(ready[way], indices)
            end.record()
            torch.cuda.synchronize()
            found[way]["us"].append(start.elapsed_time(end) * 1000 / count)
    for way in ways:
        found[way]["median_us"] = statistics.median(found[way]["us"])
    best = min(found[way]["median_us"] for way in ways if way != "ours")
    return {"ways": found, "speed": best / found["ours"]["median_us"]}


ROUNDINGS = {  # how two runs of PyTorch differ: in the order of the sums of a convolution only
    "deterministic algorithms": {"deterministic": True}, "algorithms by measurement": {"benchmark": True},
}  # fmt: skip


def agreement(images: data.ImageSet, batch: int, device: torch.device, **settings: Any) -> dict[str, Any]:
    """Relative differences of the losses of 200 steps from eager PyTorch's: ours, and those of PyTorch's other ways.

    What fp32 rounding alone gives is the difference between two ways of PyTorch.
    """

    def losses(way: str, **flags: bool) -> torch.Tensor:
        before = {name: getattr(torch.backends.cudnn, name) for name in flags}
        try:
            for name, value in flags.items():
                setattr(torch.backends.cudnn, name, value)
            return steps(trainer(images, way, batch, device, **settings), STEPS).cpu()
        finally:
            for name, value in before.items():
                setattr(torch.backends.cudnn, name, value)

    theirs = losses("torch")
    runs = {"ours": losses("ours")} | {f"torch, {name}": losses("torch", **one) for name, one in ROUNDINGS.items()}
    found: dict[str, Any] = {}
    for name, run in runs.items():
        difference = (run - theirs).abs() / theirs.abs().clamp_min(1e-3)
        found[name] = {
            "largest": float(difference.max()), "mean": float(difference.mean()),
            "first_20": float(difference[:20].max()), "last_loss": float(run[-1]),
        }  # fmt: skip
    return found


def accuracies(
    images: data.ImageSet, batch: int, device: torch.device, seeds: int, ways: Sequence[str], **settings: Any
) -> dict[str, Any]:
    """Epochs until the goal, in seconds of the median epoch, and the final accuracy of each seed.

    The first epoch includes the capture of the step.
    """
    found: dict[str, Any] = {}
    for way in ways:
        runs = []
        for seed in range(seeds):
            one = trainer(images, way, batch, device, seed=seed, momentum=0.9, epochs=EPOCHS, **settings)
            warmed = trainer(images, way, batch, device, seed=seed, momentum=0.9, epochs=1, **settings)
            steps(warmed, 1)  # compiles the kernels
            images_an_epoch = one.steps * batch
            one.run()
            epoch_s = statistics.median(images_an_epoch / epoch.rate for epoch in one.history)
            final = one.history[-1].accuracy
            goal = next((epoch.number for epoch in one.history if epoch.accuracy >= GOAL), None)
            runs.append({
                "seed": seed, "epochs_to_goal": goal, "seconds_to_goal": goal and goal * epoch_s, "accuracy": final,
                "epoch_s": epoch_s, "first_epoch_s": images_an_epoch / one.history[0].rate,
            })  # fmt: skip
        found[way] = runs
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with the IDX files")
    parser.add_argument("--dataset", choices=data.NAMES, default="fashion")
    parser.add_argument("--random", type=int, nargs=3, metavar=("C", "H", "W"))
    parser.add_argument("--classes", type=int, default=10, help="of the random images")
    parser.add_argument("--features", type=int, nargs=2, default=[16, 32], metavar=("A", "B"))
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=list(WAYS), help="beside ours")
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 512, 2048])
    parser.add_argument(
        "--only", nargs="+", choices=("step", "agree", "accuracy"), default=["step", "agree", "accuracy"]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=STEPS, help="of a round")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and options.only != ["agree"]:
        parser.error("expected a GPU; without one --only agree compares the losses")
    images = (
        random_images(options.random, options.classes) if options.random else data.load(options.dataset, options.data)
    )
    features, ways = tuple(options.features), [way for way in WAYS if way in options.ways or way == "ours"]
    result: dict[str, Any] = {
        "environment": environment(device), "dataset": images.name, "images": list(images.train.pixels.shape[1:]),
        "classes": len(images.classes), "features": features, "points": {},
    }  # fmt: skip
    print(f"{images.name} on {place(device)}")
    for batch in options.batch:
        started, point = time.perf_counter(), {}
        if "step" in options.only:
            point["step"] = timed(images, batch, device, options.rounds, ways, options.steps, features=features)
            for way, one in point["step"]["ways"].items():
                print(f"batch {batch:>5}  {way:<20} {one['median_us']:9.1f} µs  {one['bytes'] / 2**20:8.1f} MiB")
            print(f"batch {batch:>5}  ours is {point['step']['speed']:.2f} × the best of PyTorch")
        if "agree" in options.only:
            point["agree"] = agreement(images, batch, device, features=features)
            for name, one in point["agree"].items():
                shown = f"{one['largest']:.2g}, of the first 20 by {one['first_20']:.2g}"
                print(f"batch {batch:>5}  {name:<40} losses of {STEPS} steps differ from eager by up to {shown}")
        if "accuracy" in options.only:
            point["accuracy"] = accuracies(images, batch, device, options.seeds, ways, features=features)
            for way, runs in point["accuracy"].items():
                mean = statistics.mean(run["accuracy"] for run in runs)
                goals = [run["seconds_to_goal"] for run in runs]
                epoch_ms = 1000 * statistics.median(run["epoch_s"] for run in runs)
                shown = f"accuracy {100 * mean:.2f} %, an epoch {epoch_ms:.1f} ms, seconds to {GOAL:.0%}: {goals}"
                print(f"batch {batch:>5}  {way:<20} {shown}")
        point["seconds"] = time.perf_counter() - started
        result["points"][str(batch)] = point
        if options.json:
            atomic_write(options.json, json.dumps(result, indent=1, default=str))


if __name__ == "__main__":
    main()
