"""Measure a device's ceilings: copy bandwidth and the FLOP rate of PyTorch's matmul.

Kernels are compared with measured ceilings, not with data sheets. Results are cached by device, driver and PyTorch
version.
"""

from __future__ import annotations

import datetime
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import torch

from warpwise import cache
from warpwise.device.description import Description, describe
from warpwise.device.precision import Precision, in_precision

_GIB = 1 << 30
_FORMAT = 1
_MATRIX_KINDS = {
    "fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16,
}  # fmt: skip


@dataclass(frozen=True)
class Ceilings:
    """Measured ceilings of a device.

    ``copy`` is in bytes/s, reads plus writes. ``matmul`` is in FLOP/s by dtype ("fp64", "fp32" without TF32, "tf32",
    "bf16", "fp16"), the best of the matrix sizes in ``sizes``. Both are medians, on random data. ``provenance`` is a
    description of the measurement.
    """

    device: str
    place: Literal["gpu", "cpu"]
    copy: float
    matmul: Mapping[str, float]
    copy_bytes: int
    sizes: tuple[int, ...]
    software: str
    date: str

    @property
    def provenance(self) -> str:
        sizes = ", ".join(str(size) for size in self.sizes)
        return (
            f"measured on {self.device} ({self.place}), {self.date}, {self.software}: median copy of "
            f"{self.copy_bytes / (1 << 20):,.0f} MiB; torch matmul of square matrices, the best of {sizes}"
        )


def ceilings(device: str | torch.device | None = None) -> Ceilings | None:
    """Return the cached ceilings of ``device`` (default: the current GPU, else the CPU), or None if not measured."""
    return _read(_path(describe(device)))


def measure_ceilings(
    device: str | torch.device | None = None, *, copy_bytes: int | None = None, sizes: tuple[int, ...] | None = None
) -> Ceilings:
    """Measure ``device`` and cache the result for ``ceilings``. Takes a few seconds on a GPU.

    ``copy_bytes`` is the size of each of the two buffers copied between (4 GiB on a GPU, 256 MiB on a CPU, less where
    memory is short); ``sizes`` are the sides of the square matrices.
    """
    description = describe(device)
    if description.place == "target":
        raise ValueError(f"{description.name}: expected a local device, got a target")
    on = torch.device("cpu") if description.place == "cpu" else torch.device(device if device is not None else "cuda")
    nbytes = copy_bytes or _copy_bytes(on)
    sides = sizes or ((4096, 8192) if on.type == "cuda" else (1024, 2048))
    kinds = _MATRIX_KINDS if on.type == "cuda" else {"fp32": torch.float32}
    with torch.no_grad():
        copied = 2 * nbytes / _copy_seconds(on, nbytes)
        rates = {kind: max(2 * side**3 / _matmul_seconds(on, kind, side) for side in sides) for kind in kinds}
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    found = Ceilings(
        description.name, description.place, copied, MappingProxyType(rates), nbytes, sides, description.driver, today
    )
    facts = {name: getattr(found, name) for name in Ceilings.__dataclass_fields__}
    cache.save(_path(description), json.dumps({**facts, "matmul": rates}).encode())
    return found


def _read(path: Path) -> Ceilings | None:
    cached = cache.load(path)
    if cached is None:
        return None
    facts = json.loads(cached)
    return Ceilings(**{**facts, "matmul": MappingProxyType(facts["matmul"]), "sizes": tuple(facts["sizes"])})


def _path(description: Description) -> Path:
    threads = torch.get_num_threads() if description.place == "cpu" else 0
    return (
        cache.cache_dir()
        / "ceilings"
        / f"{cache.key(_FORMAT, description.name, description.identity, description.driver, threads)}.bin"
    )


def _copy_bytes(on: torch.device) -> int:
    if on.type == "cuda":
        free, _ = torch.cuda.mem_get_info(on)
        return min(4 * _GIB, free // 4) // 4096 * 4096
    return 256 << 20


def _copy_seconds(on: torch.device, nbytes: int) -> float:
    source = torch.randn(nbytes // 4, device=on)
    target = torch.empty_like(source)
    return _median_seconds(on, lambda: target.copy_(source))


def _matmul_seconds(on: torch.device, kind: str, side: int) -> float:
    dtype = _MATRIX_KINDS[kind]
    left, right = (torch.randn(side, side, device=on, dtype=torch.float32).to(dtype) for _ in range(2))
    result = torch.empty(side, side, device=on, dtype=dtype)
    precision: Precision = "tf32" if kind == "tf32" else "ieee"
    return in_precision("matmul", precision, _median_seconds, left, on, lambda: torch.mm(left, right, out=result))


def _median_seconds(on: torch.device, work: Callable[[], object], repeats: int = 21) -> float:
    """Return the median time of single runs: CUDA events on a GPU (``repeats`` runs), wall clock on a CPU (7 runs)."""
    for _ in range(5 if on.type == "cuda" else 2):
        work()
    if on.type != "cuda":
        samples = []
        for _ in range(7):
            start = time.perf_counter()
            work()
            samples.append(time.perf_counter() - start)
        return statistics.median(samples)
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    with torch.cuda.device(on):
        for start_event, end_event in pairs:
            start_event.record()
            work()
            end_event.record()
        torch.cuda.synchronize(on)
    return statistics.median(start.elapsed_time(end) for start, end in pairs) / 1e3
