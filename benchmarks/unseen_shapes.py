"""Public functions beside PyTorch's at shapes drawn from a seed: checked, and timed as a user calls them.

python benchmarks/unseen_shapes.py [--operation NAME ...] [--seed N] [--count N] [--networks] [--gpu] [--compile [N]]
                                   [--limit S] [--json FILE]
python benchmarks/unseen_shapes.py --show FILE [--picture FILE.svg]

A case is drawn for each number below ``--count``: sizes log-uniform, a third of a GEMM's not multiples of 8, layouts
and dtypes in turn. ``--networks`` adds shapes of networks. At each case the result of the public function is compared
with the float64 reference element by element. Then both functions are timed in turn in random order, each as a loop of
calls that synchronises once at its end: the time of a call includes the host's. ``ratio`` is PyTorch's time over ours,
with its 95 % interval; ``--compile`` compares operations that are not GEMMs with torch.compile too. ``--gpu`` measures
the time on the GPU in addition, without the host's (unseen_gpu_time.py): ``gpu_ratio``.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import torch
import torch.nn.functional as F
from benchmarks.unseen_gpu_time import GpuTime

from warpwise import operation, ops
from warpwise.arguments.values import as_tuple
from warpwise.cache import atomic_write
from warpwise.lab.timing.environment import environment, place
from warpwise.lab.timing.stats import interval, ratio
from warpwise.lab.verify.problem import Problem
from warpwise.operation import Case

LOOP_S = 2e-3  # the least time of one sample, a loop of calls
LEAST_ROUNDS, MOST_ROUNDS = 7, 41
MOST_ELEMENTS = 2**28  # of one tensor
GOALS = {"geometric mean": 1.05, "share at 0.98 and more": 0.95, "worst": 0.95}
WHO = ("ours", "theirs", "compiled")
RATIOS = {
    "gpu_ratio": "PyTorch (GPU time)", "gpu_compiled_ratio": "torch.compile (GPU time)", "ratio": "PyTorch",
    "compiled_ratio": "torch.compile",
}  # fmt: skip
PYTORCH: dict[str, Callable[..., Any]] = {
    "matmul": torch.matmul, "batched_matmul": torch.bmm, "addmm": lambda c, a, b, beta, alpha: torch.addmm(
        c, a, b, beta=beta, alpha=alpha
    ),
    "max_pool2d": F.max_pool2d,
    "batch_norm": lambda x, weight, bias, eps: F.batch_norm(x, None, None, weight, bias, training=True, eps=eps),
    "cross_entropy": lambda x, target, ignored: F.cross_entropy(x, target, ignore_index=ignored),
    "linear_cross_entropy": lambda x, weight, target, bias, ignored: F.cross_entropy(
        F.linear(x, weight, bias), target, ignore_index=ignored
    ),
}  # fmt: skip
NETWORKS = tuple(  # (m, n, k) of linear layers: tokens, output features, input features
    (tokens, *layer)
    for tokens in (1, 8, 64, 512, 2048)
    for layer in ((768, 768), (3072, 768), (768, 3072), (4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096),
                  (1000, 2048), (50257, 768), (32000, 4096))
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A case, its dtype, and for operations with tables the arrangement of the operands ("nt")."""

    case: Case
    dtype: torch.dtype
    arrangement: str = ""


def log_uniform(rng: random.Random, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def gemm_sizes(rng: random.Random, high: int = 16384) -> dict[str, int]:
    """m, n, k; two thirds of the cases have multiples of 8 only."""
    sizes = {name: log_uniform(rng, 16, high) for name in "mnk"}
    return sizes if rng.random() < 1 / 3 else {name: (size + 7) // 8 * 8 for name, size in sizes.items()}


def plane(rng: random.Random, first: str = "rows", second: str = "columns") -> dict[str, int]:
    """Two sizes from 1 to 131072 whose product is at most MOST_ELEMENTS."""
    while True:
        sizes = {first: log_uniform(rng, 1, 131072), second: log_uniform(rng, 1, 131072)}
        if math.prod(sizes.values()) <= MOST_ELEMENTS:
            return sizes


def sums(rng: random.Random) -> tuple[dict[str, int], dict[str, Any]]:
    """The sum of all elements in a quarter of the cases, of columns in another quarter, of rows in the others."""
    dim = rng.choice((None, 0, -1, -1))
    return ({"n": log_uniform(rng, 1, MOST_ELEMENTS)}, {}) if dim is None else (plane(rng), {"dim": dim})


def image(rng: random.Random) -> dict[str, int]:
    return {"n": log_uniform(rng, 1, 32), "channels": 3, **{name: log_uniform(rng, 16, 2048) for name in SIDES}}


def features(rng: random.Random) -> dict[str, int]:
    """A batch of feature maps with up to 2^26 elements."""
    while True:
        sizes = {name: log_uniform(rng, 1, high) for name, high in (("n", 4096), ("c", 512), ("h", 256), ("w", 256))}
        if math.prod(sizes.values()) <= 2**26:
            return sizes


def windows(rng: random.Random) -> tuple[dict[str, int], dict[str, Any]]:
    """Square windows of 2, 3 or 5 that overlap or not, no larger than the maps."""
    sizes = features(rng)
    side = min(rng.choice((2, 2, 3, 5)), sizes["h"], sizes["w"])
    step = rng.choice((side, min(2, side)))
    return sizes, {"kernel_size": (side, side), "stride": (step, step), "padding": (0, 0)}


def convolution(rng: random.Random) -> tuple[dict[str, int], dict[str, Any]]:
    """Filters of 1, 3 or 5, padded so that the size of the maps stays; up to 128 channels and 2^24 elements."""
    while True:
        sizes, side = features(rng), rng.choice((1, 3, 3, 5))
        sizes |= {"k": log_uniform(rng, 1, 128), "r": side, "s": side}
        if sizes["c"] <= 128 and math.prod(sizes[name] for name in "nhw") * max(sizes["c"], sizes["k"]) <= 2**24:
            return sizes, {"padding": (side // 2, side // 2)}


SIDES = ("height", "width")
BOTH = (torch.float32, torch.bfloat16)
Draw = Callable[[random.Random], tuple[dict[str, int], dict[str, Any]]]
CASES: dict[str, tuple[tuple[torch.dtype, ...], tuple[str, ...], Draw]] = {
    "matmul": (BOTH, ("nn", "nt", "tn"), lambda rng: (gemm_sizes(rng), {})),
    "matmul_tf32": ((torch.float32,), ("nn", "nt", "tn"), lambda rng: (gemm_sizes(rng), {})),
    "scaled_matmul": (
        (torch.float8_e4m3fn,), (),
        lambda rng: (
            {name: (size + 15) // 16 * 16 for name, size in gemm_sizes(rng).items()}, {"by_row": rng.random() < 0.5}
        ),
    ),
    "batched_matmul": (BOTH, ("nn", "nt", "tn"), lambda rng: (
        {"batch": log_uniform(rng, 2, 64), **gemm_sizes(rng, 2048)}, {})),
    "grouped_matmul": (BOTH, (), lambda rng: (
        {"rows": log_uniform(rng, 16, 16384), "groups": log_uniform(rng, 2, 64),
         **{name: log_uniform(rng, 2, 512) * 8 for name in "nk"}}, {})),
    "linear": (BOTH, (), lambda rng: (
        gemm_sizes(rng), {"activation": rng.choice((None, "relu", "gelu", "gelu_tanh")), "with": ("bias",)})),
    "addmm": (BOTH, (), lambda rng: (gemm_sizes(rng), {"input_shape": rng.choice(("row", "matrix"))})),
    "matvec": (BOTH, (), lambda rng: (plane(rng, "m", "k"), {"column_major": rng.random() < 0.5})),
    "softmax": (BOTH, (), lambda rng: (plane(rng), {"dim": rng.choice((0, -1))})),
    "reduce_sum": (BOTH, (), lambda rng: sums(rng)),
    "transpose": (BOTH[:1], (), lambda rng: (plane(rng, "rows", "cols"), {})),
    "square": (BOTH, (), lambda rng: (plane(rng, "rows", "cols"), {})),
    "polynomial": (BOTH, (), lambda rng: (plane(rng, "rows", "cols"), {})),
    "matrix_add": (BOTH, (), lambda rng: (plane(rng, "rows", "cols"), {})),
    "vector_add": (BOTH, (), lambda rng: ({"n": log_uniform(rng, 1, MOST_ELEMENTS)}, {})),
    "histogram": ((torch.uint8,), (), lambda rng: ({"n": log_uniform(rng, 1, MOST_ELEMENTS), "bins": 256}, {})),
    "rgb_to_grayscale": ((torch.uint8,), (), lambda rng: (
        {name: size for name, size in image(rng).items() if name != "channels"}, {})),
    "batch_norm": (BOTH[:1], (), lambda rng: (features(rng), {})),
    "avg_pool2d": (BOTH[:1], (), windows),
    "max_pool2d": (BOTH[:1], (), windows),
    "conv2d": (BOTH[:1], (), convolution),
    "cross_entropy": (BOTH[:1], (), lambda rng: (plane(rng, "n", "classes"), {})),
    "linear_cross_entropy": (BOTH[:1], (), lambda rng: (
        {"n": log_uniform(rng, 1, 16384), "k": log_uniform(rng, 1, 1024), "classes": log_uniform(rng, 1, 1024)}, {})),
    "gather_images": ((torch.uint8,), (), lambda rng: (
        {"n": 1000, "batch": log_uniform(rng, 1, 4096), **{name: log_uniform(rng, 8, 128) for name in SIDES}}, {})),
    "gaussian_blur": (BOTH[:1], (), lambda rng: ({**image(rng), "kernel": rng.choice((3, 5, 9, 15))}, {})),
}  # fmt: skip
GEMMS = tuple(CASES)[:7]


def drawn(name: str, seed: int, count: int) -> Iterator[Drawn]:
    """``count`` cases of the operation ``name``; the first are the same for every ``count``."""
    dtypes, arrangements, draw = CASES[name]
    rng = random.Random(f"{name} {seed}")
    for number in range(count):
        sizes, attributes = draw(rng)
        arrangement = arrangements[number // len(dtypes) % len(arrangements)] if arrangements else ""
        yield Drawn(Case(f"{name}_{number}", sizes, attributes), dtypes[number % len(dtypes)], arrangement)


def network_cases(name: str) -> Iterator[Drawn]:
    """The shapes of ``NETWORKS`` for the operations that have m, n and k."""
    if name in ("matmul", "matmul_tf32", "scaled_matmul"):
        for number, shape in enumerate(NETWORKS):
            sizes = {
                letter: -(-size // 16) * 16 if name == "scaled_matmul" else size
                for letter, size in zip("mnk", shape, strict=True)
            }
            arrangement = "nt" if CASES[name][1] else ""
            yield Drawn(Case(f"network_{number}", sizes), CASES[name][0][-1], arrangement)


def arguments(op: operation.Op, instance_args: tuple[Any, ...], arrangement: str) -> tuple[Any, ...]:
    if not arrangement or op.tables is None:
        return instance_args
    return tuple(op.tables.arrangements[arrangement](*instance_args))


def measured(
    name: str, each: Drawn, device: torch.device, budget: float, compiled: bool, gpu: GpuTime | None = None
) -> dict[str, Any]:
    """Check and time one case."""
    op = operation.get(name)
    ours = getattr(ops, name)
    instance = Problem(op, device).make(each.case, each.dtype, 0)
    args = arguments(op, instance.args, each.arrangement)
    theirs = PYTORCH.get(name, op.spec.eager)
    found = instance.compare(0, as_tuple(ours(*args))[0])
    choice = op.choice(*args)
    excused = not found.right and choice.rung is None and not instance.compare(0, as_tuple(theirs(*args))[0]).right
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
    functions = {"ours": ours, "theirs": theirs}
    if compiled:
        torch.compiler.reset()
        functions["compiled"] = torch.compile(theirs, dynamic=False)
    calls = {who: functools.partial(function, *args) for who, function in functions.items()}
    keep_times(point, loops(calls, device, budget))
    if gpu is not None:
        keep_times(point, gpu.samples(name, functions, args, budget), "gpu_")
    return point


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
    names, end = options.operation or list(CASES), time.monotonic() + options.limit
    for position, name in enumerate(names):
        points = kept["points"][name] = []
        given = [*drawn(name, options.seed, options.count), *(network_cases(name) if options.networks else ())]
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
    return int(any(not point["right"] for points in kept["points"].values() for point in points))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--operation", action="append", choices=tuple(CASES))
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--count", type=int, default=40)
    made.add_argument("--networks", action="store_true", help="add shapes of networks")
    made.add_argument("--gpu", action="store_true", help="measure the time on the GPU too")
    made.add_argument(
        "--compile", type=int, nargs="?", const=sys.maxsize, default=0, metavar="N",
        help="compare with torch.compile too, at the first N cases of an operation",
    )  # fmt: skip
    made.add_argument("--budget", type=float, default=0.15, help="seconds a case and measure")
    made.add_argument("--limit", type=float, default=math.inf, help="seconds of all operations, shared equally")
    made.add_argument("--json", type=Path)
    made.add_argument("--show", type=Path)
    made.add_argument("--picture", type=Path)
    return made


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
