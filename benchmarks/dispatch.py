"""What a call costs on the host: ours beside torch.matmul, without waiting for the GPU.

    python benchmarks/dispatch.py [--json FILE] [--profile]

Small shapes, whose kernels end before the next call begins; each round times CALLS calls of each contestant without a
synchronisation, in random order, and what counts is the median over rounds, in µs a call. The goal is 10 µs above
torch.matmul's own, with a gradient to be recorded and without. ``--profile`` says where the time of one of ours goes.
"""

from __future__ import annotations

import argparse
import cProfile
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

from warpwise import ops, registry
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place
from warpwise.lab.timing.stats import interval, ratio

CALLS, ROUNDS = 300, 41
GOAL = 10.0  # µs above torch.matmul
DTYPES = (torch.float32, torch.bfloat16, torch.float64)  # float64 is PyTorch's: what passing a call on costs
PYTORCH = "torch.matmul"


def microseconds(call: Callable[[], Any], device: torch.device) -> float:
    """µs a call, of the host alone: what is queued is waited for afterwards."""
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    spent = time.perf_counter() - start
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e6 * spent / CALLS


def contestants(a: torch.Tensor, b: torch.Tensor, rungs: list[str]) -> dict[str, Callable[[], Any]]:
    """torch.matmul, the public function as it chooses, and as it is told to run each rung."""
    op, matmul = registry.get("matmul"), ops.matmul
    made: dict[str, Callable[[], Any]] = {PYTORCH: lambda: torch.matmul(a, b), "matmul": lambda: matmul(a, b)}
    for name in rungs:
        rung = op.rung(name)
        if op.refusal(rung, a, b) is None:
            made[rung.name] = lambda name=rung.name: matmul(a, b, rung=name)
    return made


def measured(a: torch.Tensor, b: torch.Tensor, rungs: list[str]) -> dict[str, dict[str, Any]]:
    """Each contestant's µs a call with a 95 % interval, and how much that is above torch.matmul's in the same round."""
    calls = contestants(a, b, rungs)
    rounds: dict[str, list[float]] = {}
    for name, call in list(calls.items()):
        try:
            microseconds(call, a.device)
            rounds[name] = []
        except Exception as error:  # noqa: BLE001 - a rung that cannot run here has no cost
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            del calls[name]
    order, shuffler = list(calls), random.Random(0)
    for _ in range(ROUNDS):
        shuffler.shuffle(order)
        for name in order:
            rounds[name].append(microseconds(calls[name], a.device))
    found = {}
    for name, values in rounds.items():
        time_of, above = (
            interval(values),
            interval([mine - torch_s for mine, torch_s in zip(values, rounds[PYTORCH], strict=True)]),
        )
        found[name] = {
            "us": time_of.median, "low": time_of.low, "high": time_of.high, "above_us": above.median,
            "times": ratio(values, rounds[PYTORCH]).median,
        }  # fmt: skip
    return found


def profiled(a: torch.Tensor, b: torch.Tensor, rung: str | None) -> None:
    """Where the host's time goes, by function; profiling itself makes short functions look longer than they are."""
    ops.matmul(a, b, rung=rung)
    profiler = cProfile.Profile()
    with profiler:
        for _ in range(2000):
            ops.matmul(a, b, rung=rung)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(18)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128, help="rows, columns and depth")
    parser.add_argument("--rung", action="append", help="rungs to measure; all that run here unless given")
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator(device).manual_seed(0)
    names = options.rung or [rung.name for rung in registry.get("matmul").rungs if device.type in rung.devices]
    if device.type == "cpu":
        names = []  # emulated kernels are no launches
    points = []
    for dtype, gradient in itertools.product(DTYPES, (False, True)):
        a, b = (torch.randn(options.size, options.size, generator=generator, device=device).to(dtype) for _ in "ab")
        chosen, kind = ops.matmul.chosen(a, b), ", with a gradient" if gradient else ""
        found = measured(a.requires_grad_(gradient), b, [] if gradient else names)
        print(f"\n{place(device)}, {options.size}^3, {dtype}{kind}; matmul chooses {chosen}")
        for name, figures in found.items():
            verdict = "" if name == PYTORCH else "pass" if figures["above_us"] <= GOAL else "MISS"
            span = f"({figures['low']:.2f} to {figures['high']:.2f})"
            print(f"  {name:24}{figures['us']:8.2f} µs {span:20}{figures['above_us']:+8.2f} µs  {verdict}", flush=True)
        points.append(
            {"dtype": str(dtype), "gradient": gradient, "size": options.size, "chosen": str(chosen), "calls": found}
        )
        if options.profile and not gradient:
            for name in [None, *(options.rung or [])]:
                if name is None or registry.get("matmul").rung(name).name in found:
                    profiled(a, b, name)
    if options.json:
        kept = {"environment": environment(device), "goal_us": GOAL, "points": points}
        atomic_write(options.json, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
