"""Compare a training step of the small convolutional network with four ways to run it in PyTorch, and whole runs.

    python benchmarks/cnn.py --data DIR [--dataset fashion] [--batch 128 512 2048] [--only step agree accuracy]
                             [--features A B] [--ways NAME ...] [--rounds R] [--steps S] [--seeds N]
                             [--runs N] [--json FILE]
    python benchmarks/cnn.py --random C H W [--classes N] ...

step: the time of a step, batch load to weight update, of eager PyTorch, torch.compile, both captured in CUDA graphs,
and ours: ``--rounds`` times ``--steps`` steps of each in random order within one process, the median of the rounds, and
the memory that each allocates. Every way takes the same batches by ``CompiledStep.many``, whose graphs have several
steps.
agree: the losses of the first 200 steps with the same batches in fp32, of ``--runs`` runs of eager PyTorch and as many
of ours, whose initial weights differ by a unit in the last place, and of eager PyTorch with other algorithms of cuDNN.
The differences between runs of eager PyTorch are those of rounding alone.
accuracy: epochs and seconds of training until 90 % of the test images are right, and the accuracy after ten epochs, for
several seeds. ``--random`` takes random images and labels in place of a data set, and ``--features`` other channels of
the two blocks. A GPU is needed except for ``--only agree``. The result is written to ``--json``, with the GPU and the
versions.
"""

from __future__ import annotations

import argparse
import copy
import gc
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
        gc.collect()  # else memory of earlier trainers is freed while this one allocates
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


ROUNDINGS: dict[str, dict[str, bool]] = {  # how runs of PyTorch differ: in the order of the sums of a convolution only
    "eager, deterministic algorithms": {"deterministic": True}, "eager, algorithms by measurement": {"benchmark": True},
}  # fmt: skip
State = dict[str, torch.Tensor]


def moved(state: State, seed: int) -> State:
    """``state`` with every floating-point number moved to the next larger or smaller one, by chance."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, value in state.items():
        up = torch.rand(value.shape, generator=generator) < 0.5
        to = torch.where(up, torch.inf, -torch.inf).to(value.device)
        found[name] = torch.nextafter(value, to) if value.is_floating_point() else value
    return found


@contextmanager
def cudnn(**flags: bool) -> Iterator[None]:
    """Set these flags of ``torch.backends.cudnn``, and leave the others, which ``cudnn.flags`` sets too."""
    before = {flag: getattr(torch.backends.cudnn, flag) for flag in flags}
    try:
        for flag, value in flags.items():
            setattr(torch.backends.cudnn, flag, value)
        yield
    finally:
        for flag, value in before.items():
            setattr(torch.backends.cudnn, flag, value)


def losses_of_runs(
    images: data.ImageSet, batch: int, device: torch.device, runs: int, **settings: Any
) -> dict[str, list[torch.Tensor]]:
    """The losses of 200 steps of runs from the same weights and batches, (steps,) each.

    "eager" has one run, "eager, moved" ``runs`` runs from weights that were moved by a unit in the last place, "ours"
    a run from the weights of "eager", then ``runs`` - 1 from moved ones, and each of ROUNDINGS one run.
    """
    found: dict[str, list[torch.Tensor]] = {}

    def run(one: Trainer, name: str, state: State, **flags: bool) -> None:
        with cudnn(**flags):
            one.model.load_state_dict(state)
            found.setdefault(name, []).append(steps(one, STEPS).cpu())

    eager, ours = (trainer(images, way, batch, device, **settings) for way in ("torch", "ours"))
    start = copy.deepcopy(eager.model.state_dict())
    run(eager, "eager", start)
    for seed in range(runs):
        run(eager, "eager, moved", moved(start, seed))
        run(ours, "ours", moved(start, seed) if seed else start)
    for name, flags in ROUNDINGS.items():
        run(eager, name, start, **flags)
    return found


def difference(run: torch.Tensor, other: torch.Tensor) -> dict[str, float]:
    """The relative differences of the losses of two runs: the largest, the mean, and the largest of the first 20."""
    relative = (run - other).abs() / other.abs().clamp_min(1e-3)
    return {"largest": float(relative.max()), "mean": float(relative.mean()), "first_20": float(relative[:20].max())}


def agreement(losses: dict[str, list[torch.Tensor]]) -> dict[str, Any]:
    """The differences of all pairs of runs: of two of eager PyTorch, of ours and eager, and of two of ours.

    Of each the least, the median and the largest over the pairs. If training amplifies rounding and nothing else, those
    of ours and eager are like those of two of eager: ``p`` is the probability of their distance by chance.
    ``mean_loss`` is that of the second half of the steps, of each run; ``from_the_same_weights`` are the differences of
    the runs that start from the weights of "eager".
    """
    ours, eager = losses["ours"], [run for name, runs in losses.items() if name != "ours" for run in runs]
    pairs = {
        "eager and eager": list(itertools.combinations(eager, 2)),
        "ours and eager": list(itertools.product(ours, eager)),
        "ours and ours": list(itertools.combinations(ours, 2)),
    }
    found: dict[str, Any] = {"pairs": {}, "p": by_chance(eager, ours), "mean_loss": {}, "from_the_same_weights": {}}
    for name, each in pairs.items():
        all_found = [difference(*pair) for pair in each]
        found["pairs"][name] = {
            key: [pick([one[key] for one in all_found]) for pick in (min, statistics.median, max)]
            for key in all_found[0]
        }
    for name, runs in {"eager": eager, "ours": ours}.items():
        found["mean_loss"][name] = sorted(float(run[len(run) // 2 :].mean()) for run in runs)
    for name in ("ours", *ROUNDINGS):
        found["from_the_same_weights"][name] = difference(losses[name][0], losses["eager"][0])
    return found


def by_chance(some: list[torch.Tensor], others: list[torch.Tensor], rounds: int = 5000) -> float:
    """The fraction of random divisions of all runs into two groups of these sizes that are at least as far apart.

    The distance of two groups is the energy distance: twice the mean difference of a run of each, less those of two
    runs within each.
    """
    runs, count = [*some, *others], len(some)
    table = torch.tensor([[difference(run, other)["mean"] for other in runs] for run in runs], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)

    def energy(order: torch.Tensor) -> float:
        of = table[order][:, order]
        left, right, left_count = of[:count, :count], of[count:, count:], len(runs) - count
        within = left.sum() / max(1, count * (count - 1)) + right.sum() / max(1, left_count * (left_count - 1))
        return float(of[:count, count:].mean() + of[count:, :count].mean() - within)

    found = energy(torch.arange(len(runs)))
    return sum(energy(torch.randperm(len(runs), generator=generator)) >= found for _ in range(rounds)) / rounds


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
    parser.add_argument("--classes", type=int, default=10, help="number of classes of the random images")
    parser.add_argument("--features", type=int, nargs=2, default=[16, 32], metavar=("A", "B"))
    parser.add_argument(
        "--ways", nargs="+", choices=tuple(WAYS), default=list(WAYS), help="ways of PyTorch to compare with"
    )
    parser.add_argument("--batch", type=int, nargs="+", default=[128, 512, 2048])
    parser.add_argument(
        "--only", nargs="+", choices=("step", "agree", "accuracy"), default=["step", "agree", "accuracy"]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=STEPS, help="steps in each round")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--runs", type=int, default=8, help="runs of eager PyTorch, and as many of ours, whose losses are compared"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cpu" and options.only != ["agree"]:
        parser.error("expected a GPU; without a GPU, run --only agree, which compares the losses")
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
        started = time.perf_counter()
        point: dict[str, Any] = {}
        if "step" in options.only:
            point["step"] = timed(images, batch, device, options.rounds, ways, options.steps, features=features)
            for way, one in point["step"]["ways"].items():
                print(f"batch {batch:>5}  {way:<20} {one['median_us']:9.1f} µs  {one['bytes'] / 2**20:8.1f} MiB")
            print(f"batch {batch:>5}  ours is {point['step']['speed']:.2f} × the best of PyTorch")
        if "agree" in options.only:
            point["agree"] = agreement(losses_of_runs(images, batch, device, options.runs, features=features))
            for name, found in point["agree"]["pairs"].items():
                least, median, most = (f"{100 * value:.2g}" for value in found["largest"])
                mean, first = (f"{100 * found[key][1]:.2g}" for key in ("mean", "first_20"))
                print(
                    f"batch {batch:>5}  losses of {STEPS} steps, {name}: the largest difference is {median} % "
                    f"({least} to {most} %), the mean {mean} %, the largest of the first 20 {first} %"
                )
            print(f"batch {batch:>5}  ours are as far from eager by chance with probability {point['agree']['p']:.2g}")
            for name, runs in point["agree"]["mean_loss"].items():
                print(f"batch {batch:>5}  mean loss of the second half, {name}: {runs[0]:.4f} to {runs[-1]:.4f}")
        if "accuracy" in options.only:
            point["accuracy"] = accuracies(images, batch, device, options.seeds, ways, features=features)
            for way, runs in point["accuracy"].items():
                accuracy = statistics.mean(run["accuracy"] for run in runs)
                goals = [run["seconds_to_goal"] for run in runs]
                epoch_ms = 1000 * statistics.median(run["epoch_s"] for run in runs)
                shown = f"accuracy {100 * accuracy:.2f} %, an epoch {epoch_ms:.1f} ms, seconds to {GOAL:.0%}: {goals}"
                print(f"batch {batch:>5}  {way:<20} {shown}")
        point["seconds"] = time.perf_counter() - started
        result["points"][str(batch)] = point
        if options.json:
            atomic_write(options.json, json.dumps(result, indent=1, default=str))


if __name__ == "__main__":
    main()
