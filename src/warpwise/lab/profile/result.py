"""``ProfileResult``: the recorded table and the paths of its traces, as text, HTML and JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from warpwise.lab.html_templates import Templates
from warpwise.lab.profile.schedule import Schedule
from warpwise.lab.timing.timing import duration

TEMPLATES = Templates("warpwise.lab.profile")
SHOWN = 20
COLUMNS = {
    "name": "name", "calls": "calls", "self_cpu": "self CPU", "cpu": "CPU total", "self_cuda": "self CUDA",
    "cuda": "CUDA total", "memory": "CPU memory", "cuda_memory": "CUDA memory",
}  # fmt: skip
TIMES = ("self_cpu", "cpu", "self_cuda", "cuda")
BYTES = ("memory", "cuda_memory")


@dataclass(frozen=True)
class ProfileRow:
    """One operator, kernel or named range, summed over the recorded steps: seconds, and net bytes allocated.

    ``self_`` times exclude callees. ``ranged`` marks a named range, which contains other rows.
    """

    name: str
    calls: int
    self_cpu: float
    cpu: float
    self_cuda: float
    cuda: float
    memory: int
    cuda_memory: int
    ranged: bool = False

    def cell(self, column: str) -> str:
        """The value of ``column`` with its unit; "" for zero."""
        value = getattr(self, column)
        if column in TIMES:
            return duration(value) if value else ""
        if column in BYTES:
            return byte_text(value) if value else ""
        return f"{value:,}" if column == "calls" else str(value)


def byte_text(count: int) -> str:
    """Bytes with the unit that fits, 1024 to the next."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.4g} {unit}"


@dataclass(frozen=True)
class ProfileResult:
    """A profile of ``name`` on ``place`` by torch's profiler: an unordered ``table`` over ``steps`` active steps.

    ``traces`` are the Chrome traces written, one for each repetition of the schedule; ``trace`` is the first.
    ``seconds`` is the time of the whole run, profiler included. ``interrupted`` is True if Ctrl-C ended the run, and
    ``failure`` the traceback of a script that failed.
    """

    name: str
    place: str
    schedule: Schedule | None
    steps: int
    table: tuple[ProfileRow, ...]
    seconds: float
    traces: tuple[Path, ...] = ()
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    failure: str = ""

    @property
    def trace(self) -> Path | None:
        return self.traces[0] if self.traces else None

    @property
    def on_gpu(self) -> bool:
        """True if GPU work was recorded."""
        return any(row.self_cuda > 0 for row in self.table)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns with any value."""
        return tuple(
            column
            for column in COLUMNS
            if column in ("name", "calls") or any(getattr(row, column) for row in self.table)
        )

    def sorted(self, by: str = "") -> list[ProfileRow]:
        """The rows by column ``by``, the largest first; by default self CUDA time if there is any, else self CPU time.

        Raises ``ValueError`` for an unknown column.
        """
        by = by or ("self_cuda" if self.on_gpu else "self_cpu")
        if by not in COLUMNS:
            raise ValueError(f"sort: no column {by!r}; there are {', '.join(COLUMNS)}")
        if by == "name":
            return sorted(self.table, key=lambda row: row.name)
        return sorted(self.table, key=lambda row: (-getattr(row, by), row.name))

    @property
    def heading(self) -> str:
        """One line: name, device, number of steps."""
        how = f"{self.steps} step{'' if self.steps == 1 else 's'}" + (
            f" of schedule {self.schedule}" if self.schedule else ""
        )
        return f"{self.name} on {self.place}: {how}{', interrupted' if self.interrupted else ''}"

    def __str__(self) -> str:
        columns, rows = self.columns, self.sorted()[:SHOWN]
        cells = [[COLUMNS[column] for column in columns], *([row.cell(column) for column in columns] for row in rows)]
        widths = [max(len(line[position]) for line in cells) for position in range(len(columns))]
        lines = [self.heading]
        for line in cells:
            first, *rest = (
                text.ljust(width) if not at else text.rjust(width)
                for at, (text, width) in enumerate(zip(line, widths, strict=True))
            )
            lines.append("  ".join((first, *rest)).rstrip())
        if len(self.table) > SHOWN:
            lines.append(f"… {len(self.table) - SHOWN} more")
        return "\n".join([*lines, *(f"trace: {path}" for path in self.traces), *self.notes])

    def _repr_html_(self) -> str:
        """A table for a notebook."""
        more = [f"… {len(self.table) - SHOWN} more"] if len(self.table) > SHOWN else []
        remarks = [*more, *(f"trace: {path}" for path in self.traces), *self.notes]
        return str(
            TEMPLATES.render(
                "profile.html",
                heading=self.heading,
                columns=self.columns,
                titles=COLUMNS,
                rows=self.sorted()[:SHOWN],
                remarks=remarks,
            )
        )

    def to_json(self) -> dict[str, Any]:
        """Values that JSON can represent: seconds and bytes."""
        return {
            "name": self.name,
            "place": self.place,
            "schedule": str(self.schedule) if self.schedule else None,
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
            "traces": [str(path) for path in self.traces],
            "notes": list(self.notes),
            "failure": self.failure,
            "table": [{part.name: getattr(row, part.name) for part in fields(row)} for row in self.sorted()],
        }


STEP = "ProfilerStep"


def rows_of(averages: Iterable[Iterable[Any]]) -> tuple[tuple[ProfileRow, ...], int]:
    """Rows and the number of steps in the profiler's averages (``key_averages()``), one list for each repetition.

    A named range with kernels has two entries, one of the host and one mirrored on the device, which are merged: the
    host's entry has the time of its operators' kernels, the mirror also that of kernels launched without an operator.
    """
    found: dict[str, ProfileRow] = {}
    mirrored: dict[str, float] = {}
    steps = 0
    for average in (item for cycle in averages for item in cycle):
        if average.key.startswith(STEP):
            steps += average.count if _on_host(average) else 0
            continue
        ranged = bool(getattr(average, "is_user_annotation", False))
        if ranged and not _on_host(average):
            mirrored[average.key] = mirrored.get(average.key, 0.0) + average.device_time_total * 1e-6
            continue
        before = found.get(average.key, ProfileRow(average.key, 0, 0.0, 0.0, 0.0, 0.0, 0, 0))
        found[average.key] = ProfileRow(
            average.key,
            before.calls + average.count,
            before.self_cpu + average.self_cpu_time_total * 1e-6,
            before.cpu + average.cpu_time_total * 1e-6,
            before.self_cuda + average.self_device_time_total * 1e-6,
            before.cuda + average.device_time_total * 1e-6,
            before.memory + average.self_cpu_memory_usage,
            before.cuda_memory + average.self_device_memory_usage,
            before.ranged or ranged,
        )
    rows = (replace(row, cuda=max(row.cuda, mirrored.get(row.name, 0.0))) for row in found.values())
    return tuple(rows), steps


def _on_host(average: Any) -> bool:
    return str(average.device_type).endswith("CPU")
