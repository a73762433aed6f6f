"""``python -m warpwise.lab.fidelity.child compile|time|profile JOB OUT``: the process that ``collect`` starts.

It runs the points in the file JOB on the current GPU and writes their launches to the file OUT. If a rung fails, the
failure is recorded and the next rung runs. A launch that corrupts the GPU's context ends the process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from warpwise.cuda.gpu import nvrtc
from warpwise.lab.fidelity.points import ProfiledPoint
from warpwise.lab.profile.ncu import CapturedLaunch, captured, profiled
from warpwise.lab.timing import time
from warpwise.lab.timing.compare import timer_for
from warpwise.lab.timing.environment import environment
from warpwise.lab.timing.samples import Timer
from warpwise.operation import Rung

# The exceptions of a specification, a compiler or a launch.
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, OSError)
TIME_BUDGET = 0.25  # seconds a launch


def main(mode: str, job: Path, out: Path) -> None:
    """Run every point of a job: compile and launch only, or also time or profile each launch."""
    data = json.loads(job.read_text())
    for name in data["modules"]:
        importlib.import_module(name)
    device = torch.device("cuda", torch.cuda.current_device())
    timer = timer_for(device) if mode == "time" else None
    found: dict[str, Any] = {
        "environment": {**environment(device), "nvrtc": nvrtc.toolchain()[0]},
        "launches": [],
        "failures": [],
    }
    for point in map(ProfiledPoint.from_json, data["points"]):
        try:
            args = point.arguments(device)
            rungs = point.rungs(*args)
        except FAILURES:
            found["failures"].append(f"{mode} {point}: {traceback.format_exc(limit=-1)}")
            continue
        for rung in rungs:
            try:
                found["launches"] += measured_launches(point, rung, args, mode, timer)
            except FAILURES:
                found["failures"].append(f"{mode} {point} {rung.name}: {traceback.format_exc(limit=-1)}")
            out.write_text(json.dumps(found))
        del args
        torch.cuda.empty_cache()


def measured_launches(
    point: ProfiledPoint, rung: Rung, args: Sequence[Any], mode: str, timer: Timer | None
) -> list[dict[str, Any]]:
    """Run a rung once to warm up, then once to record its launches, profiled or afterwards timed."""
    op = point.op
    outputs = op.allocate(*args)
    op.launch(rung, outputs, *args)
    torch.cuda.synchronize()
    if mode == "compile":
        return []
    with captured(profiled if mode == "profile" else contextlib.nullcontext) as launches:
        op.launch(rung, outputs, *args)
    torch.cuda.synchronize()
    key, device = point.key(rung), outputs_device(outputs)
    return [
        {**key, **shape(index, launch, rung, device), "time": timed(launch, device, timer) if timer else None}
        for index, launch in enumerate(launches)
    ]


def outputs_device(outputs: Any) -> torch.device:
    return outputs.device if isinstance(outputs, torch.Tensor) else outputs[0].device


def shape(index: int, launch: CapturedLaunch, rung: Rung, device: torch.device) -> dict[str, Any]:
    """The fields of a record that describe a launch."""
    compiled = launch.launcher.kernel.on_gpu(device).compiled
    return {
        "index": index,
        "expression": launch.expression,
        "symbol": compiled.symbol,
        "source": rung.source.name,
        "grid": launch.launcher.grid,
        "block": launch.launcher.block,
        "shared_bytes": launch.launcher.shared_bytes,
        "static_shared": compiled.shared,
        "registers": compiled.registers,
    }


def timed(launch: CapturedLaunch, device: torch.device, timer: Timer) -> dict[str, Any]:
    """The time of one launch, measured by ``lab.time``."""
    timing = time(launch, device=device, timer=timer, budget_s=TIME_BUDGET, precision=0.01).to_json()
    return {
        name: timing[name] for name in ("median_s", "low_s", "high_s", "samples", "clock_mhz", "throttled", "exposed")
    }


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
