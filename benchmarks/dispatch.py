"""The host time of a call of matmul, addmm, linear and batched_matmul, and of PyTorch's, without waiting for the GPU.

    python benchmarks/dispatch.py [--operation matmul] [--json FILE] [--profile]

The shapes are small, so that a kernel ends before the next call starts. Each round times CALLS calls of each function
without synchronisation, in random order; the result is the median over rounds, in µs a call. The goal is at most 10 µs
more than PyTorch, with and without autograd. ``--profile`` prints where one of our calls spends its time.
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
DTYPES = (torch.float32, torch.bfloat16, torch.float64)  # float64 is passed on to PyTorch
OPERATIONS: dict[
    str, tuple[Callable[..., Any], Callable[..., tuple[torch.Tensor, ...]]]
] = {  # PyTorch's, and arguments
    "matmul": (torch.matmul, lambda a, b: (a, b)),
    "addmm": (torch.addmm, lambda a, b: (a[0].detach().clone(), a, b)),
    "linear": (torch.nn.functional.linear, lambda a, b: (a, b, a[0].detach().clone())),
    "batched_matmul": (torch.bmm, lambda a, b: (a.expand(2, *a.shape), b.expand(2, *b.shape))),
}
PYTORCH = "PyTorch"


def microseconds(call: Callable[[], Any], device: torch.device) -> float:
    """Host time in µs a call; the GPU is synchronised after the measurement."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    spent = time.perf_counter() - start
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e6 * spent / CALLS


def contestants(name: str, args: tuple[torch.Tensor, ...], rungs: list[str]) -> dict[str, Callable[[], Any]]:
    """PyTorch's function, ours with its own choice, and ours with each rung by name."""
    op, ours, theirs = operation.get(name), getattr(ops, name), OPERATIONS[name][0]
    made: dict[str, Callable[[], Any]] = {PYTORCH: lambda: theirs(*args), name: lambda: ours(*args)}
    for rung in (op.rung(name) for name in rungs):
        if op.refusal(rung, *args) is None:
            made[rung.name] = functools.partial(ours, *args, rung=rung.name)
    return made


def measured(name: str, args: tuple[torch.Tensor, ...], rungs: list[str]) -> dict[str, dict[str, Any]]:
    """Each function's µs a call with its 95 % interval, and the difference from PyTorch in the same rounds."""
    device, calls = args[0].device, contestants(name, args, rungs)
    rounds: dict[str, list[float]] = {}
    for key, call in list(calls.items()):
        try:
            microseconds(call, device)
            rounds[key] = []
        except Exception as error:  # noqa: BLE001 - skip a rung that cannot run here
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
    """Print the host time by Python function. The profiler's overhead inflates short functions."""
    call()
    profiler = cProfile.Profile()
    with profiler:
        for _ in range(2000):
            call()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(18)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operation", action="append", choices=list(OPERATIONS), help="default: all")
    parser.add_argument("--size", type=int, default=128, help="M, N and K, which are equal")
    parser.add_argument("--rung", action="append", help="rungs of matmul to measure; default: all that run here")
    parser.add_argument("--profile", action="store_true", help="print the host time by function")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device).manual_seed(0)
    rungs = options.rung or [rung.name for rung in operation.get("matmul").rungs if device.type in rung.devices]
    if device.type == "cpu":
        rungs = []  # an emulated kernel is not a launch
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
            judged = contestant != PYTORCH and device.type == "cuda"  # on a CPU PyTorch computes in both cases
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
