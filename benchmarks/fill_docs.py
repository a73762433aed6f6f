"""Write the recorded figures of training and clustering into the tables of the documentation.

python benchmarks/fill_docs.py [--check]

A comment above a table names its record in benchmarks/results, a file or a folder, and a function of this script. The
table below it, and nothing else, is rewritten:

    <!-- recorded: h200/cnn steps -->

--check only reports outdated files. Run it after each new recording.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from benchmarks.cudnn_graphs import SIGNATURES
from benchmarks.unseen_cases import GEMMS
from benchmarks.unseen_shapes import GOALS, summary

RESULTS = ROOT / "benchmarks" / "results"
PAGES = ("docs/training.md", "docs/gemm.md", "docs/choices.md", "src/warpwise/apps/clustering/README.md")
TABLE = re.compile(r"<!-- recorded: (?P<file>\S+) (?P<what>\w+) -->\n\n(?P<table>(?:\|.*\n)+)")


def rows(head: Sequence[str], lines: Iterator[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, *lines)).replace(
        "|\n", f"|\n{'|---' * len(head)}|\n", 1
    )


def steps(record: Any) -> str:
    """The time of a step beside PyTorch's ways, from benchmarks/cnn.py."""
    ways = {"compile in a graph": "torch.compile in a CUDA graph", "torch in a graph": "PyTorch in a CUDA graph"}

    def lines() -> Iterator[Sequence[str]]:
        for batch, point in record["points"].items():
            found = point["step"]["ways"]
            complete = all(way in found for way in ways)
            memory = [
                f"{found[way]['bytes'] / 2**20:.0f} MiB" if way in found else "–" for way in ("ours", next(iter(ways)))
            ]
            times = [f"{found[way]['median_us']:.0f} µs" if way in found else "–" for way in ways]
            speed = f"{point['step']['speed']:.2f}" if complete else "–"
            yield batch, f"{found['ours']['median_us']:.1f} µs", *times, speed, ", ".join(memory)

    memory = "memory, ours and torch.compile in a graph"
    return rows(("batch", "a step", *ways.values(), "speedup over the best of PyTorch", memory), lines())


def losses(record: Any) -> str:
    """The differences of the losses of two runs, from benchmarks/cnn.py: the median of pairs, and their range."""
    keys = {"largest": "largest difference of a step", "mean": "mean difference", "first_20": "largest of 20 steps"}

    def lines() -> Iterator[Sequence[str]]:
        for batch, point in record["points"].items():
            for name, found in point["agree"]["pairs"].items():
                shown = [[f"{100 * value:.2g}" for value in found[key]] for key in keys]
                yield batch, name, *(f"{median} % ({least} to {most})" for least, median, most in shown)

    return rows(("batch", "two runs", *keys.values()), lines())


def errors(record: Any) -> str:
    """Errors of the tensors of a step relative to float64, from benchmarks/cnn_errors.py, at the largest batch."""
    points = record["points"][max(record["points"], key=int)]
    tensors = [name for name in next(iter(points.values())) if not name.endswith("updated")]

    def lines() -> Iterator[Sequence[str]]:
        for name in tensors:
            found = [[points[after][name][way]["error"] for way in ("eager", "ours")] for after in points]
            yield f"`{name}`", *(f"{theirs:.1e}, {ours:.1e}" for theirs, ours in found)

    return rows(("tensor", *(f"eager PyTorch, ours, after {after} steps" for after in points)), lines())


def breadth(record: Any) -> str:
    """Speedups for other networks, from benchmarks/cnn_breadth.py."""
    points = record["points"]
    batches = list(points[0]["batches"])

    def lines() -> Iterator[Sequence[str]]:
        for point in points:
            network = (
                " × ".join(map(str, point["images"])),
                str(point["classes"]),
                " and ".join(map(str, point["features"])),
            )
            yield *network, *(f"{point['batches'][batch]['speed']:.2f}" for batch in batches)

    return rows(("images", "classes", "channels", f"batch {batches[0]}", *batches[1:]), lines())


def fits(record: Any) -> str:
    """Times of whole fits, from benchmarks/clustering_scale.py."""
    kept = [row for row in record["rows"] if not row["method"].startswith("sklearn")]

    def lines() -> Iterator[Sequence[str]]:
        for row in kept:
            ari = f"{row['ari']:.3f}" if "ari" in row else "–"
            memory = f"{row['memory_per_x']:.2f}" if "memory_per_x" in row else "–"
            yield f"{row['points']:,}", row["method"], f"{row['seconds'] * 1e3:.1f} ms", ari, memory

    return rows(("points", "what", "time", "adjusted Rand index", "memory in units of X"), lines())


def gpus(record: Any) -> str:
    """The time of a fit by one GPU and by several, from benchmarks/clustering_gpus.py."""
    one, several = record["one"], record["all"]
    head = ("GPUs", "points", "a fit", "speedup", "labels that differ", "memory of a GPU in units of X")
    lines = (
        ("1", f"{record['points']:,}", f"{one['seconds']:.3f} s", "1", "–", f"{one['memory_per_x']:.2f}"),
        (
            str(record["processes"]),
            f"{record['points']:,}",
            f"{several['seconds']:.3f} s",
            f"{record['speedup']:.2f}",
            f"{record['labels_that_differ']:,}",
            f"{several['memory_per_x']:.2f}",
        ),
    )
    return rows(head, iter(lines))


def products(records: dict[str, Any]) -> str:
    """The speed of calls at drawn shapes relative to PyTorch's, from benchmarks/unseen_shapes.py."""

    def lines() -> Iterator[Sequence[str]]:
        for name in GEMMS:
            points = records[name]["points"][name]
            mean, good, _ = summary(points).values()
            low = sorted(point["ratio"][0] for point in points if point["ratio"][0] < GOALS["worst"])
            shown = f"{len(low)}: {', '.join(f'{ratio:.2f}' for ratio in low)}" if low else "0"
            yield f"`{name}`", str(records[name]["seed"]), str(len(points)), f"{mean:.2f}", f"{good:.0%}", shown

    return rows(("operation", "seed", "shapes", "geometric mean", "0.98 or more", "below 0.95"), lines())


def large(record: Any) -> str:
    """Large products in GPU time, each with an empty L2, interleaved with PyTorch's, from benchmarks/matmul.py."""

    def lines() -> Iterator[Sequence[str]]:
        for name, point in record["points"].items():
            dtype, size = name.split(" cube_")
            speed, low, high = point["ratio"]
            rate = f"{point['ours']['tflops']:.1f}"
            yield dtype, f"{size}³", f"`{point['chosen']}`", rate, f"{speed:.3f} ({low:.3f} to {high:.3f})"

    return rows(("dtype", "sizes", "kernel", "TFLOPS", "PyTorch's time divided by ours"), lines())


def others(record: Any) -> str:
    """The speed of operations that are not products at drawn shapes, in GPU time, from benchmarks/unseen_shapes.py."""

    def lines() -> Iterator[Sequence[str]]:
        for name, points in record["points"].items():
            cells = []
            for key in ("gpu_ratio", "gpu_compiled_ratio"):
                ratios = sorted(point[key][0] for point in points if key in point)
                below = [f"{ratio:.2f}" for ratio in ratios if ratio < GOALS["worst"]]
                cells += [f"{math.exp(statistics.fmean(map(math.log, ratios))):.2f}", ", ".join(below) or "none"]
            yield f"`{name}`", str(len(points)), *cells

    rivals = (f"{what} {who}" for who in ("PyTorch", "torch.compile") for what in ("mean, beside", "below 0.95 of"))
    return rows(("operation", "shapes", *rivals), lines())


def blocks(record: Any) -> str:
    """Times of blocks beside PyTorch in float16 and cuDNN's graph patterns, from benchmarks/cudnn_patterns.py.

    A time whose 95 % interval is wider than a tenth of the median is shown as the interval.
    """
    kinds = {
        "float32": lambda who: who == "ours, float32", "16 bits": lambda who: who.startswith("ours") and "16" in who,
        "PyTorch": lambda who: who.startswith("PyTorch"), "patterns": lambda who: "cuDNN" in who,
    }  # fmt: skip
    parts = ("forward", "training")

    def best(times: dict[str, list[float]], chosen: Callable[[str], bool]) -> str:
        found = [us for who, us in times.items() if chosen(who)]
        if not found:
            return "–"
        median, low, high = min(found)
        return f"{median:.1f}" if high - low <= median / 10 else f"{low:.0f} to {high:.0f}"

    def lines() -> Iterator[Sequence[str]]:
        for point in record["points"]:
            times = [point["blocks"][part]["us"] for part in parts]
            size = " × ".join(map(str, point["shape"][:4]))
            yield size, str(point["shape"][4]), *(best(one, kind) for one in times for kind in kinds.values())

    return rows(("input", "filters", *(f"{part}, {name}" for part in parts for name in kinds)), lines())


def patterns(record: Any) -> str:
    """What cuDNN's graph patterns compute, and their speed relative to PyTorch's operations for the same results."""

    def lines() -> Iterator[Sequence[str]]:
        for name, computes in record["patterns"].items():
            found = [point["patterns"][name] for point in record["points"]]
            ratios = [row["ratio"][0] for row in found if "ratio" in row]
            if all("unsupported" in row for row in found):
                continue
            tried = [row for row in found if "proposed" in row]
            right, mean = sum("plan" in row for row in tried), math.exp(statistics.fmean(map(math.log, ratios or [1])))
            speed = f"{mean:.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "–"
            yield f"`{name}`", computes, SIGNATURES[name].remains, f"{right} of {len(tried)}", speed

    return rows(("pattern", "computes", "remains", "right at", "speed relative to PyTorch's operations"), lines())


MADE: dict[str, Callable[[Any], str]] = {
    "steps": steps,
    "losses": losses,
    "errors": errors,
    "breadth": breadth,
    "blocks": blocks,
    "patterns": patterns,
    "fits": fits,
    "gpus": gpus,
    "products": products,
    "large": large,
    "others": others,
}


def recorded(path: Path) -> Any:
    """The record of a file without its suffix, or those of a folder by name."""
    if path.is_dir():
        return {each.stem: recorded(path / each.stem) for each in sorted(path.glob("*.json"))}
    return json.loads(path.with_suffix(".json").read_text())


def filled(text: str) -> str:
    def table(found: re.Match[str]) -> str:
        return found[0].replace(found["table"], MADE[found["what"]](recorded(RESULTS / found["file"])))

    return TABLE.sub(table, text)


def main(check: bool) -> int:
    outdated = False
    for page in PAGES:
        before = (ROOT / page).read_text()
        after = filled(before)
        if before != after and check:
            print(f"{page} is out of date: benchmarks/fill_docs.py writes it")
            outdated = True
        elif before != after:
            (ROOT / page).write_text(after)
            print(page)
    return int(outdated)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    sys.exit(main(**vars(parser.parse_args())))
