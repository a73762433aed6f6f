"""What a call costs on the host: matmul, addmm and linear beside PyTorch's own, without waiting for the GPU.

    python benchmarks/dispatch.py [--operation matmul] [--json FILE] [--profile]

Small shapes, whose kernels end before the next call begins; each round times CALLS calls of each contestant without a
synchronisation, in random order, and what counts is the median over rounds, in µs a call. The goal is 10 µs above
PyTorch's own, with a gradient to be recorded and without. ``--profile`` says where the time of one of ours goes.
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import itertools
import json
import pstats
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src")]

import torch

from warpwise import operation, ops
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place
from warpwise.lab.timing.stats import interval, ratio

CALLS, ROUNDS = 300, 41
GOAL = 10.0  # µs above PyTorch's own
DTYPES = (torch.float32, torch.bfloat16, torch.float64)  # float64 is PyTorch's: what passing a call on costs
OPERATIONS: dict[
    str, tuple[Callable[..., Any], Callable[..., tuple[torch.Tensor, ...]]]
] = {  # PyTorch's, and arguments
    "matmul": (torch.matmul, lambda a, b: (a, b)),
    "addmm": (torch.addmm, lambda a, b: (a[0].detach(), a, b)),
    "linear": (torch.nn.functional.linear, lambda a, b: (a, b, a[0].detach())),
}
PYTORCH = "PyTorch"


def microseconds(call: Callable[[], Any], device: torch.device) -> float:
    """µs a call, of the host alone: what is queued is waited for afterwards."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    spent = time.perf_counter() - start
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e6 * spent / CALLS


def contestants(name: str, args: tuple[torch.Tensor, ...], rungs: list[str]) -> dict[str, Callable[[], Any]]:
    """PyTorch's function, and ours as it chooses and as it is told to run each rung."""
    op, ours, theirs = operation.get(name), getattr(ops, name), OPERATIONS[name][0]
    made: dict[str, Callable[[], Any]] = {PYTORCH: lambda: theirs(*args), name: lambda: ours(*args)}
    for rung in (op.rung(name) for name in rungs):
        if op.refusal(rung, *args) is None:
            made[rung.name] = functools.partial(ours, *args, rung=rung.name)
    return made


def measured(name: str, args: tuple[torch.Tensor, ...], rungs: list[str]) -> dict[str, dict[str, Any]]:
    """Each contestant's µs a call with a 95 % interval, and how much that is above PyTorch's in the same round."""
    device, calls = args[0].device, contestants(name, args, rungs)
    rounds: dict[str, list[float]] = {}
    for key, call in list(calls.items()):
        try:
            microseconds(call, device)
            rounds[key] = []
        except Exception as error:  # noqa: BLE001 - a rung that cannot run here has no cost
            print(f"{key}: {type(error).__name__}: {error}", file=sys.stderr)
            del calls[key]
    order, shuffler = list(calls), random.Random(0)
    for _ in range(ROUNDS):
        shuffler.shuffle(order)
        for key in order:
            rounds[key].append(microseconds(calls[key], device))
    found = {}
    for key, values in rounds.items():
        time_of, above = (
            interval(values),
            interval([mine - torch_s for mine, torch_s in zip(values, rounds[PYTORCH], strict=True)]),
        )
        found[key] = {
            "us": time_of.median, "low": time_of.low, "high": time_of.high, "above_us": above.median,
            "times": ratio(values, rounds[PYTORCH]).median,
        }  # fmt: skip
    return found


def profiled(call: Callable[[], Any]) -> None:
    """Where the host's time goes, by function; profiling itself makes short functions look longer than they are."""
    call()
    profiler = cProfile.Profile()
    with profiler:
        for _ in range(2000):
            call()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(18)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operation", action="append", choices=list(OPERATIONS), help="all of them unless given")
    parser.add_argument("--size", type=int, default=128, help="rows, columns and depth")
    parser.add_argument("--rung", action="append", help="rungs of matmul to measure; all that run here unless given")
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device).manual_seed(0)
    rungs = options.rung or [rung.name for rung in operation.get("matmul").rungs if device.type in rung.devices]
    if device.type == "cpu":
        rungs = []  # emulated kernels are no launches
    points = []
    for name, dtype, gradient in itertools.product(options.operation or OPERATIONS, DTYPES, (False, True)):
        a, b = (torch.randn(options.size, options.size, generator=generator, device=device).to(dtype) for _ in "ab")
        args = OPERATIONS[name][1](a.requires_grad_(gradient), b)
        names = rungs if name == "matmul" and not gradient else []
        found = measured(name, args, names)
        chosen = operation.chosen(operation.get("matmul"), a, b) if name == "matmul" else ""
        kind = ", with a gradient" if gradient else ""
        print(f"\n{place(device)}, {name}, {options.size}^3, {dtype}{kind}{chosen and '; chooses '}{chosen}")
        for contestant, figures in found.items():
            judged = (
                contestant != PYTORCH and device.type == "cuda"
            )  # the goal is a GPU's: here PyTorch computes either way
            verdict = ("pass" if figures["above_us"] <= GOAL else "MISS") if judged else ""
            span = f"({figures['low']:.2f} to {figures['high']:.2f})"
            print(
                f"  {contestant:24}{figures['us']:8.2f} µs {span:20}{figures['above_us']:+8.2f} µs  {verdict}",
                flush=True,
            )
        point = {"operation": name, "dtype": str(dtype), "gradient": gradient, "size": options.size}
        points.append({**point, "chosen": str(chosen), "calls": found})
        if options.profile:
            profiled(contestants(name, args, [])[name])
    if options.json:
        kept = {"environment": environment(device), "goal_us": GOAL, "points": points}
        atomic_write(options.json, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
