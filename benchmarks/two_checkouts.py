"""Compare all ladders of two checkouts by the time of their kernels on the GPU, by torch.profiler.

python benchmarks/two_checkouts.py OLD [NEW] [--operation NAME ...] [--limit S] [--rounds N] [--json FILE]

One process for each checkout imports its ``src``. For each operation, timed case and dtype both prepare the same
arguments; then they launch each rung CALLS times in turn (old, new, new, old, ...). The time of a call is the sum of
the durations of its kernels, so neither the host nor waiting between launches counts. The result of a rung is the ratio
of its medians, new over old, and whether both checkouts give the same sum of outputs. Rungs of a call above SLOW are
left out. Rungs are matched by name, and by number where the name differs. Exits with 1 if a ratio is above GOAL.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CALLS = 12
SLOW = 0.03  # seconds of a call
GOAL = 1.01
HALVES = ("bfloat16", "int8")


class Checkout:
    """A process that launches the rungs of one checkout."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--child"], cwd=root, text=True,
            env={**os.environ, "PYTHONPATH": str(root / "src")}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, **request: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Raises ``RuntimeError`` with what the process failed on."""
        assert self._process.stdout is not None
        found = json.loads(self._process.stdout.readline() or '{"error": "the process ended"}')
        if "error" in found:
            raise RuntimeError(found["error"])
        return found

    def close(self) -> None:
        self._process.communicate()


def child() -> None:
    """Answer requests from standard input: points, prepare, measure."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what imported code prints must not be taken for a reply
    import torch

    import warpwise.ops  # noqa: F401 - registers the operations
    from warpwise.operation import all_ops, get

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    launches: dict[str, Callable[[], None]] = {}

    def points(request: dict[str, Any]) -> dict[str, Any]:
        return {"points": [
            {"op": op.name, "size": case.name, "dtype": str(dtype).removeprefix("torch.")}
            for op in all_ops() for case in (op.spec.sizes if device.type == "cuda" else op.spec.cases[:1])
            for at, dtype in enumerate(op.spec.dtypes)
            if at == 0 or (op.tables and str(dtype).removeprefix("torch.") in HALVES)
        ]}  # fmt: skip

    def prepare(request: dict[str, Any]) -> dict[str, Any]:
        launches.clear()
        op = get(request["op"])
        case = next(case for case in (*op.spec.sizes, *op.spec.cases) if case.name == request["size"])
        args = op.spec.arguments(case, getattr(torch, request["dtype"]), device, 0)
        sums = {}
        for rung in op.rungs:
            if rung.language not in ("cuda", "triton") or op.refusal(rung, *args):
                continue
            outputs = op.allocate(*args)

            def launch(rung: Any = rung, outputs: Any = outputs) -> None:
                op.launch(rung, outputs, *args)

            launch()
            if duration(launch, 1) <= SLOW or device.type == "cpu":
                launches[rung.name] = launch
                sums[rung.name] = [float(out.double().sum()) for out in outputs if isinstance(out, torch.Tensor)]
        return {"rungs": sums}

    def duration(launch: Callable[[], None], calls: int) -> float:
        """Seconds of a call: the median over calls of the sum of the durations of its kernels."""
        if device.type == "cpu":
            start = time.perf_counter()
            launch()
            return time.perf_counter() - start
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(calls):
                launch()
            torch.cuda.synchronize()
        events = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
        events.sort(key=lambda event: event.time_range.start)
        each = len(events) // calls
        if not each or len(events) % calls:
            raise RuntimeError(f"{len(events)} kernels in {calls} calls")
        times = [
            sum(event.time_range.elapsed_us() for event in events[at * each : (at + 1) * each]) for at in range(calls)
        ]
        return statistics.median(times) * 1e-6

    def measure(request: dict[str, Any]) -> dict[str, Any]:
        return {"seconds": {name: duration(launches[name], CALLS) for name in request["rungs"]}}

    for line in sys.stdin:
        request = json.loads(line)
        try:
            found = {"points": points, "prepare": prepare, "measure": measure}[request["do"]](request)
        except Exception as error:  # noqa: BLE001 - the other checkout goes on
            found = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        replies.write(json.dumps(found) + "\n")
        replies.flush()


def compared(old: Checkout, new: Checkout, point: dict[str, str], rounds: int) -> Iterator[dict[str, Any]]:
    """One record for each rung that both checkouts have."""
    for each in (old, new):
        each.ask(do="prepare", **point)
    before, after = old.answer()["rungs"], new.answer()["rungs"]
    pairs = {name: name if name in before else _numbered(name, before) for name in after}
    pairs = {name: other for name, other in pairs.items() if other}
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in pairs}
    for number in range(rounds):
        for first in (number % 2 == 0, number % 2 == 1):
            checkout, names = (old, pairs.values()) if first else (new, pairs)
            checkout.ask(do="measure", rungs=list(names))
            seconds = checkout.answer()["seconds"]
            for name, other in pairs.items():
                times[name][not first].append(seconds[other if first else name])
    for name, (theirs, ours) in times.items():
        ratio = statistics.median(ours) / statistics.median(theirs)
        yield {**point, "rung": name, "ratio": ratio, "old_s": theirs, "new_s": ours,
               "same": before[pairs[name]] == after[name]}  # fmt: skip


def _numbered(name: str, others: dict[str, Any]) -> str | None:
    return next((other for other in others if other.partition("_")[0] == name.partition("_")[0]), None)


def main(options: argparse.Namespace) -> int:
    started = time.monotonic()
    old, new = Checkout(options.old.resolve()), Checkout(options.new.resolve())
    new.ask(do="points")
    points = [each for each in new.answer()["points"] if not options.operation or each["op"] in options.operation]
    records: list[dict[str, Any]] = []
    left = []
    for point in points:
        if time.monotonic() - started > options.limit:
            left.append(point)
            continue
        try:
            records += compared(old, new, point, options.rounds)
        except RuntimeError as error:
            print(f"{' '.join(point.values())}: {error}", flush=True)
        if options.json:
            options.json.write_text(json.dumps({"records": records, "left": left}))
    old.close()
    new.close()
    slower = [record for record in records if record["ratio"] > GOAL]
    for record in sorted(records, key=lambda record: -record["ratio"])[:20]:
        where = f"{record['op']} {record['size']} {record['dtype']} {record['rung']}"
        print(f"{record['ratio']:.4f} {where}, {1e6 * statistics.median(record['new_s']):.2f} µs")
    if records:
        mean = statistics.geometric_mean([record["ratio"] for record in records])
        print(f"{len(records)} rungs: geometric mean {mean:.4f}, {len(slower)} above {GOAL}, {len(left)} points left")
    return int(bool(slower))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("old", type=Path)
    made.add_argument("new", type=Path, nargs="?", default=Path(__file__).resolve().parents[1])
    made.add_argument("--operation", action="append")
    made.add_argument("--rounds", type=int, default=4)
    made.add_argument("--limit", type=float, default=540.0, help="seconds after which no further point begins")
    made.add_argument("--json", type=Path)
    return made


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        child()
    else:
        sys.exit(main(parser().parse_args()))
