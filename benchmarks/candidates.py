"""Time all candidate rungs and configurations of an operation, PyTorch and torch.compile at given or drawn shapes.

python benchmarks/candidates.py --family NAME ... [--seed N] [--count N] [--limit S] [--compile-limit S] [--json FILE]
                                [--shapes FAMILY:rows=726,columns=88162:float32 ...]
python benchmarks/candidates.py --show FILE

A family is an operation with sizes around a limit of its rule of choice, and the rungs on both sides of that limit.
Each candidate is checked as in unseen_shapes.py. Then the candidates, the rule's choice, PyTorch and torch.compile are
timed in turn in CUDA graphs (unseen_gpu_time.py). Several processes compile first. ``chosen`` marks the candidate that
the rule chooses.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import random
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import torch
from benchmarks import unseen_compile, unseen_gpu_time
from benchmarks.unseen_cases import BOTH, MOST_ELEMENTS, Drawn, log_uniform
from benchmarks.unseen_opponents import PYTORCH
from benchmarks.unseen_shapes import compiled_function, where, worst

from warpwise import operation, ops
from warpwise.cache import atomic_write
from warpwise.device.target import HOPPER_SMS
from warpwise.lab.timing.environment import environment, place
from warpwise.lab.verify.problem import Problem
from warpwise.operation import Case, Op, Rung

ROUNDS = 9  # replays of each graph, at least
MOST_CONFIGS = 6  # of a rung: its rule's configuration, and others in their order
TARGET = "sm_90"
Ranges = Mapping[str, tuple[int, int]]


class Family(NamedTuple):
    """Sizes log-uniform in ``ranges`` of ``operation`` with ``attributes``, and the numbers of the ``rungs``."""

    operation: str
    ranges: Ranges
    attributes: Mapping[str, Any]
    rungs: tuple[str, ...]

    def case(self, sizes: Mapping[str, int], name: str, dtype: torch.dtype) -> Drawn:
        return Drawn(Case(name, dict(sizes), dict(self.attributes)), dtype)

    def drawn(self, name: str, seed: int, count: int) -> Iterator[Drawn]:
        rng, dtypes = random.Random(f"{name} {seed}"), itertools.cycle(BOTH)
        for number in range(count):
            sizes = {"": MOST_ELEMENTS + 1}
            while math.prod(sizes.values()) > MOST_ELEMENTS:
                sizes = {axis: log_uniform(rng, *limits) for axis, limits in self.ranges.items()}
            yield self.case(sizes, f"{name}_{number}", next(dtypes))


ALONG_COLUMNS = {"dim": 0}
FAMILIES = {
    "softmax_columns": Family(
        "softmax", {"rows": (200, 2000), "columns": (6000, 131072)}, ALONG_COLUMNS, ("k09", "k10", "k13", "k15")),
    "softmax_rows": Family("softmax", {"rows": (2000, 131072), "columns": (33, 1024)}, {"dim": -1}, ("k05", "k14")),
    "softmax_backward_columns": Family(
        "softmax_backward", {"rows": (100, 1500), "columns": (6000, 131072)}, ALONG_COLUMNS,
        ("k07", "k09", "k10")),
    "softmax_some_columns": Family(
        "softmax", {"rows": (1000, 60000), "columns": (65, 700)}, ALONG_COLUMNS, ("k09", "k10", "k13")),
    "softmax_backward_some_columns": Family(
        "softmax_backward", {"rows": (1000, 60000), "columns": (65, 700)}, ALONG_COLUMNS, ("k07", "k09", "k10")),
    "rows": Family("matvec", {"m": (100, 60000), "k": (300, 131072)}, {}, ("k03", "k06")),
    "short_rows": Family("matvec", {"m": (16384, 131072), "k": (33, 512)}, {}, ("k03", "k06", "k08")),
    "few_long_rows": Family("matvec", {"m": (16, 1000), "k": (20000, 131072)}, {}, ("k03", "k06")),
    "fewest_columns": Family(
        "matvec", {"m": (1000, 131072), "k": (9, 48)}, {"column_major": True}, ("k04", "k07", "k09")),
    "few_columns": Family("matvec", {"m": (1000, 65536), "k": (20, 300)}, {"column_major": True}, ("k04", "k07")),
    "sum_few_columns": Family(
        "reduce_sum", {"rows": (2000, 131072), "columns": (2, 64)}, ALONG_COLUMNS, ("k08", "k10")),
    "sum_columns": Family(
        "reduce_sum", {"rows": (500, 60000), "columns": (64, 4096)}, ALONG_COLUMNS, ("k08", "k10")),
    "sum_long_columns": Family(
        "reduce_sum", {"rows": (64, 6000), "columns": (4096, 131072)}, ALONG_COLUMNS, ("k08", "k10", "k12")),
    "sum_rows": Family(
        "reduce_sum", {"rows": (16, 8000), "columns": (2000, 131072)}, {"dim": -1}, ("k06", "k09")),
    "sum_short_rows": Family("reduce_sum", {"rows": (2000, 131072), "columns": (2, 300)}, {"dim": -1}, ("k06", "k11")),
    "transpose": Family("transpose", {"rows": (33, 16384), "cols": (33, 16384)}, {}, ("k04", "k05", "k09")),
}  # fmt: skip


def given(text: str) -> tuple[str, Drawn]:
    """The family and the case of FAMILY:rows=726,columns=88162:float32."""
    name, sizes, dtype = text.split(":")
    pairs = (pair.split("=") for pair in sizes.split(","))
    return name, FAMILIES[name].case({key: int(value) for key, value in pairs}, sizes, getattr(torch, dtype))


def candidates(family: Family, op: Op, args: tuple[Any, ...]) -> Iterator[Rung]:
    for rung in op.rungs:
        if rung.name.partition("_")[0] in family.rungs and op.unsupported(rung, *args) is None:
            configs = rung.configs(*args)[:MOST_CONFIGS]
            yield from (rung.at(config) for config in configs) if configs else (rung,)


def compile_point(name: str, each: Drawn) -> str:
    """Compile the kernels of all candidates of one case, then PyTorch's function by torch.compile."""
    family, failed = FAMILIES[name], []
    op = operation.get(family.operation)
    args = op.spec.arguments(each.case, each.dtype, torch.device("meta"), 0)
    with operation.assume_sm_count(HOPPER_SMS):
        for rung in candidates(family, op, args):
            try:
                for launch in op.kernels(rung, *args):
                    launch.compile(TARGET)
            except Exception as error:  # noqa: BLE001 - the run continues without it
                failed.append(f"{each.case.name} {rung.name}: {type(error).__name__}: {error}".splitlines()[0])
    if torch.cuda.is_available():
        failed.append(unseen_compile.compile_case(family.operation, each))
    return "\n".join(filter(None, failed))


def measured(name: str, each: Drawn, device: torch.device, gpu: unseen_gpu_time.GpuTime | None) -> dict[str, Any]:
    """Check and time all candidates of one case; microseconds."""
    family = FAMILIES[name]
    op, ours = operation.get(family.operation), getattr(ops, family.operation)
    instance = Problem(op, device).make(each.case, each.dtype, 0)
    args, theirs = instance.args, PYTORCH.get(family.operation, op.spec.eager)
    choice, cost = op.choice(*args), op.spec.cost(*args)
    functions: dict[str, Callable[..., Any]] = {"choice": ours, "torch": theirs}
    point: dict[str, Any] = {
        "family": name, "operation": family.operation, "sizes": dict(each.case.sizes),
        "attributes": {key: str(value) for key, value in each.case.attributes.items()}, "arrangement": "",
        "dtype": str(each.dtype).removeprefix("torch."), "chosen": choice.name or "torch", "bytes": cost.bytes,
        "wrong": [],
    }  # fmt: skip
    for rung in candidates(family, op, args):
        function = functools.partial(ours, rung=rung.name)
        try:
            found = worst(instance, function)
        except Exception as error:  # noqa: BLE001 - the run continues without it
            point["wrong"].append(f"{rung.name}: {type(error).__name__}: {error}".splitlines()[0])
            continue
        if found.right:
            functions[rung.name] = function
        else:
            point["wrong"].append(f"{rung.name}: {found.wrong} of {found.total} elements")
    del instance
    if gpu is not None:
        if made := compiled_function(theirs, args):
            functions["compiled"] = made
        samples = gpu.samples(family.operation, functions, args, 0.0)
        point["us"] = {who: 1e6 * sorted(values)[len(values) // 2] for who, values in samples.items()}
    return point


def line(point: Mapping[str, Any]) -> str:
    """A point: the choice's speed relative to the best opponent, then all times, the best candidate's in brackets."""
    times = point.get("us", {})
    text = f"{point['family']} {where(point)}"
    if times:
        rival = min(times[who] for who in ("torch", "compiled") if who in times)
        best = min((who for who in times if who not in ("torch", "compiled", "choice")), key=times.get, default="")
        named = {who: re.sub("_[^@]*", "", who, count=1) for who in times}
        shown = (f"[{named[who]} {us:.2f}]" if who == best else f"{named[who]} {us:.2f}" for who, us in times.items())
        text += f": {rival / times['choice']:.3f} by {point['chosen']}; {', '.join(shown)}"
    return "\n    wrong: ".join([text, *point["wrong"]])


def main(options: argparse.Namespace) -> int:
    if options.show:
        print(*map(line, json.loads(options.show.read_text())["points"]), sep="\n")
        return 0
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gpu = unseen_gpu_time.GpuTime(device, ROUNDS) if device.type == "cuda" else None
    families = options.family or ([] if options.shapes else list(FAMILIES))
    lists = [[(name, each) for each in FAMILIES[name].drawn(name, options.seed, options.count)] for name in families]
    in_turn = itertools.chain(*itertools.zip_longest(*lists))
    tasks = [*map(given, options.shapes), *(task for task in in_turn if task is not None)]
    unseen_compile.prepare()
    unseen_compile.in_processes(compile_point, tasks, options.compile_limit)
    if gpu is not None:
        compiled_function(torch.square, (torch.ones(8, device=device),))  # imports Inductor, which takes seconds
    kept: dict[str, Any] = {
        "place": str(place(device)), "environment": environment(device), "seed": options.seed, "points": [],
    }  # fmt: skip
    end = time.monotonic() + options.limit
    for number, (name, each) in enumerate(tasks):
        if time.monotonic() > end:
            print(f"{len(tasks) - number} of {len(tasks)} cases left out after {options.limit:.0f} s")
            break
        try:
            point = measured(name, each, device, gpu)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            continue
        kept["points"].append(point)
        print(line(point), flush=True)
        if options.json:
            atomic_write(options.json, json.dumps(kept))
    return int(any(point["wrong"] for point in kept["points"]))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--family", action="append", choices=tuple(FAMILIES))
    made.add_argument("--shapes", nargs="*", default=(), metavar="FAMILY:SIZES:DTYPE")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--count", type=int, default=6, help="number of cases drawn from each family")
    made.add_argument("--limit", type=float, default=math.inf, help="seconds of measurements")
    made.add_argument(
        "--compile-limit", type=float, default=300, help="seconds for compiling ahead, in several processes"
    )
    made.add_argument("--json", type=Path)
    made.add_argument("--show", type=Path)
    return made


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
