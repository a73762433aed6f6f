"""The time of an explanation relative to the checked run that it contains. Run it on an idle machine.

    python benchmarks/explain_cost.py [--size 256] [--json FILE]

For each CUDA rung of matmul that a CPU executes, at SIZE x SIZE x SIZE in float32 and after compilation, it times
``kernel[...].check(...)`` and ``explain(kernel[...], ...)`` on the same arguments in turn. It prints the minimum of
several runs, and the parts of the explanation's time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "src")]

import torch

from warpwise import operation, ops  # noqa: F401 - importing ops registers them
from warpwise.cache import atomic_write
from warpwise.cuda.launch.intercept import intercepting
from warpwise.lab import explain
from warpwise.lab.timing.environment import environment, place
from warpwise.operation import Case

GOAL = 4.0  # relative to the checked run
CPU = torch.device("cpu")


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    made = call()
    return time.perf_counter() - start, made


def cost(launcher: Any, args: tuple[Any, ...], repeats: int) -> dict[str, Any]:
    """Seconds of the checked run and of the explanation, their ratio, and the parts of the explanation's time."""
    launcher.check(*args)
    explain(launcher, *args)
    checked, explained = [], []
    for _ in range(repeats):
        checked.append(seconds(lambda: launcher.check(*args))[0])
        explained.append(seconds(lambda: explain(launcher, *args)))
    least, explanation = min(explained, key=lambda each: each[0])
    return {
        "checked_s": min(checked),
        "explained_s": least,
        "ratio": least / min(checked),
        "parts_s": dict(explanation.seconds),
        "blocks": f"{explanation.counts.blocks_run} of {explanation.counts.blocks}" if explanation.counts else "none",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256, help="M, N and K, which are equal")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each; the minimum is reported")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    op, sizes = operation.get("matmul"), dict.fromkeys("mnk", options.size)
    args = op.spec.arguments(Case("cube", sizes), torch.float32, CPU, 0)
    print(f"{place(CPU)}, {os.cpu_count()} cores; matmul {options.size}^3 float32, milliseconds")
    print(f"{'rung':22}{'checked':>9}{'explained':>11}{'ratio':>7}  of which")
    figures = {}
    for rung in op.rungs:
        if rung.language != "cuda" or op.refusal(rung, *args) is not None:
            continue
        made: list[tuple[Any, tuple[Any, ...]]] = []
        with intercepting(lambda launcher, given, more, made=made: made.append((launcher, given))):  # type: ignore[misc]
            op.launch(rung, op.allocate(*args), *args)
        (launch,) = made
        found = figures[rung.name] = cost(*launch, options.repeats)
        parts = ", ".join(f"{name} {1e3 * value:.0f}" for name, value in found["parts_s"].items())
        times = f"{1e3 * found['checked_s']:9.0f}{1e3 * found['explained_s']:11.0f}{found['ratio']:7.2f}"
        print(f"{rung.name:22}{times}  {parts}; blocks {found['blocks']}")
    worst = max(figures, key=lambda name: figures[name]["ratio"])
    print(f"at most {figures[worst]['ratio']:.2f} times the checked run ({worst}); goal {GOAL:g}")
    if options.json:
        kept = {
            "environment": environment(CPU),
            "place": place(CPU),
            "size": options.size,
            "goal": GOAL,
            "rungs": figures,
        }
        atomic_write(options.json, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
