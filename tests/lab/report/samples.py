"""An operation for the report's tests, with a source file per rung and invented times."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from tests.lab.toys import AFFINE

from warpwise.cuda.source.includes import source_digest
from warpwise.lab import report
from warpwise.lab.store import Measurement, Run
from warpwise.lab.timing.stats import Interval
from warpwise.operation import Op, Rung

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
GPU, CPU = "NVIDIA H200", "cpu: EPYC 9654"
BYTES, FLOPS, FLOOR = 64_000_000, 16_000_000, 16e-6  # a ceiling of 4,000 GB/s

SOURCES = {
    "k01_naive.cu": "// One element a thread.\n__global__ void affine(const float* x, float* y, int n) {\n"
    "  int i = threadIdx.x;\n  if (i < n) y[i] = 2 * x[i] + 1;  // <b>&amp;\n}\n",
    "k02_wide.cu": "// Four elements a thread.\n__global__ void affine(const float4* x, float4* y, int n) {\n"
    "  int i = threadIdx.x;\n  if (i < n) y[i] = twice(x[i]);\n}\n",
    "k03_triton.py": '"""In Triton."""\nimport triton\n',
}


def launch(output: Any, x: Any) -> None:
    output.copy_(2 * x + 1)


def toy(folder: Path, readme: str = "", **spec: Any) -> Op:
    """``affine`` with three rungs whose files lie in ``folder``."""
    import dataclasses

    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    if readme:
        (folder / "README.md").write_text(readme)
    rungs = tuple(
        Rung(
            name.partition(".")[0],
            f"idea <{number}> & more",
            "triton" if name.endswith("py") else "cuda",
            launch,
            folder / name,
        )
        for number, name in enumerate(SOURCES)
    )
    return Op(dataclasses.replace(AFFINE, **spec), rungs)


def run(minutes: float = 0, device: str = GPU, **more: Any) -> Run:
    started = START + timedelta(minutes=minutes)
    environment = {"device": device, "date": started.isoformat(), "driver": "580.1", "torch": "2.11", "target": "sm_90"}
    return Run("affine", device, started, environment=environment, id=f"r{round(minutes) + 1}", **more)


def timed(name: str, seconds: float, case: str = "large", dtype: str = "float32", **more: Any) -> Measurement:
    told: dict[str, Any] = {
        "kind": "rung" if name[:1] == "k" else "opponent", "language": "cuda", "sizes": {"n": 8192}, "samples": 20,
        "mode": "events", "bytes": BYTES, "flops": FLOPS, "floor": FLOOR, "bound": "memory", **more,
    }  # fmt: skip
    return Measurement(
        name,
        told.pop("verdict", "right"),
        START,
        case=case,
        dtype=dtype,
        median=seconds,
        low=seconds * 0.99,
        high=seconds * 1.01,
        **told,
    )


def verdict(name: str, status: Any = "right", message: str = "") -> Measurement:
    return Measurement(name, status, START, message=message)


def ladder(scale: float = 1.0, case: str = "large", dtype: str = "float32", **more: Any) -> list[Measurement]:
    """k01 160 µs, k02 40 µs, k03 50 µs, torch 80 µs, torch.compile 60 µs, each with its ratio to the latter."""

    def one(name: str, micro: float) -> Measurement:
        ratio = Interval(60 / micro, 59 / micro, 61 / micro)
        return timed(name, micro * 1e-6 * scale, case, dtype, ratio=ratio, **more)

    names = {"k01_naive": 160.0, "k02_wide": 40.0, "k03_triton": 50.0, "torch": 80.0, "torch.compile": 60.0}
    return [one(name, micro) for name, micro in names.items()]


def source(*measurements: Measurement, minutes: float = 0, device: str = GPU) -> report.RecordedRun:
    return report.RecordedRun(run(minutes, device), tuple(measurements))


def full(op: Op) -> report.Collected:
    """Two sizes in two dtypes, verdicts of a GPU and a CPU."""
    right = [verdict(rung.name) for rung in op.rungs]
    points = [
        one
        for case, scale in (("large", 1.0), ("small", 0.25))
        for dtype in ("float32", "float16")
        for one in ladder(
            scale,
            case,
            dtype,
            sizes={"n": 8192 if case == "large" else 2048},
            bytes=round(BYTES * scale),
            flops=round(FLOPS * scale),
            floor=FLOOR * scale,
        )
    ]
    return report.collect(op, [source(*right, *points), source(*right, minutes=9, device=CPU)])


def digest(folder: Path, name: str) -> str:
    return source_digest(folder / name)
