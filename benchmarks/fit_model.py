"""Fit the model of a product's GPU time (warpwise.gemm.time_model) to measured times.

python benchmarks/fit_model.py OPERATION [TIMES.json ...] [--device nvidia_h200] [--dispatch FILE] [--out FILE]

TIMES are files of benchmarks/gemm_times.py or of benchmarks/unseen_shapes.py; by default those of
benchmarks/results/h200/gemm_times. The winners and rivals of the shipped table are used too. Coefficients are fitted by
least squares of the logarithms of times, robustly, for each dtype and rung, and for PyTorch. Times of operands in DRAM,
L2 flushed before each call, are longer by one more coefficient of the fit, which is not shipped: the model predicts a
loop of calls. The error of the coefficients is that of a fit to two thirds of the shapes, on the last third. A rung
with fewer than LEAST shapes is left out. ``--dispatch`` names results of benchmarks/dispatch.py, which give the times
on the host.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "h200"
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import numpy as np
import torch
from benchmarks.unseen_cases import arguments
from scipy.optimize import least_squares

import warpwise.ops  # noqa: F401 - registers the operations
from warpwise import operation, tuned
from warpwise.cache import atomic_write
from warpwise.gemm.model import Host, Model, suffix
from warpwise.gemm.time_model import ERROR_CLASSES, FITTED, Coefficients, Product, alignment

LEAST, LEAST_OF_CLASS, FOLDS = 12, 8, 3
RATES = {"float32": 128, "bfloat16": 2048, "float16": 2048, "int8": 4096, "float8_e4m3fn": 4096, "float8_e5m2": 4096}
MHZ = 1700.0
SURE = 0.85  # the share of predictions that err by at most the error that is kept
LEAST_BORROWED = 0.2  # error of coefficients that were fitted to another operation
RUNG = re.compile(r"k\d+_")  # a rung's name
WARM, COLD_START = "_warm_", 3.0  # in a file's name; µs that a call takes longer if L2 was flushed, before the fit
UNALIGNED, SIDES = "unaligned", ("ours", "theirs")
LAYOUTS, CLEARLY = ("nn", "nt", "tn", "tt"), 0.85  # of a and b; of the error
HOST_SHARE = 0.1  # of the calls, those that the host bounds at least
BEYOND_HOST, BEYOND_EVEN = 3.0, 1.6  # calls count from so many times their time; of files that --even names
FASTEST = 0.75  # see gemm.model.Host
PRIOR = 0.25  # weight of a coefficient's logarithm, relative to its default


class Seen(NamedTuple):
    """One measured time."""

    key: tuple[Any, ...]
    dtype: str
    kind: str
    sizes: tuple[tuple[str, int], ...]
    name: str
    microseconds: float
    cold: bool = False  # L2 was flushed


@dataclass(frozen=True)
class Fit(Coefficients):
    """Coefficients, and the µs that a call takes longer if L2 was flushed."""

    cold: float = 0.0


def observations(op: operation.Op, files: Sequence[Path], device: str, even: str | None = None) -> list[Seen]:
    """The times of all files, and those of the shipped table; those of WARM files and of calls are of a loop."""
    found = list[Seen]()
    for file in files:
        points = json.loads(file.read_text())["points"].get(op.name, {})
        if isinstance(points, list):
            found += calls(op, points, BEYOND_EVEN if even and re.search(even, file.name) else BEYOND_HOST)
            continue
        for point in points.values():
            if point is not None:
                sizes = tuple(point["sizes"].items())
                key = (point["dtype"], point["kind"], *sizes)
                found += [
                    Seen(key, point["dtype"], point["kind"], sizes, name, 1e6 * seconds, WARM not in file.name)
                    for name, seconds in point["times"].items()
                ]
    table = tuned.load(op.tables.folder / f"{device}.json") if op.tables is not None and op.tables.folder else None
    for point in table.points if table is not None else ():
        sizes = tuple(point.sizes.items())
        key = (point.dtype, point.kind, *sizes)
        for name, seconds in ((point.winner, point.seconds), (point.rival, point.rival_seconds)):
            if seconds is not None:
                found.append(Seen(key, point.dtype, point.kind, sizes, name, 1e6 * seconds, True))
    return found


def calls(op: operation.Op, points: Iterable[Mapping[str, Any]], beyond: float = BEYOND_HOST) -> list[Seen]:
    """Times of benchmarks/unseen_shapes.py that are the GPU's: those of calls that take longer than the host.

    The host's time is that of the shortest calls of the same measurement, since hosts differ; calls of several
    operators take it several times. ``beyond``: times the host's time.
    """
    found: list[Seen] = []
    assert op.tables is not None
    points = list(points)
    short = {side: np.quantile([1e6 * point[side]["median_s"] for point in points], HOST_SHARE) for side in SIDES}
    for point in points:
        attributes = {key: tuple(value) if isinstance(value, list) else value
                      for key, value in point.get("attributes", {}).items()}  # fmt: skip
        dtype, case = getattr(torch, point["dtype"]), operation.Case("seen", dict(point["sizes"]), attributes)
        args = op.spec.arguments(case, dtype, torch.device("meta"), 0)
        kind, sizes = op.tables.describe(*arguments(op, args, point["arrangement"]))
        key = (point["dtype"], kind, *sizes.items())
        for name, side in zip((point["chosen"], tuned.TORCH), SIDES, strict=True):
            microseconds = 1e6 * point[side]["median_s"]
            if microseconds > beyond * short[side] and (side, name) != ("ours", tuned.TORCH):
                found.append(Seen(key, point["dtype"], kind, tuple(sizes.items()), name, microseconds))
    return found


def predicted(model: Model, seen: Seen, by: Coefficients, sms: int) -> float:
    """The model's GPU time in µs, of a ``Fit`` with the start of a call after a flush of L2."""
    more = by.cold if seen.cold and isinstance(by, Fit) else 0.0
    dtype: torch.dtype = getattr(torch, seen.dtype)
    product = Product.of(seen.kind, dict(seen.sizes), dtype, sms)
    if seen.name == tuned.TORCH:
        return more + model.pytorch_microseconds(product, seen.kind, by, seen.dtype == "float32")
    rung, _, config = seen.name.partition("@")
    return more + model.families[rung].microseconds(product, config, seen.kind, by)


def fitted(model: Model, seen: Sequence[Seen], sms: int) -> Fit:
    """The coefficients with the least error. ``line`` is at least 1: a load does not gain by a second cache line."""
    first = Fit(rate=RATES[seen[0].dtype] * MHZ, cold=COLD_START if any(each.cold for each in seen) else 0.0)
    names = (*FITTED, "cold")
    start, measured = np.array([getattr(first, name) for name in names]), np.log([each.microseconds for each in seen])

    def coefficients(logs: Any) -> Fit:
        found = replace(first, **dict(zip(names, map(float, start * np.exp(logs)), strict=True)))
        return replace(found, line=max(1.0, found.line))

    def residuals(logs: Any) -> Any:
        by = coefficients(logs)
        return np.concatenate([np.log([predicted(model, each, by, sms) for each in seen]) - measured, PRIOR * logs])

    found = least_squares(residuals, np.zeros(len(names)), loss="soft_l1", f_scale=0.15, max_nfev=40)
    return coefficients(found.x)


def cross_validated(model: Model, seen: Sequence[Seen], sms: int) -> list[tuple[Seen, float]]:
    """The predicted time of each case by a fit without its shape."""
    keys = sorted({each.key for each in seen}, key=str)
    random.Random(0).shuffle(keys)
    found: list[tuple[Seen, float]] = []
    for fold in range(FOLDS):
        left = set(keys[fold::FOLDS])
        by = fitted(model, [each for each in seen if each.key not in left], sms)
        found += [(each, predicted(model, each, by, sms)) for each in seen if each.key in left]
    return found


def error(case: tuple[Seen, float]) -> float:
    return abs(math.log(case[1] / case[0].microseconds))


def with_errors(by: Coefficients, found: Sequence[tuple[Seen, float]]) -> Coefficients:
    """``by`` with the errors of SURE of all cases, and of those in each class of predicted times.

    A class with fewer than LEAST_OF_CLASS cases has at least the error of all.
    """
    whole, classes = float(np.quantile([error(case) for case in found], SURE)), []
    for low, high in itertools.pairwise((0.0, *ERROR_CLASSES, math.inf)):
        mine = [error(case) for case in found if low < case[1] <= high]
        own = float(np.quantile(mine, min(1.0, SURE * (1 + 1 / len(mine))))) if mine else 0.0
        classes.append(own if len(mine) >= LEAST_OF_CLASS else max(whole, own))
    return replace(by, error=whole, errors=tuple(float(f"{each:.3g}") for each in classes))


def groups(model: Model, found: Sequence[Seen]) -> dict[tuple[str, str], list[Seen]]:
    """The observations of each dtype and name, those of each kind of arguments with enough shapes apart.

    Kinds are alignments, of aligned operands PyTorch's epilogues and a rung's layouts, whose times stay in those of
    all. Kinds for which a rung runs operators of torch are left out.
    """
    grouped: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for seen in found:
        name, _, config = seen.name.partition("@")
        known = name in model.families and described(model, seen) and model.families[name].replayed(config, seen.kind)
        for kind in kinds(model, seen) if name == tuned.TORCH or known else ():
            grouped[seen.dtype, f"{name} {kind}".strip()].append(seen)
    if_apart = {key for key, seen in grouped.items() if " " in key[1] and enough(seen)}
    for dtype, name in if_apart:
        plain, _, kind = name.partition(" ")
        for other in (plain, f"{plain} {UNALIGNED}") if kind not in LAYOUTS else ():
            if other != name and (dtype, other) in grouped:
                grouped[dtype, other] = [each for each in grouped[dtype, other] if kind not in kinds(model, each)]
    return {
        (dtype, name): seen
        for (dtype, name), seen in sorted(grouped.items())
        if enough(seen) and len(seen) < len(grouped[dtype, name[:-3]] if name[-2:] in LAYOUTS else [*seen, None])
    }


def kinds(model: Model, seen: Seen) -> list[str]:
    """The kinds of an observation; it has the coefficients of the last one with enough shapes."""
    aligned_c = model.aligned_c and seen.name == tuned.TORCH
    if found := alignment(seen.kind, dict(seen.sizes), getattr(torch, seen.dtype), aligned_c):
        return list(dict.fromkeys(("", UNALIGNED, found)))
    return list(dict.fromkeys(("", suffix(seen.kind) if seen.name == tuned.TORCH else seen.kind[:2])))


def described(model: Model, seen: Seen) -> bool:
    """Whether the name says which configuration was measured."""
    try:
        predicted(model, seen, Coefficients(), 132)
    except ValueError:
        return False
    return True


def enough(seen: Sequence[Seen]) -> bool:
    return len({each.key for each in seen}) >= LEAST


def host(file: Path, op: str, warm: bool) -> Host:
    """The medians of benchmarks/dispatch.py: PyTorch's call, the way to PyTorch (float64), and a replayed rung.

    Times of operands in DRAM, other than ``warm`` ones, include launches that a loop hides, and need no faster host. Of
    operations with ``warm`` times C++ calls PyTorch, which takes no longer than PyTorch's own call.
    """
    points = [point for point in json.loads(file.read_text())["points"] if not point["gradient"]]
    own = [point for point in points if point["operation"] == op] or points
    theirs = [point["calls"]["PyTorch"]["us"] for point in own]
    way = [call["above_us"] for point in own for name, call in point["calls"].items()
           if name == op and point["dtype"] == "torch.float64"]  # fmt: skip
    way = way or [call["above_us"] for point in points for name, call in point["calls"].items()
                  if name == point["operation"] and point["dtype"] == "torch.float64"]  # fmt: skip
    rungs = [call["us"] for point in points for name, call in point["calls"].items() if RUNG.match(name)]
    return Host(
        *(round(statistics.median(values), 2) for values in (theirs, way, rungs)),
        fastest=FASTEST if warm else 1.0,
    )


def borrowed(model: Model, known: dict[str, dict[str, Any]], device: str) -> None:
    """Coefficients of matmul for what was not measured: PyTorch's product, and rungs with the same main loop."""
    file = operation.get("matmul").tables.model.folder / f"{device}.json"
    own = {str(dtype).removeprefix("torch.") for dtype in operation.get(model.op).spec.dtypes}
    for dtype, of_matmul in json.loads(file.read_text())["coefficients"].items():
        if dtype not in own:
            continue
        like = {name: family.like for name, family in model.families.items() if family.like}
        for name, other in {
            tuned.TORCH: tuned.TORCH,
            f"{tuned.TORCH} unaligned": f"{tuned.TORCH} unaligned",
            **like,
        }.items():
            if other in of_matmul and name not in known[dtype]:
                known[dtype][name] = {
                    **of_matmul[other],
                    "error": max(LEAST_BORROWED, of_matmul[other]["error"]),
                    "errors": [max(LEAST_BORROWED, each) for each in of_matmul[other].get("errors", ())],
                }
                print(f"{dtype} {name}: of matmul's {other}")


def lower(found: Sequence[tuple[Seen, float]], of_all: Sequence[tuple[Seen, float]], layouts: str) -> bool:
    """Whether a fit to one layout errs clearly less there than that to all."""
    same = [error(case) for case in of_all if case[0].kind == layouts]
    return bool(same) and np.quantile([error(case) for case in found], SURE) < CLEARLY * np.quantile(same, SURE)


def main(options: argparse.Namespace) -> int:
    op = operation.get(options.operation)
    model = op.tables.model if op.tables is not None else None
    assert isinstance(model, Model), f"{op.name} has no model"
    table = tuned.load(op.tables.folder / f"{options.device}.json")
    assert table is not None, f"no table of {options.device}"
    sms = table.device.multiprocessors
    warm = any(file.name.startswith(op.name + WARM) for file in options.times)
    shipped = model.folder / f"{options.device}.json"
    if options.host_only:
        kept = json.loads(shipped.read_text()) | {"host": asdict(host(options.dispatch, op.name, warm))}
        atomic_write(options.out or shipped, json.dumps(kept, indent=1) + "\n")
        return 0
    known: dict[str, dict[str, Any]] = defaultdict(dict)
    if options.only:
        known |= json.loads((options.out if options.out and options.out.exists() else shipped).read_text())[
            "coefficients"
        ]
    every: dict[tuple[str, str], list[tuple[Seen, float]]] = {}
    for (dtype, name), seen in groups(model, observations(op, options.times, options.device, options.even)).items():
        if options.only and not re.search(options.only, f"{dtype} {name}"):
            continue
        every[dtype, name] = found = cross_validated(model, seen, sms)
        plain, _, kind = name.partition(" ")
        if kind in LAYOUTS and not lower(found, every.get((dtype, plain), ()), kind):
            continue
        by = with_errors(fitted(model, seen, sms), found)
        known[dtype][name] = {
            key: value if key == "errors" else float(f"{value:.4g}")
            for key, value in asdict(by).items()
            if key != "cold"
        }
        shapes = len({each.key for each in seen})
        median = np.median([error(case) for case in found])
        spread = f"median error {median:.3f}, of {SURE:.0%} {by.error:.3f}, by class {by.errors}"
        print(f"{dtype} {name}: {len(seen)} times of {shapes} shapes, {spread}", flush=True)
    if op.name != "matmul":
        borrowed(model, known, options.device)
    data = {
        "device": asdict(table.device),
        "environment": dict(table.environment),
        "host": asdict(host(options.dispatch, op.name, warm)),
        "coefficients": known,
    }
    atomic_write(options.out or shipped, json.dumps(data, indent=1) + "\n")
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("operation")
    made.add_argument("times", type=Path, nargs="*", default=sorted((RESULTS / "gemm_times").glob("*.json")))
    made.add_argument("--device", default="nvidia_h200")
    made.add_argument("--dispatch", type=Path, default=RESULTS / "dispatch.json")
    made.add_argument(
        "--even", help="a regular expression: files with times of calls of one operator whose host time varies little"
    )
    made.add_argument("--host-only", action="store_true", help="keep the shipped coefficients")
    made.add_argument("--only", help="a regular expression: the groups to fit; the others keep their coefficients")
    made.add_argument("--out", type=Path)
    return made


if __name__ == "__main__":
    sys.exit(main(parser().parse_args()))
