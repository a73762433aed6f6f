"""Compare matrix multiplications with cuBLAS: six dtypes at twenty shapes, each pair timed in one interleaved run.

python benchmarks/matmul.py [--kind bf16 ...] [--shape cube_4096 ...] [--budget S] [--limit S] [--fresh] [--json FILE]
python benchmarks/matmul.py --show [--notes | --check]

At each point the rung that the operation chooses is checked against float64 element by element, and timed in turn with
cuBLAS, in random order, with L2 flushed and launches hidden (``lab.time``). Where the operation chooses PyTorch, the
best rung is timed all the same. The table shows the ratio of medians with its 95 % interval (above 1: faster than
cuBLAS), the project's goal for it, and both errors relative to float64 in the Frobenius norm.

Points are stored as soon as they are measured, and are not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

import torch
from rich.console import Console
from rich.table import Table

from warpwise import lab, ops  # noqa: F401 - importing ops registers them
from warpwise.cache import atomic_write
from warpwise.lab.report import ratio_grid
from warpwise.lab.timing.environment import environment, place
from warpwise.lab.timing.timing import duration, ratio
from warpwise.lab.verify.problem import Instance, Problem
from warpwise.operation import Case, Op, get

RESULTS = Path(__file__).parent / "results" / "h200" / "matmul_shapes.json"
NOTES = ROOT / "src" / "warpwise" / "ops" / "matmul" / "NOTES.md"
PICTURE = ROOT / "docs" / "pictures" / "matmul_h200.svg"
MARKS = "<!-- shapes -->", "<!-- end of shapes -->"
CHUNK = 1 << 24  # elements of float64 at a time


@dataclass(frozen=True)
class Kind:
    """A dtype: the operation that multiplies it, its torch.dtype, and its opponent."""

    op: str
    dtype: torch.dtype
    rival: str = "cuBLAS"


KINDS = {
    "fp32": Kind("matmul", torch.float32),
    "tf32": Kind("matmul_tf32", torch.float32),
    "bf16": Kind("matmul", torch.bfloat16),
    "fp16": Kind("matmul", torch.float16),
    "int8": Kind("matmul", torch.int8, "cuBLAS (torch._int_mm)"),
    "fp8": Kind("scaled_matmul", torch.float8_e4m3fn, "cuBLAS (torch._scaled_mm)"),
}
SHAPES = {
    **{f"cube_{side}": (side, side, side) for side in (256, 512, 1024, 2048, 4096, 8192, 16384)},
    "decode_16": (16, 4096, 4096),
    "decode_64": (64, 14336, 4096),
    "decode_128": (128, 4096, 14336),
    "decode_256": (256, 8192, 8192),
    "prefill_qkv": (2048, 6144, 4096),
    "prefill_up": (4096, 14336, 4096),
    "prefill_down": (4096, 4096, 14336),
    "shallow_4096": (4096, 4096, 512),
    "shallow_8192": (8192, 8192, 512),
    "ragged_4095": (4095, 4095, 4095),
    "ragged_oblong": (1000, 3000, 777),
    "ragged_odd": (2047, 1023, 4095),
    "ragged_decode": (33, 4097, 4095),
}
SKINNY = {"decode_16", "decode_64", "decode_128", "decode_256", "shallow_4096", "shallow_8192"}
GOALS: dict[str, dict[str, float]] = {
    "fp32": dict.fromkeys(("cube_1024", "cube_4096", "cube_8192", "ragged_4095", "ragged_oblong"), 1.0),
    "bf16": {"cube_4096": 1.05, "cube_8192": 1.05} | dict.fromkeys(sorted(SKINNY), 1.0),
    "fp8": dict.fromkeys(("cube_4096", "cube_8192", *sorted(SKINNY)), 1.0),
}


def operation(kind: Kind) -> Op | None:
    """The operation, or None if this version does not have it for that dtype."""
    try:
        op = get(kind.op)
    except LookupError:
        return None
    return op if kind.dtype in op.spec.dtypes else None


def error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """|result - reference| / |reference| in the Frobenius norm."""
    missed = total = 0.0
    for start in range(0, result.numel(), CHUNK):
        part = slice(start, start + CHUNK)
        truth = reference.reshape(-1)[part].double()
        missed += float((result.reshape(-1)[part].double() - truth).square().sum())
        total += float(truth.square().sum())
    return math.sqrt(missed / total) if total else 0.0


def measured(
    op: Op,
    kind: Kind,
    shape: tuple[int, int, int],
    device: torch.device,
    budget: float,
    others: Mapping[str, Callable[..., torch.Tensor]],
) -> dict[str, Any]:
    """Measure one point; ``others`` are timed too if they accept it. Raises the errors of the kernels."""
    case = Case("point", dict(zip("mnk", shape, strict=True)))
    instance = Problem(op, device).make(case, kind.dtype, 0)
    args: Any = instance.args
    chosen = op.choice(*args)
    rung = chosen.name or runnable(op, chosen.rival, args) or op.default(*args)
    point: dict[str, Any] = {
        "chosen": chosen.name or "torch",
        "source": chosen.source,
        "reason": chosen.reason,
        "rung": rung,
    }
    contestants = {"theirs": op.spec.eager}
    if rung is not None:
        result = op(*args, rung=rung)
        found = instance.compare(0, result)
        point |= {"right": found.right, "worst": found.worst, "error": error(result, instance.results[0].reference)}
        del result
        if not found.right:
            return point | {"note": f"{rung} is wrong: {found.wrong} of {found.total} elements"}
        contestants["ours"] = lambda *values: op.call(*values, rung=rung)
    point["their_error"] = error(op.spec.eager(*args), instance.results[0].reference)
    cost = op.spec.cost(*args)
    contestants |= {name: function for name, function in others.items() if runs(function, args, instance)}
    del instance
    timings = lab.time(contestants, *args, device=device, budget_s=budget, precision=0.003, cost=cost)
    point |= {"flops": cost.flops, "theirs": timings["theirs"].to_json()}
    if rung is not None:
        faster = ratio(timings["theirs"], timings["ours"])
        point |= {"ours": timings["ours"].to_json(), "ratio": [faster.median, faster.low, faster.high]}
    if others:
        point["others"] = {name: timings[name].to_json() for name in others if name in timings}
    return point


def runnable(op: Op, name: str, args: Sequence[Any]) -> str | None:
    """``name`` if the rung accepts the arguments, else the rung without its configuration, else None."""
    named = [candidate for candidate in (name, name.partition("@")[0]) if candidate.startswith("k")]
    return next((candidate for candidate in named if op.refusal(op.rung(candidate), *args) is None), None)


def runs(function: Callable[..., torch.Tensor], args: Sequence[Any], instance: Instance) -> bool:
    """True if another library accepts these arguments and its result is correct."""
    try:
        return instance.compare(0, function(*args)).right
    except RuntimeError:
        return False


def verdict(kind: str, shape: str, point: dict[str, Any]) -> str:
    """ "pass" or "MISS" if the point has a goal, for the implementation that the operation chooses."""
    goal = GOALS.get(kind, {}).get(shape)
    if goal is None or "theirs" not in point:
        return ""
    return "pass" if point.get("right") and point.get("ratio", [0.0])[0] >= goal else "MISS"


def drawn(points: dict[str, dict[str, Any]], kinds: list[str]) -> Table:
    """A table with one row for each point of ``kinds``."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    for heading in ("kind", "shape", "m × n × k", "rung"):
        table.add_column(heading, no_wrap=True)
    for heading in (
        "ours",
        "95 %",
        "TFLOP/s",
        "theirs",
        "95 %",
        "ratio",
        "95 %",
        "goal",
        "",
        "error",
        "their error",
        "CUTLASS",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for kind in kinds:
        for shape, sizes in SHAPES.items():
            point = points.get(f"{kind} {shape}")
            if point is not None:
                table.add_row(kind, shape, " × ".join(map(str, sizes)), *cells(kind, shape, point))
    return table


def cells(kind: str, shape: str, point: dict[str, Any]) -> list[str]:
    if "theirs" not in point:
        return [point.get("rung") or "", point.get("note", "")]
    ours, theirs = point.get("ours"), point["theirs"]
    mark = " (torch chosen)" if point["chosen"] == "torch" else ""
    goal = GOALS.get(kind, {}).get(shape)
    faster = point.get("ratio")
    return [
        f"{point['rung'] or 'none'}{mark}",
        *spread(ours),
        f"{point['flops'] / ours['median_s'] / 1e12:.1f}" if ours else "",
        *spread(theirs),
        f"{faster[0]:.3f}" if faster else "",
        f"{faster[1]:.3f}–{faster[2]:.3f}" if faster else "",
        f"{goal:.2f}" if goal else "",
        verdict(kind, shape, point),
        f"{point['error']:.2e}" if ours else "",
        f"{point['their_error']:.2e}",
        best_other(point),
    ]


def best_other(point: dict[str, Any]) -> str:
    """The fastest of the other libraries' kernels, with its speed relative to cuBLAS."""
    timed = {name: timing["median_s"] for name, timing in point.get("others", {}).items() if timing["median_s"]}
    if not timed or not point["theirs"]["median_s"]:
        return ""
    name = min(timed, key=lambda name: timed[name])
    return f"{point['theirs']['median_s'] / timed[name]:.3f} {name.removeprefix('CUTLASS ')}"


def spread(timing: dict[str, Any] | None) -> list[str]:
    if not timing or timing["median_s"] is None:
        return ["void" if timing else "", ""]
    return [duration(timing["median_s"]), f"±{50 * (timing['high_s'] - timing['low_s']) / timing['median_s']:.1f} %"]


def page(kept: dict[str, Any]) -> str:
    """The speed relative to cuBLAS as Markdown: a row per shape, a column per dtype; empty if not measured."""
    points, kinds = kept["points"], list(KINDS)
    rows = ["| M × N × K | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for shape, sizes in SHAPES.items():
        cells = [ratio_text(kind, shape, points.get(f"{kind} {shape}", {})) for kind in kinds]
        if any(cells):
            rows.append(f"| {' × '.join(map(str, sizes))} | {' | '.join(cells)} |")
    return "\n".join((f"Speed relative to cuBLAS, medians of interleaved rounds, {where(kept)}:", "", *rows))


def where(kept: dict[str, Any]) -> str:
    """The device and the date."""
    return f"{kept['place']}, {kept['environment']['date'][:10]}"


def picture(kept: dict[str, Any]) -> str:
    """The same as an SVG."""
    title = f"Matrix multiplications: speed relative to cuBLAS, {where(kept)}"
    return ratio_grid.drawn(kept["points"], list(KINDS), SHAPES, GOALS, title, "cuBLAS")


def ratio_text(kind: str, shape: str, point: dict[str, Any]) -> str:
    """The ratio of a point and its goal; in brackets if the operation chooses PyTorch there."""
    if "ratio" not in point:
        return ""
    goal = GOALS.get(kind, {}).get(shape)
    text = f"{point['ratio'][0]:.3f}" + (f" of {goal:.2f}" if goal else "")
    return f"({text})" if point["chosen"] == "torch" else text


def is_current(kept: dict[str, Any]) -> bool:
    """True if the operation's notes and the picture show ``kept``."""
    return page(kept) in NOTES.read_text() and PICTURE.read_text() == picture(kept)


def write_page(kept: dict[str, Any]) -> None:
    """Write ``page`` between the marks in the operation's notes, and draw the picture."""
    before, start, rest = NOTES.read_text().partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (start and end):
        sys.exit(f"{NOTES} has no {MARKS[0]} … {MARKS[1]}")
    atomic_write(NOTES, f"{before}{start}\n{page(kept)}\n{end}{after}")
    PICTURE.parent.mkdir(exist_ok=True)
    atomic_write(PICTURE, picture(kept))


def summary(points: dict[str, dict[str, Any]]) -> str:
    """The goals met and missed, and the ratios of those missed."""
    lines = []
    for kind, goals in GOALS.items():
        named = {shape: points[f"{kind} {shape}"] for shape in goals if f"{kind} {shape}" in points}
        missed = [shape for shape, point in named.items() if verdict(kind, shape, point) == "MISS"]
        short = ", ".join(
            f"{shape} {named[shape].get('ratio', [0.0])[0]:.3f} of {goals[shape]:.2f}" for shape in missed
        )
        lines.append(
            f"{kind}: {len(named) - len(missed)} of {len(goals)} goals met" + (f"; missed: {short}" if short else "")
        )
    return "\n".join(lines)


def cutlass(dtype: torch.dtype) -> Mapping[str, Callable[..., torch.Tensor]]:
    """CUTLASS's kernels for ``dtype``; none, with a message, if they are not available."""
    from benchmarks import cutlass_opponent

    if dtype not in cutlass_opponent.ELEMENTS:
        return {}
    try:
        return cutlass_opponent.build(dtype)
    except cutlass_opponent.Unavailable as reason:
        print(f"without CUTLASS: {reason}", file=sys.stderr)
        return {}


def loaded(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {"points": {}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=KINDS, help="dtypes; default: all")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="shapes; default: all")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds to time a point")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no further point is started")
    parser.add_argument(
        "--cutlass", action="store_true", help="also time CUTLASS's kernels for bf16 and fp16 (cutlass_opponent.py)"
    )
    parser.add_argument("--fresh", action="store_true", help="measure known points again")
    parser.add_argument("--show", action="store_true", help="print the stored points without measuring")
    parser.add_argument(
        "--notes", action="store_true", help="write the stored points to the operation's NOTES.md and its picture"
    )
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 unless NOTES.md and the picture are up to date"
    )
    parser.add_argument("--json", type=Path, default=RESULTS, help="the file of the points")
    options = parser.parse_args()
    kinds, shapes = options.kind or list(KINDS), options.shape or list(SHAPES)
    others = {kind: cutlass(KINDS[kind].dtype) if options.cutlass else {} for kind in kinds}
    console, kept = Console(width=230, highlight=False), loaded(options.json)
    points: dict[str, dict[str, Any]] = kept["points"]
    if not options.show:
        if not torch.cuda.is_available():
            sys.exit("no CUDA device: emulated kernels are not timed; --show prints the stored points")
        device, began = torch.device("cuda", torch.cuda.current_device()), time.perf_counter()
        kept = {"place": place(device), "environment": environment(device), "points": points}
        for kind, shape in ((kind, shape) for kind in kinds for shape in shapes):
            op, key = operation(KINDS[kind]), f"{kind} {shape}"
            if op is None:
                console.print(f"{key}: this version has no {KINDS[kind].op} of {KINDS[kind].dtype}")
                continue
            if key in points and not options.fresh:
                continue
            if time.perf_counter() - began > options.limit:
                console.print("the limit is reached; the same command continues from here")
                break
            try:
                points[key] = measured(op, KINDS[kind], SHAPES[shape], device, options.budget, others[kind])
            except Exception as problem:  # noqa: BLE001 - a point that fails is recorded
                points[key] = {
                    "rung": None,
                    "note": f"{type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}",
                }
            torch.cuda.empty_cache()
            atomic_write(options.json, json.dumps(kept, indent=1) + "\n")
            console.print(key, *cells(kind, shape, points[key]))
    if options.check:
        sys.exit(None if is_current(kept) else f"{NOTES} and {PICTURE} are out of date: --show --notes writes them")
    if options.notes:
        write_page(kept)
    console.print(drawn(points, kinds))
    console.print(summary(points))
    if "place" in kept:
        console.print(f"{kept['place']}, {kept['environment']['date']}, {kept['environment'].get('git_commit', '')}")


if __name__ == "__main__":
    main()
