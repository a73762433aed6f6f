"""Compare public functions with PyTorch's at shapes drawn from a seed: checked, and timed as a user calls them.

python benchmarks/unseen_shapes.py [--operation NAME ...] [--dtype NAME] [--seed N] [--count N] [--networks] [--gpu]
                                   [--by-gpu-time] [--compile [N]] [--compile-limit S] [--limit S] [--json FILE]
python benchmarks/unseen_shapes.py --show FILE [--picture FILE.svg]

A case is drawn for each number below ``--count`` (unseen_cases.py): sizes log-uniform, a third of a GEMM's not
multiples of 8, layouts and dtypes in turn. ``--networks`` adds shapes of networks. At each case the results of the
public function are compared with the float64 references element by element. Then both functions are timed in turn in
random order, each as a loop of calls that synchronises once at its end: the time of a call includes the host's.
``ratio`` is PyTorch's time over ours, with its 95 % interval; ``--compile`` compares operations that are not GEMMs with
torch.compile too, whose code several processes compile first (unseen_compile.py). ``--gpu`` measures the time on the
GPU in addition, without the host's (unseen_gpu_time.py): ``gpu_ratio``.

Goals: geometric mean at least 1.05, 95 % of the cases at least 0.98, none below 0.95; for operations that are not GEMMs
none below 0.95 in GPU time. Where PyTorch computes, an error above the tolerance is noted as PyTorch's own deviation.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import torch
from benchmarks import unseen_compile
from benchmarks.unseen_cases import CASES, GEMMS, Drawn, arguments, drawn, network_cases
from benchmarks.unseen_gpu_time import GpuTime
from benchmarks.unseen_opponents import PYTORCH, SAVED, checked, precision, timed

from warpwise import operation, ops
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place
from warpwise.lab.timing.stats import interval, ratio
from warpwise.lab.verify.problem import Instance, Problem
from warpwise.lab.verify.tolerance import OutputComparison

LOOP_S = 2e-3  # the least time of one sample, a loop of calls
LEAST_ROUNDS, MOST_ROUNDS = 7, 41
GOALS = {"geometric mean": 1.05, "share at 0.98 and more": 0.95, "worst": 0.95}
WHO = ("ours", "theirs", "compiled")
RATIOS = {
    "gpu_ratio": "PyTorch (GPU time)", "gpu_compiled_ratio": "torch.compile (GPU time)", "ratio": "PyTorch",
    "compiled_ratio": "torch.compile",
}  # fmt: skip


def measured(
    name: str, each: Drawn, device: torch.device, budget: float, compiled: bool, gpu: GpuTime | None = None
) -> dict[str, Any]:
    """Check and time one case."""
    with precision(each.case.attributes.get("tf32", False), name == "matmul_tf32"):
        return _measured(name, each, device, budget, compiled, gpu)


def _measured(
    name: str, each: Drawn, device: torch.device, budget: float, compiled: bool, gpu: GpuTime | None
) -> dict[str, Any]:
    op = operation.get(name)
    ours = getattr(ops, name)
    instance = Problem(op, device).make(each.case, each.dtype, 0)
    args = arguments(op, instance.args, each.arrangement)
    instance = replace(instance, args=args)
    extras = SAVED[name](*args) if name in SAVED else ()
    theirs = PYTORCH.get(name, op.spec.eager)
    found = worst(instance, op.call if name == "linear" else checked(name, ours))  # linear omits a result
    choice = op.choice(*args)
    rival = op.spec.eager if len(op.spec.returned) > 1 or name in SAVED else theirs
    excused = not found.right and choice.rung is None and not worst(instance, rival).right
    cost = op.spec.cost(*args)
    point: dict[str, Any] = {
        "sizes": dict(each.case.sizes), "attributes": {key: str(value) for key, value in each.case.attributes.items()},
        "dtype": str(each.dtype).removeprefix("torch."), "arrangement": each.arrangement, "flops": cost.flops,
        "bytes": cost.bytes, "chosen": choice.name or "torch", "source": choice.source,
        "right": found.right or excused,
    }  # fmt: skip
    del instance
    if not found.right:
        what = "PyTorch's own deviation" if excused else "wrong"
        point["note"] = f"{what}: {found.wrong} of {found.total} elements, worst {found.worst:.3g} tolerances"
        if not excused:
            return point
    ours = timed(name, ours, bool(each.case.attributes.get("tf32")))
    functions = {"ours": (lambda *given: ours(*given[: len(args)])) if extras else ours, "theirs": theirs}
    if compiled and (made := compiled_function(theirs, (*args, *extras))):
        functions["compiled"] = made
    calls = {"ours": functools.partial(ours, *args)} | {
        who: functools.partial(function, *args, *extras) for who, function in functions.items() if who != "ours"
    }
    keep_times(point, loops(calls, device, budget))
    if gpu is not None:
        keep_times(point, gpu.samples(name, functions, (*args, *extras), budget), "gpu_")
    return point


def compiled_function(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any] | None:
    """``function`` by torch.compile, or None if it does not compile."""
    torch.compiler.reset()
    made = torch.compile(function, dynamic=False)
    try:
        made(*args)
    except Exception as error:  # noqa: BLE001 - a benchmark goes on without it
        print(f"torch.compile: {type(error).__name__}: {error}".splitlines()[0], flush=True)
        return None
    return made


def worst(instance: Instance, function: Callable[..., Any]) -> OutputComparison:
    """The results of ``function`` compared with the references: the first one with wrong elements, else the first."""
    made = instance.eager(function)
    found = [instance.compare(position, one) for position, one in enumerate(made)]
    return next((one for one in found if not one.right), found[0])


def keep_times(point: dict[str, Any], samples: Mapping[str, list[float]], prefix: str = "") -> None:
    """Put the median of each function and the ratios to ours into ``point``."""
    for who, values in samples.items():
        spread = interval(values)
        point[prefix + who] = {"median_s": spread.median, "low_s": spread.low, "high_s": spread.high}
    for who, key in (("theirs", "ratio"), ("compiled", "compiled_ratio")):
        if who in samples:
            faster = ratio(samples[who], samples["ours"])
            point[prefix + key] = [faster.median, faster.low, faster.high]


def loops(calls: Mapping[str, Callable[[], Any]], device: torch.device, budget: float) -> dict[str, list[float]]:
    """Seconds of a call, one sample a round and call; rounds end when the budget does."""
    counts, samples = {}, {who: list[float]() for who in calls}
    for who, call in calls.items():
        call()
        spent = sample(call, 1, device)
        counts[who] = max(1, min(1000, math.ceil(LOOP_S / max(spent, 1e-6))))
        sample(call, counts[who], device)
    rng, start = random.Random(0), time.perf_counter()
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and time.perf_counter() - start > budget:
            break
        for who in rng.sample(list(calls), len(calls)):
            samples[who].append(sample(calls[who], counts[who], device))
    return samples


def sample(call: Callable[[], Any], count: int, device: torch.device) -> float:
    """The mean time of ``count`` calls and one synchronisation."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(count):
        call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - start) / count


def summary(points: list[dict[str, Any]], key: str = "ratio") -> dict[str, float]:
    """The figures that have goals, over the points that were timed."""
    ratios = [point[key][0] for point in points if key in point]
    return {
        "geometric mean": math.exp(sum(map(math.log, ratios)) / len(ratios)),
        "share at 0.98 and more": sum(value >= 0.98 for value in ratios) / len(ratios),
        "worst": min(ratios),
    }


def lines(name: str, points: list[dict[str, Any]]) -> Iterator[str]:
    """The summary, and the slowest points."""
    wrong = [point for point in points if not point["right"]]
    for key, rival in RATIOS.items():
        timed = [point for point in points if key in point]
        if timed:
            figures = ", ".join(f"{what} {value:.3f}" for what, value in summary(timed, key).items())
            low = sum(point[key][0] < GOALS["worst"] for point in timed)
            ours = sum(point["chosen"] != "torch" for point in timed)
            yield (
                f"{name}, {len(timed)} shapes beside {rival}: {figures}, {low} below {GOALS['worst']}; "
                f"a rung chosen at {ours}, {len(wrong)} wrong"
            )
    for point in wrong:
        yield f"    {point['note']}: {where(point)} {point['chosen']}"
    key = next((key for key in RATIOS if any(key in point for point in points)), "ratio")
    for point in sorted((point for point in points if key in point), key=lambda point: point[key][0])[:5]:
        yield f"    {described(point)}"
    key = key.replace("ratio", "compiled_ratio")
    for point in sorted((point for point in points if key in point), key=lambda point: point[key][0])[:3]:
        yield f"    {described(point)}"


def where(point: Mapping[str, Any]) -> str:
    attributes = " ".join(f"{key}={value}" for key, value in point["attributes"].items())
    return f"{'×'.join(map(str, point['sizes'].values()))} {attributes} {point['dtype']} {point['arrangement']}".strip()


def described(point: Mapping[str, Any]) -> str:
    """The ratios of a point, its shape, and the times on the GPU if measured, else those of the loop."""
    ratios = ", ".join(f"{point[key][0]:.3f} × {rival}" for key, rival in RATIOS.items() if key in point)
    prefix = "gpu_" if "gpu_ours" in point else ""
    times = ", ".join(f"{who} {1e6 * point[prefix + who]['median_s']:.1f} µs" for who in WHO if prefix + who in point)
    return f"{where(point)}: {ratios}; {point['chosen']}; {times}"


LOWEST, HIGHEST = 0.25, 6.0  # ratios of the picture; those beyond are drawn at its edge


def picture(kept: Mapping[str, Any]) -> str:
    """The ratio of each point against its FLOPs, or bytes for operations without, as an SVG."""
    import vl_convert

    values = [
        {"work": point["flops"] or point["bytes"], "name": name,
         "ratio": min(max(point["gpu_ratio" if "gpu_ratio" in point else "ratio"][0], LOWEST), HIGHEST),
         "chosen": "PyTorch" if point["chosen"] == "torch" else "a rung"}
        for name, points in kept["points"].items() for point in points if "ratio" in point
    ]  # fmt: skip
    scale = {"domain": ["a rung", "PyTorch"], "range": ["#1a7f37", "#8c959f"]}
    return vl_convert.vegalite_to_svg({
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json", "background": "white",
        "data": {"values": values}, "width": 900, "height": 360,
        "layer": [
            {"mark": {"type": "rule", "color": "#59636e"}, "encoding": {"y": {"datum": 1.0}}},
            {"mark": {"type": "point", "filled": True, "size": 36},
             "encoding": {
                 "x": {"field": "work", "type": "quantitative", "scale": {"type": "log"}, "title": "FLOPs or bytes",
                       "axis": {"format": "s", "grid": False}},
                 "y": {"field": "ratio", "type": "quantitative", "title": "speed relative to PyTorch",
                       "scale": {"type": "log", "domain": [LOWEST, HIGHEST], "nice": False},
                       "axis": {"values": [0.25, 0.5, 0.7, 1, 1.4, 2, 4]}},
                 "color": {"field": "chosen", "type": "nominal", "scale": scale},
             }},
        ],
    })  # fmt: skip


def main(options: argparse.Namespace) -> int:
    with operation.by_gpu_time() if options.by_gpu_time else nullcontext():
        return run(options)


def run(options: argparse.Namespace) -> int:
    if options.show:
        kept = json.loads(options.show.read_text())
        for name, points in kept["points"].items():
            print("\n".join(lines(name, points)))
        if options.picture:
            atomic_write(options.picture, picture(kept))
        return 0
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kept: dict[str, Any] = {
        "place": str(place(device)),
        "environment": environment(device),
        "seed": options.seed,
        "points": {},
    }
    gpu = GpuTime(device) if options.gpu and device.type == "cuda" else None
    names = options.operation or list(CASES)
    if options.compile:
        unseen_compile.prepare()
        if device.type == "cuda":
            count = min(options.compile, options.count)
            unseen_compile.compile_all(names, options.seed, count, options.compile_limit)
            compiled_function(torch.square, (torch.ones(8, device=device),))  # imports Inductor, which takes seconds
    end = time.monotonic() + options.limit
    for position, name in enumerate(names):
        points = kept["points"][name] = []
        given = [*drawn(name, options.seed, options.count), *(network_cases(name) if options.networks else ())]
        if options.dtype:
            given = [replace(each, dtype=options.dtype) for each in given]
        share = (end - time.monotonic()) / (len(names) - position)
        until = time.monotonic() + share
        for number, each in enumerate(given):
            if time.monotonic() > until:
                print(f"{name}: {len(given) - number} cases left out after {share:.0f} s", flush=True)
                break
            compiled = number < options.compile and name not in GEMMS
            try:
                points.append(measured(name, each, device, options.budget, compiled, gpu))
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
            if options.json:
                atomic_write(options.json, json.dumps(kept))
        print("\n".join(lines(name, points)), flush=True)
    everything = [point for points in kept["points"].values() for point in points]
    if len(names) > 1:
        print("\n".join(lines("all operations", everything)), flush=True)
    return int(any(not point["right"] for points in kept["points"].values() for point in points))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--operation", action="append", choices=tuple(CASES))
    made.add_argument("--dtype", type=lambda name: getattr(torch, name), help="in place of those of the operation")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--count", type=int, default=40)
    made.add_argument("--networks", action="store_true", help="add shapes of networks")
    made.add_argument("--gpu", action="store_true", help="measure the time on the GPU too")
    made.add_argument("--by-gpu-time", action="store_true", help="choose by the time on the GPU, as for a CUDA graph")
    made.add_argument(
        "--compile", type=int, nargs="?", const=sys.maxsize, default=0, metavar="N",
        help="compare with torch.compile too, at the first N cases of an operation",
    )  # fmt: skip
    made.add_argument(
        "--compile-limit", type=float, default=300, help="seconds for compiling ahead, in several processes"
    )
    made.add_argument("--budget", type=float, default=0.15, help="seconds for each case and kind of measurement")
    made.add_argument("--limit", type=float, default=math.inf, help="seconds for all operations, in equal shares")
    made.add_argument("--json", type=Path)
    made.add_argument("--show", type=Path)
    made.add_argument("--picture", type=Path)
    return made


if __name__ == "__main__":
    options = parser().parse_args()
    if not torch.cuda.is_available() and not options.show:
        sys.exit("no CUDA device: emulated kernels are not timed; --show FILE prints stored times")
    sys.exit(main(options))
