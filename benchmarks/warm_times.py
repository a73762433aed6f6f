"""The GPU times of the likely candidates of GEMMs in a loop of calls, operands in L2 where they fit.

python benchmarks/warm_times.py SHAPES.json --json FILE [--most N] [--budget S] [--limit S] [--compile JOBS]
python benchmarks/warm_times.py --few SEED --count N --operation NAME ... --json FILE [as above]

gemm_times.py measures every candidate with operands in DRAM; this measures those that the model ranks first, and
PyTorch, as benchmarks/unseen_shapes.py does: the same arguments at each call. A CUDA graph of many calls hides the
host. SHAPES is a list of {"operation", "sizes", "attributes", "dtype", "arrangement"}. ``--few`` draws N float32 shapes
of each operation instead, of 1 to 64 rows, two thirds of at least 16; every fourth has as few columns instead. Every
candidate is verified first; the chosen rung is among them. The file is an input of ``fit_model.py``. ``--compile``
first compiles the candidates in JOBS processes, without GPU.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import json
import multiprocessing
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import torch
from benchmarks.unseen_cases import Drawn, arguments, eighths, log_uniform
from benchmarks.unseen_gpu_time import GpuTime
from benchmarks.unseen_opponents import PYTORCH, precision
from benchmarks.unseen_shapes import loops, worst

import warpwise.ops  # noqa: F401 - registers the operations
from warpwise import operation, tuned
from warpwise.cache import atomic_write
from warpwise.device.target import Device, assume_sm_count
from warpwise.lab.timing.environment import environment, place
from warpwise.lab.timing.stats import interval
from warpwise.lab.verify.problem import Problem
from warpwise.operation import Case, Op

SYNCHRONISES = ("grouped_matmul",)  # PyTorch's loop reads the offsets, so a graph cannot hold it
EACH = 2  # candidates of each rung at least
MOST_OPERAND = 2**26  # elements
LAYOUTS = {
    "matmul": ("nn", "nt", "tn"),
    "matmul_tf32": ("nn", "nt", "tn"),
    "addmm": ("", "nt matrix", "tn matrix"),
    "linear": ("",),
}


def few(name: str, seed: int, count: int) -> Iterator[dict[str, Any]]:
    """``count`` shapes of 1 to 64 rows, every fourth of as few columns; a third are not multiples of 8."""
    rng = random.Random(f"few {name} {seed}")
    for number in range(count):
        least = log_uniform(rng, 1 if number % 3 == 0 else 16, 64)
        most = k = 2**14
        while most * k > MOST_OPERAND:
            most, k = eighths(rng, log_uniform(rng, 256, 2**14), log_uniform(rng, 256, 2**14))
        m, n = (most, least) if number % 4 == 3 else (least, most)
        attributes = {
            "linear": {"activation": rng.choice((None, "relu", "gelu", "gelu_tanh")), "with": ["bias"]},
            "addmm": {"input_shape": rng.choice(("row", "matrix"))},
        }
        yield {
            "operation": name, "sizes": {"m": m, "n": n, "k": k}, "attributes": attributes.get(name, {}),
            "dtype": "float32", "arrangement": LAYOUTS[name][number % len(LAYOUTS[name])],
        }  # fmt: skip


def case_of(shape: Mapping[str, Any]) -> Drawn:
    attributes = {
        name: tuple(value) if isinstance(value, list) else value for name, value in shape["attributes"].items()
    }
    case = Case("given", dict(shape["sizes"]), attributes)
    return Drawn(case, getattr(torch, shape["dtype"]), shape["arrangement"])


def candidates(op: Op, args: Sequence[Any], device: Device, here: bool, most: int) -> list[str]:
    """The ``most`` candidates with the least predicted GPU time, and the first ones of each rung."""
    if op.tables is None:
        rungs = [rung for rung in op.rungs if op.unsupported(rung, *args) is None]
        return [
            f"{rung.name}@{config}" if config else rung.name
            for rung in rungs
            for config in rung.configs(*args) or ("",)
        ]
    kind, sizes = op.tables.describe(*args)
    found = op.tables.model.predictions(op, args, kind, sizes, device, here)
    names = [each.name for each in sorted(found, key=lambda each: each.gpu) if each.name != tuned.TORCH]
    seen: dict[str, int] = {}
    kept = []
    for position, name in enumerate(names):
        rung = name.partition("@")[0]
        seen[rung] = seen.get(rung, 0) + 1
        if position < most or seen[rung] <= EACH:
            kept.append(name)
    return kept


def compiled(shape: Mapping[str, Any], device: str, most: int) -> str:
    """Compile the candidates of one shape; return what failed."""
    try:
        op, each = operation.get(shape["operation"]), case_of(shape)
        args = arguments(op, op.spec.arguments(each.case, each.dtype, torch.device("meta"), 0), each.arrangement)
        table = next(iter(op.tables.tables(Device(device))), None) if op.tables else None
        with assume_sm_count(132):
            for name in candidates(op, args, table.device if table else Device(device), False, most):
                rung = op.rung(name)
                for launch in op.kernels(rung, *args) if rung.language == "cuda" else ():
                    launch.compile("sm_90")
    except Exception as error:  # noqa: BLE001 - the measurement reports it
        return f"{shape}: {type(error).__name__}: {error}".splitlines()[0]
    return ""


def measured(
    shape: Mapping[str, Any], gpu: GpuTime, device: torch.device, options: argparse.Namespace
) -> dict[str, Any]:
    name, op, each = shape["operation"], operation.get(shape["operation"]), case_of(shape)
    instance = Problem(op, device).make(each.case, each.dtype, 0)
    args = arguments(op, instance.args, each.arrangement)
    instance = replace(instance, args=args)
    theirs: Callable[..., Any] = PYTORCH.get(name, op.spec.eager)
    calls: dict[str, Callable[[], Any]] = {tuned.TORCH: functools.partial(theirs, *args)}
    choice, wrong = op.choice(*args), list[str]()
    named = candidates(op, args, operation.device_of(device), True, options.most)
    for candidate in dict.fromkeys((*named, *filter(None, [choice.name]))):
        call = functools.partial(op.call, rung=candidate)
        found = worst(instance, call)
        if found.right:
            calls[candidate] = functools.partial(call, *args)
        else:
            wrong.append(f"{candidate}: {found.wrong} of {found.total}, worst {found.worst:.3g}")
    kind, sizes = op.tables.describe(*args) if op.tables else ("", each.case.sizes)
    samples = loops(calls, device, options.budget) if name in SYNCHRONISES else gpu.replayed(calls, 1, options.budget)
    return {
        "dtype": shape["dtype"], "kind": kind, "sizes": dict(sizes), "chosen": choice.name or tuned.TORCH,
        "wrong": wrong, "times": {who: interval(values).median for who, values in samples.items()},
    }  # fmt: skip


def main(options: argparse.Namespace) -> int:
    started = time.monotonic()
    if options.few is not None:
        shapes = [shape for name in options.operation for shape in few(name, options.few, options.count)]
    else:
        shapes = json.loads(options.shapes.read_text())
    source = options.shapes.stem if options.shapes else f"few {options.few}"
    if options.operation:
        shapes = [shape for shape in shapes if shape["operation"] in options.operation]
    if options.compile:
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(options.compile, mp_context=context) as pool:
            work = functools.partial(compiled, device=options.device, most=options.most)
            print(*filter(None, pool.map(work, shapes)), sep="\n")
        print(f"compiled in {time.monotonic() - started:.0f} s", flush=True)
        return 0
    device = torch.device("cuda")
    gpu = GpuTime(device)
    kept: dict[str, Any] = {"place": str(place(device)), "environment": environment(device), "points": {}}
    for number, shape in enumerate(shapes):
        if time.monotonic() - started > options.limit:
            print(f"{len(shapes) - number} shapes left out")
            break
        try:
            with precision(False, shape["operation"] == "matmul_tf32"):
                point = measured(shape, gpu, device, options)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            continue
        except Exception as error:  # noqa: BLE001 - go on with the other shapes
            print(f"{shape}: {type(error).__name__}: {error}".splitlines()[0], flush=True)
            continue
        kept["points"].setdefault(shape["operation"], {})[f"{source} {number}"] = point
        best = min(point["times"], key=point["times"].__getitem__)
        times = point["times"]
        shown = ", ".join(
            f"{who} {1e6 * times[who]:.1f}"
            for who in dict.fromkeys((tuned.TORCH, point["chosen"], best))
            if who in times
        )
        print(
            shape["operation"],
            point["dtype"],
            point["kind"],
            *point["sizes"].values(),
            f"chosen {point['chosen']}",
            shown,
            *point["wrong"],
            flush=True,
        )
        atomic_write(options.json, json.dumps(kept))
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("shapes", type=Path, nargs="?")
    made.add_argument("--few", type=int, metavar="SEED", help="draw shapes of few rows")
    made.add_argument("--count", type=int, default=28, help="number of shapes drawn for each operation")
    made.add_argument("--json", type=Path)
    made.add_argument("--operation", action="append")
    made.add_argument("--most", type=int, default=8, help="number of candidates at each shape")
    made.add_argument("--budget", type=float, default=0.12, help="seconds to time a shape")
    made.add_argument("--limit", type=float, default=90.0, help="seconds after which no further shape begins")
    made.add_argument("--compile", type=int, default=0, metavar="JOBS")
    made.add_argument("--device", default="NVIDIA H200")
    return made


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
