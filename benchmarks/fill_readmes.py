"""Write recorded times into the `measured` columns of each operation's README.md and NOTES.md.

python benchmarks/fill_readmes.py [DEVICE] [--check]

The records are benchmarks/results/DEVICE/*.json (DEVICE: h200). A comment above a table selects the points that it
shows; this script also writes the line after the comment:

    <!-- measured: random uint8 / one_value uint8 -->
    <!-- measured softmax_backward: wide bfloat16 -->

The second form names the operation, which a folder needs where two ladders have rungs of the same name. A table whose
operation has no record is unchanged. Without a comment, a table shows the operation's first recorded point. README.md
gets the time and the speed relative to the best opponent, NOTES.md also the rate and the percentage of the ceiling. For
a rung that no climb timed at these points the cell shows the record of benchmarks/matmul.py, or the point of the
shipped table with its largest speedup; if there is neither, the cell is unchanged. Run the script after each new
recording; --check only reports outdated files.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks")]

import matmul

from warpwise import operation, ops  # noqa: F401 - importing ops registers them
from warpwise.lab import Recorded
from warpwise.lab.timing.timing import duration, rate_text
from warpwise.lab.verify.verdict import dtype_name
from warpwise.tuned import load as load_table

RESULTS = Path(__file__).parent / "results"
FILES = ("README.md", "NOTES.md")
MARKER = re.compile(r"<!-- measured(?: (?P<op>\w+))?: (?P<points>.+?) -->")
CAPTION = re.compile(r"^Measured on .+(?:\n[^\n|<]+)*$", re.MULTILINE)
ROW = re.compile(r"^\| `(?P<rung>k\d\d_\w+)` \|.*\|$")


def figure(record: Recorded, rung: str, name: str, brief: bool) -> str:
    """A rung's time and speed relative to the best opponent at the point called "SIZE DTYPE"; empty if not timed there.

    Unless ``brief``, the rate and the percentage of the ceiling are between the two.
    """
    size, _, dtype = name.partition(" ")
    found, entry = record.point(size, dtype), record.entry(rung, size, dtype)
    timing = entry["timing"] if entry else None
    if found is None or entry is None or not timing or timing["void"] or timing["median_s"] is None:
        return ""
    rate = f", {rate_text(timing['bound'], timing['tflops'], timing['gbps'])}"
    percent = f", {timing['percent']:.0f} %" if timing["percent"] else ""
    rate = "" if brief else rate + percent
    ratio = f", {entry['ratio']['median']:.2f} × {found['best_opponent']}" if entry["ratio"] else ""
    return f"{duration(timing['median_s'])}{rate}{ratio}"


class Multiplications:
    """The records of benchmarks/matmul.py on a device, for the rung that the operation chose at each point."""

    def __init__(self, device: str) -> None:
        path = RESULTS / device / "matmul_shapes.json"
        kept = json.loads(path.read_text()) if path.exists() else {"points": {}}
        self._points: dict[tuple[str, str, tuple[int, ...]], dict[str, Any]] = {}
        for key, point in kept["points"].items():
            kind, _, shape = key.partition(" ")
            of = matmul.KINDS[kind]
            if point.get("ours"):
                self._points[of.op, dtype_name(of.dtype), matmul.SHAPES[shape]] = point

    def figure(self, record: Recorded, rung: str, name: str, brief: bool) -> str:
        """As the function ``figure``, without the percentage of the ceiling; empty if another rung was chosen."""
        size, _, dtype = name.partition(" ")
        found = record.point(size, dtype)
        point = self._points.get((record.path.stem, dtype, tuple(found["case"]["sizes"].values()))) if found else None
        if point is None or point["rung"].partition("@")[0] != rung:
            return ""
        seconds = point["ours"]["median_s"]
        rate = "" if brief else f", {point['flops'] / seconds / 1e12:.1f} TFLOP/s"
        return f"{duration(seconds)}{rate}, {point['ratio'][0]:.2f} × cuBLAS"


def best_win(op: str, rung: str, device: str) -> str:
    """The point with the largest speedup of ``rung`` in the table shipped for a device, or an empty string."""
    chooser = operation.get(op).tables
    folder = chooser.folder if chooser is not None else None
    tables = [load_table(path) for path in sorted(folder.glob(f"*{device}.json"))] if folder else []
    won = [
        (point.rival_seconds / point.seconds, point)
        for table in tables
        if table
        for point in table.points
        if point.winner.partition("@")[0] == rung and point.rival_seconds
    ]
    if not won:
        return ""
    ratio, point = max(won, key=lambda each: each[0])
    sizes = " × ".join(map(str, point.sizes.values()))
    rival = point.rival.partition("@")[0]
    return f"tuned, {sizes} ({point.dtype}, {point.kind}): {duration(point.seconds)}, {ratio:.2f} × {rival}"


def table_points(line: str, records: dict[str, Recorded]) -> list[str]:
    """The points that a marker names, or the first recorded one."""
    if match := MARKER.search(line):
        return [name.strip() for name in match["points"].split("/")]
    case, dtype = next(iter(records.values())).points()[0]
    return [f"{case.name} {dtype_name(dtype)}"]


def caption(names: list[str], records: dict[str, Recorded], brief: bool) -> str:
    """The line after a marker: the points, the device and the date of the record that has them."""
    asked = [(size, dtype) for size, _, dtype in (name.partition(" ") for name in names)]
    record = max(records.values(), key=lambda record: sum(record.point(*point) is not None for point in asked))
    there = [point for point in asked if record.point(*point)]
    shown = " / ".join(f"{size} ({dtype})" for size, dtype in there)
    rate = "" if brief else ", rate, percentage of the ceiling"
    columns = f"median time{rate}, speed relative to the best opponent"
    return textwrap.fill(f"Measured on {record.device}, {record.date[:10]}: {shown}; {columns}.", 120)


def folder_of(op: operation.Op) -> Path:
    """The folder with the README of ``op``: that of its tables, else that of its rungs, or the one above."""
    tuned = op.tables.folder if op.tables is not None else None
    folder = op.rungs[0].source.parent if tuned is None else tuned.parent
    return folder if (folder / FILES[0]).exists() else folder.parent


def devices(op: str, rung: str) -> tuple[str, ...]:
    """The devices of a rung, none if the operation no longer has it."""
    return next((each.devices for each in operation.get(op).rungs if each.name == rung), ())


def filled(text: str, records: dict[str, Recorded], device: str, brief: bool) -> str:
    """``text`` with the last cell of every rung's row rewritten; ``records`` are those of the folder's operations."""
    text = CAPTION.sub(lambda match: match[0].replace("\n", " "), text)
    lines, names, multiplications = text.splitlines(), table_points("", records), Multiplications(device)
    shown, measured = records, False
    for number, line in enumerate(lines):
        if match := MARKER.search(line):
            wanted = match["op"]
            shown = {name: record for name, record in records.items() if wanted in (None, name)}
            if not shown:
                continue
            names = table_points(line, shown)
            if number + 1 < len(lines) and lines[number + 1].startswith("Measured on "):
                lines[number + 1] = caption(names, shown, brief)
            else:
                lines[number] = f"{line}\n{caption(names, shown, brief)}"
        if line.startswith("| rung |"):
            measured = line.endswith("| measured |")
        if (match := ROW.match(line)) and measured:
            for op, record in shown.items():
                rung = match["rung"]
                if not devices(op, rung) and record.status(rung) is None:
                    continue
                found = [
                    figure(record, rung, name, brief) or multiplications.figure(record, rung, name, brief)
                    for name in names
                ]
                cell = " / ".join(each or "–" for each in found) if any(found) else best_win(op, rung, device)
                untimed = "not timed at these points" if "cuda" in devices(op, rung) else "not timed on a GPU"
                cell = cell or line.split("|")[-2].strip() or untimed
                head = line.rpartition(" | ")[0]
                lines[number] = f"{head} | {cell} |"
    return "\n".join(lines) + "\n"


def main(device: str, check: bool) -> int:
    folders: dict[Path, dict[str, Recorded]] = {}
    for op in operation.all_ops():
        path = RESULTS / device / f"{op.name}.json"
        if path.exists():
            record = Recorded(path, json.loads(path.read_text()))
            if record.points():
                folders.setdefault(folder_of(op), {})[op.name] = record
    outdated = False
    for folder, records in folders.items():
        for path in (folder / name for name in FILES if (folder / name).exists()):
            before = path.read_text()
            after = filled(before, records, device, brief=path.name == FILES[0])
            if check and before != after:
                outdated = True
                print(f"{path.relative_to(ROOT)} is out of date: benchmarks/fill_readmes.py {device} writes it")
            elif not check:
                path.write_text(after)
                print(f"{path.relative_to(ROOT)}: {', '.join(records)}")
    return 0 if folders and not outdated else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", nargs="?", default="h200", help="a folder of benchmarks/results")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    sys.exit(main(**vars(parser.parse_args())))
