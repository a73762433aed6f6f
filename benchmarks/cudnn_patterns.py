"""Compare cuDNN's graph patterns with PyTorch, and blocks made of them with conv_block, at shapes of small networks.

    python benchmarks/cudnn_patterns.py [--shape N,C,H,W,K ...] [--plans N] [--limit S] [--json FILE]

A block is convolution 3 x 3, batch normalisation, relu and max pooling by 2. cuDNN's patterns (cudnn_graphs.py) compute
parts of it in float16 in NHWC order, of 8, 16, ... channels; fewer input channels are padded to 8 with zeros, and the
padding of the input is not timed. Of each pattern up to ``--plans`` of the plans that cuDNN proposes are built, checked
against float64, and timed; the fastest one is kept, and timed beside PyTorch's operations for the same results.

Blocks of the patterns, with PyTorch's operations for the rest, in ``BLOCKS``:
- forward: conv_statistics, finalize, and then normalise_pool, or normalise_relu and max_pool2d; or conv2d,
  batch_norm_relu and max_pool2d;
- training, forward and backward: conv_statistics, finalize, normalise_relu, max_pool2d with indices; its backward,
  relu_batch_norm_backward, and convolution_backward. dgrad_drelu_dbn and normalise_relu_wgrad join a convolution with
  the normalisation before it; in a block the pooling is between them.

They are timed beside conv_block (float32, float16 and bfloat16) and PyTorch's operations in float16, NHWC: each in a
CUDA graph of several calls, which are replayed in turn in random order (unseen_gpu_time.py); "eager" has the times of
calls in a loop. A result that differs from float64 by more than the tolerance is not timed. ``--json`` replaces the
points of that file, and keeps its other points if they are of the same GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import torch
from benchmarks import cudnn_blocks as blocks
from benchmarks import cudnn_cases as cases
from benchmarks.cudnn_graphs import SIGNATURES, Pattern, Patterns, Sizes, Unavailable, Unsupported
from benchmarks.unseen_gpu_time import GpuTime, rotating
from benchmarks.unseen_shapes import loops

from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place
from warpwise.lab.timing.rotation import MOST_SETS, rotated
from warpwise.lab.timing.stats import interval, ratio

MULTIPLE = 8  # of the channels that the patterns with a convolution take
BUILD_S = 0.8  # no further plan of a pattern is built after so long
NETWORK = tuple(Sizes(n, *rest) for n in (128, 512, 2048) for rest in ((1, 28, 28, 16), (16, 14, 14, 32)))
OTHERS = tuple(
    Sizes(*size)
    for size in (
        (128, 8, 16, 16, 16), (512, 8, 16, 16, 16), (128, 3, 32, 32, 32), (512, 3, 32, 32, 16), (2048, 3, 32, 32, 32),
        (128, 16, 32, 32, 32), (512, 16, 16, 16, 64), (128, 32, 16, 16, 64), (512, 32, 16, 16, 64),
        (2048, 32, 16, 16, 64), (128, 64, 16, 16, 64), (512, 64, 8, 8, 64), (512, 64, 32, 32, 64),
        (300, 24, 15, 13, 40),
    )
)  # fmt: skip
NOTE = (
    "benchmarks/cudnn_patterns.py: microseconds of a call in a CUDA graph, [median, low, high] of the 95 % interval; "
    "errors are norms relative to float64"
)


def padded(size: Sizes) -> Sizes:
    """``size`` with the channels that the patterns need."""
    return size._replace(c=-(-size.c // MULTIPLE) * MULTIPLE)


def microseconds(samples: Mapping[Any, Sequence[float]]) -> dict[str, list[float]]:
    spreads = {who: interval(values) for who, values in samples.items()}
    return {who: [round(us * 1e6, 2) for us in (one.median, one.low, one.high)] for who, one in spreads.items()}


def tuned(pattern: Pattern, case: cases.PatternCase, gpu: GpuTime, most: int) -> tuple[int | None, dict[str, Any]]:
    """The fastest of the plans whose results are right, and a record of the plans; None if there is none."""
    refused: list[str] = []
    errors: dict[int, dict[str, float]] = {}
    built, start = 0, time.perf_counter()
    for plan in range(min(pattern.count, most)):
        if built and time.perf_counter() - start > BUILD_S:
            break
        try:
            pattern.build(plan)
            for result in pattern.results:
                result.fill_(math.nan)
            found = pattern.run(plan, *case.inputs)
            torch.cuda.synchronize()
        except (Unsupported, RuntimeError) as error:
            refused.append(str(error))
            continue
        built += 1
        errors[plan] = case.errors(found)
    right = [plan for plan, found in errors.items() if all(error <= cases.TOLERANCE for error in found.values())]
    record: dict[str, Any] = {"proposed": pattern.count, "built": built, "right": len(right)}
    if built and not right:
        shares = [float(one.isnan().float().mean()) for one in pattern.results]
        record["not_a_number"] = [round(share, 4) for share in shares]  # of the last plan's results
    if refused:
        record["refused"] = refused[0]
    if not right:
        return None, record | {"errors": next(iter(errors.values()), None)}
    calls = {plan: (lambda plan=plan: pattern.run(plan, *case.inputs)) for plan in right}
    samples = gpu.replayed(calls, 1, 0.0)  # type: ignore[arg-type]
    best = min(right, key=lambda plan: interval(samples[plan]).median)  # type: ignore[index]
    return best, record | {"plan": pattern.plan_name(best), "errors": errors[best]}


def measured_patterns(
    patterns: Patterns, data: cases.Data, gpu: GpuTime, most: int, budget: float, wrong: dict[str, str]
) -> tuple[dict[str, Any], dict[str, blocks.Run]]:
    """A record of each pattern, and the functions of those that are supported and right.

    Patterns in ``wrong``, and those added to it because all plans that were built are wrong, are left out.
    """
    rows: dict[str, Any] = {}
    runs: dict[str, blocks.Run] = {}
    for name in SIGNATURES:
        if data.is_padded and name in cases.ACROSS_LAYERS:
            rows[name] = {"unsupported": "an input of images: no layer before it"}
            continue
        if name in wrong:
            rows[name] = {"left_out": f"wrong at {wrong[name]}"}
            continue
        case = cases.pattern_case(name, data)
        try:
            pattern = patterns.make(name, data.padded)
            best, rows[name] = tuned(pattern, case, gpu, most)
        except (Unsupported, Unavailable) as error:
            rows[name] = {"unsupported": str(error)}
            continue
        if best is None:
            if "not_a_number" in rows[name]:
                wrong[name] = "x".join(map(str, data.size))
            continue
        runs[name] = run = lambda *inputs, pattern=pattern, best=best: pattern.run(best, *inputs)
        try:
            calls = {"cudnn": rotating(run, rotated(case.inputs, gpu.gpu.l2_bytes))}
            if case.torch is not None:
                calls["torch"] = rotating(case.torch, rotated(case.torch_inputs, gpu.gpu.l2_bytes))
            samples = gpu.replayed(calls, MOST_SETS, budget)
        except RuntimeError as error:
            rows[name]["not_timed"] = str(error)[:500]
            continue
        rows[name]["us"] = microseconds(samples)
        if "torch" in samples:
            speed = ratio(samples["torch"], samples["cudnn"])
            rows[name]["ratio"] = [round(value, 3) for value in (speed.median, speed.low, speed.high)]
    return rows, runs


def not_captured(gpu: GpuTime, call: Callable[[], Any]) -> str:
    """Why a CUDA graph cannot contain ``call``, or an empty string."""
    try:
        gpu.gpu.graph(call, 1)
    except RuntimeError as error:
        return f"not captured: {error}"[:500]
    return ""


def measured_blocks(
    data: cases.Data, runs: Mapping[str, blocks.Run], gpu: GpuTime, budget: float
) -> dict[str, dict[str, Any]]:
    """Errors and times of whole blocks by what is measured, ``blocks.BLOCKS``."""
    rows: dict[str, dict[str, Any]] = {}
    for what, make in blocks.BLOCKS.items():
        row: dict[str, Any] = {"errors": {}, "failed": {}}
        sets: dict[str, Callable[[], Any]] = {}
        plain: dict[str, Callable[[], Any]] = {}
        exact = blocks.exact(what, data)
        for who, (function, args) in make(data, runs).items():
            try:
                found = function(*args)
                torch.cuda.synchronize()
            except (RuntimeError, ValueError) as error:
                row["failed"][who] = str(error)[:500]
                continue
            row["errors"][who] = blocks.errors(found, exact)
            sets[who] = rotating(function, rotated(args, gpu.gpu.l2_bytes))
            plain[who] = lambda function=function, args=args: function(*args)
        for who in list(sets):
            why = "wrong" if not blocks.is_right(what, who, row["errors"]) else not_captured(gpu, sets[who])
            if why:
                row["failed"][who] = why
                del sets[who], plain[who]
        samples = gpu.replayed(sets, MOST_SETS, budget)
        row["us"] = microseconds(samples)
        row["eager_us"] = microseconds(loops(plain, gpu.gpu.device, 0.0))
        row["ratios"] = {
            who: [round(value, 3) for value in (one.median, one.low, one.high)]
            for who in samples
            if who != blocks.OURS and blocks.OURS in samples
            for one in (ratio(samples[who], samples[blocks.OURS]),)
        }
        rows[what] = {key: value for key, value in row.items() if value}
    return rows


def show(size: Sizes, point: Mapping[str, Any]) -> None:
    print(f"{'x'.join(map(str, size))}", flush=True)
    for name, row in point["patterns"].items():
        times = ", ".join(f"{who} {us[0]:.1f}" for who, us in row.get("us", {}).items())
        plans = "plans {proposed} proposed, {built} built, {right} right".format(**row) if "proposed" in row else ""
        why = next(
            (f"{key}: {row[key]}"[:300] for key in ("unsupported", "left_out", "refused", "not_timed") if key in row),
            "",
        )
        worst = max((row.get("errors") or {"": math.nan}).values())
        print(f"  {name:<31} {plans} worst error {worst:.1e} µs: {times} {why}", flush=True)
    for what, row in point["blocks"].items():
        times = ", ".join(f"{who} {us[0]:.1f}" for who, us in row["us"].items())
        eager = ", ".join(f"{who} {us[0]:.0f}" for who, us in row.get("eager_us", {}).items())
        print(f"  {what:<9} µs: {times}; eager: {eager}", flush=True)
        print(f"    errors {row['errors']} failed {row.get('failed', {})}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shape", action="append", help="N,C,H,W,K; default: the shapes of the small network, and others"
    )
    parser.add_argument("--plans", type=int, default=12, help="number of plans built of each pattern, at most")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds of a comparison, at least 7 rounds")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which no further shape is begun")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        parser.error("expected a GPU")
    device, start = torch.device("cuda", torch.cuda.current_device()), time.perf_counter()
    try:
        patterns = Patterns(device)
    except Unavailable as error:
        parser.error(str(error))
    torch.backends.cudnn.benchmark = True
    gpu = GpuTime(device)
    shapes = [Sizes(*map(int, one.split(","))) for one in options.shape or ()] or [*NETWORK, *OTHERS]
    result: dict[str, Any] = {
        "environment": environment(device) | patterns.versions, "place": place(device), "note": NOTE,
        "tolerance": cases.TOLERANCE, "patterns": {name: one.computes for name, one in SIGNATURES.items()},
        "points": kept(options.json, place(device)),
    }  # fmt: skip
    wrong: dict[str, str] = {}
    print(f"{place(device)}, {patterns.versions}", flush=True)
    for size in shapes:
        if time.perf_counter() - start > options.limit:
            print(f"the limit of {options.limit:.0f} s is reached", flush=True)
            break
        point: dict[str, Any] = {"shape": size, "channels_of_patterns": padded(size).c}
        if padded(size) != size:
            point["unpadded"] = unpadded(patterns, size)
        data = cases.Data(size, padded(size), device)
        point["patterns"], runs = measured_patterns(patterns, data, gpu, options.plans, options.budget, wrong)
        with torch.no_grad():
            point["blocks"] = measured_blocks(data, runs, gpu, options.budget)
        show(size, point)
        result = updated(result, point)
        if options.json:
            atomic_write(options.json, json.dumps(result, indent=1) + "\n")
        print(f"  {time.perf_counter() - start:.0f} s", flush=True)
    return 0


def kept(file: Path | None, where: str) -> list[dict[str, Any]]:
    """The points of a record of the same GPU."""
    if file is None or not file.exists():
        return []
    record = json.loads(file.read_text())
    return list(record["points"]) if record["place"] == where else []


def updated(record: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    """``record`` with the point in place of that of the same shape; the shapes of the network first."""
    points = {tuple(one["shape"]): one for one in (*record["points"], point)}
    order = [tuple(size) for size in (*NETWORK, *OTHERS)]
    ranked = sorted(points, key=lambda shape: (order.index(shape) if shape in order else len(order), shape))
    return record | {"points": [points[shape] for shape in ranked]}


def unpadded(patterns: Patterns, size: Sizes) -> str:
    """What cuDNN says of conv_statistics at the channels of ``size``."""
    try:
        return f"{patterns.make('conv_statistics', size).count} plans"
    except Unsupported as error:
        return str(error)


if __name__ == "__main__":
    sys.exit(main())
