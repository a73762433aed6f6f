"""A training step of the small convolutional network: ours beside four ways of PyTorch, and whole runs.

    python benchmarks/cnn.py --data DIR [--dataset fashion|random] [--batch 128 512 2048] [--only step agree accuracy]
                             [--rounds R] [--seeds N] [--json FILE]

step: the time of a step, batch load to weight update, of eager PyTorch, torch.compile, both captured in CUDA graphs,
and ours: ``--rounds`` times 200 steps of each in random order within one process, the median of the rounds, and the
memory that each allocates. Every way takes the same batches by ``CompiledStep.many``, whose graphs have several steps.
agree: the losses of the first 200 steps from the same weights and batches, ours against eager PyTorch in fp32.
The data set "random" has images and labels without meaning, for step and agree on a machine without data.
accuracy: epochs and seconds of training until 90 % of the test images are right, and the accuracy after ten epochs, for
several seeds. A GPU is needed but for ``--only agree``. The result is written to ``--json``, with the GPU and the
versions.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
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
RANDOM = "random"
GOAL, EPOCHS = 0.90, 10
WAYS = {  # engine, and whether the step is captured
    "torch": ("torch", False), "compile": ("compile", False), "torch in a graph": ("graph", True),
    "compile in a graph": ("compile", True), "ours": ("ours", True),
}  # fmt: skip


def random_images() -> data.ImageSet:
    """60,000 images of 28 x 28 and 10,000 more, with random pixels and labels."""
    generator = torch.Generator().manual_seed(0)
    sets = [
        data.Images(
            torch.randint(256, (count, 28, 28), dtype=torch.uint8, generator=generator),
            torch.randint(10, (count,), generator=generator),
        )
        for count in (60_000, 10_000)
    ]
    return data.ImageSet(RANDOM, *sets, tuple("0123456789"), "random")


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


def timed(images: data.ImageSet, batch: int, device: torch.device, rounds: int) -> dict[str, Any]:
    """Microseconds a step and bytes allocated, of each way."""
    found: dict[str, Any] = {}
    ready = {}
    for way in WAYS:
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        ready[way] = trainer(images, way, batch, device)
        steps(ready[way], WARM_UP)
        torch.cuda.synchronize()
        found[way] = {"bytes": torch.cuda.max_memory_allocated(device) - before, "us": []}
    indices = torch.stack([torch.randperm(len(images.train), device=device)[:batch] for _ in range(STEPS)])
    for _ in range(rounds):
        for way in random.sample(list(WAYS), len(WAYS)):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            many(ready[way], indices)
            end.record()
            torch.cuda.synchronize()
            found[way]["us"].append(start.elapsed_time(end) * 1000 / STEPS)
    for way in WAYS:
        found[way]["median_us"] = statistics.median(found[way]["us"])
    best = min(found[way]["median_us"] for way in WAYS if way != "ours")
    return {"ways": found, "speed": best / found["ours"]["median_us"]}


def agreement(images: data.ImageSet, batch: int, device: torch.device) -> dict[str, float]:
    """The largest relative difference of the losses of 200 steps, ours and eager PyTorch's."""
    ours, theirs = (steps(trainer(images, way, batch, device), STEPS).cpu() for way in ("ours", "torch"))
    difference = (ours - theirs).abs() / theirs.abs().clamp_min(1e-3)
    return {"largest": float(difference.max()), "mean": float(difference.mean()), "last_loss": float(ours[-1])}


def accuracies(images: data.ImageSet, batch: int, device: torch.device, seeds: int) -> dict[str, Any]:
    """Seconds of training until the goal, the capture of the step left out, and the final accuracy of each seed."""
    found: dict[str, Any] = {}
    for way in ("ours", "compile in a graph"):
        runs = []
        for seed in range(seeds):
            one = trainer(images, way, batch, device, seed=seed, momentum=0.9, epochs=EPOCHS)
            spent, reached = 0.0, None
            warmed = trainer(images, way, batch, device, seed=seed, momentum=0.9, epochs=1)
            steps(warmed, 1)  # compiles the kernels
            images_an_epoch = one.steps * batch
            one.run()
            for epoch in one.history:
                spent += images_an_epoch / epoch.rate
                if reached is None and epoch.accuracy >= GOAL:
                    reached = spent
            runs.append({"seed": seed, "seconds_to_goal": reached, "accuracy": one.history[-1].accuracy})
        found[way] = runs
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder with the IDX files")
    parser.add_argument("--dataset", choices=(*data.NAMES, RANDOM), default="fashion")
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 512, 2048])
    parser.add_argument(
        "--only", nargs="+", choices=("step", "agree", "accuracy"), default=["step", "agree", "accuracy"]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and options.only != ["agree"]:
        parser.error("expected a GPU; without one --only agree compares the losses")
    if options.dataset == RANDOM and "accuracy" in options.only:
        parser.error("the accuracy of random labels has no meaning: expected --only step agree")
    images = random_images() if options.dataset == RANDOM else data.load(options.dataset, options.data)
    result: dict[str, Any] = {"environment": environment(device), "dataset": images.name, "points": {}}
    print(f"{images.name} on {place(device)}")
    for batch in options.batch:
        started, point = time.perf_counter(), {}
        if "step" in options.only:
            point["step"] = timed(images, batch, device, options.rounds)
            for way, one in point["step"]["ways"].items():
                print(f"batch {batch:>5}  {way:<20} {one['median_us']:9.1f} µs  {one['bytes'] / 2**20:8.1f} MiB")
            print(f"batch {batch:>5}  ours is {point['step']['speed']:.2f} × the best of PyTorch")
        if "agree" in options.only:
            point["agree"] = agreement(images, batch, device)
            print(f"batch {batch:>5}  losses differ by at most {point['agree']['largest']:.2g} in {STEPS} steps")
        if "accuracy" in options.only:
            point["accuracy"] = accuracies(images, batch, device, options.seeds)
            for way, runs in point["accuracy"].items():
                mean = statistics.mean(run["accuracy"] for run in runs)
                goals = [run["seconds_to_goal"] for run in runs]
                print(f"batch {batch:>5}  {way:<20} accuracy {100 * mean:.2f} %, seconds to {GOAL:.0%}: {goals}")
        point["seconds"] = time.perf_counter() - started
        result["points"][str(batch)] = point
    if options.json:
        atomic_write(options.json, json.dumps(result, indent=1, default=str))


if __name__ == "__main__":
    main()
