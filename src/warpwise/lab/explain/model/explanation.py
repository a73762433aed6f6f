"""The result of ``explain``: counters, source lines, occupancy, prediction and hints of one launch."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from warpwise.lab.display import render

if TYPE_CHECKING:
    from warpwise.lab.explain.hints import Hint
    from warpwise.lab.explain.model.occupancy import Occupancy
    from warpwise.lab.explain.model.time_model import Prediction
    from warpwise.machine.counts import Counts
    from warpwise.machine.grading import InstructionFidelity

Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class Resources:
    """Resources of a kernel: registers per thread; shared memory per block, and stack and spills per thread, in
    bytes.
    """

    registers: int
    static_shared: int = 0
    dynamic_shared: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    instructions: int = 0

    @property
    def shared(self) -> int:
        """Static and dynamic shared memory of a block, in bytes."""
        return self.static_shared + self.dynamic_shared


@dataclass(frozen=True)
class Line:
    """One source line with machine code. ``metrics`` are under ncu's names.

    ``counters`` are those that the renderings show: warp instructions ``executed``, ``stall_cycles`` of a warp alone on
    its SM, requests, sectors and wavefronts by memory space, with their ideal values. ``instructions`` are indices into
    the program.
    """

    file: str
    number: int
    text: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    instructions: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.number}"


@dataclass(frozen=True)
class Agreement:
    """The comparison of the machine code's outputs with those of the checked run.

    ``status`` is "yes" if they are equal; ``text`` gives the first difference, or the reason for not comparing.
    """

    status: Literal["yes", "no", "not compared"]
    text: str

    def __bool__(self) -> bool:
        return self.status == "yes"


@dataclass(frozen=True)
class TritonAccess:
    """One `tl.load` or `tl.store` in Triton's interpreter, summed over all programs.

    ``sectors`` are counted for warps of 32 lanes with ``vector`` bytes per lane, inferred from the addresses.
    """

    file: str
    line: int
    what: str
    tensor: str
    bytes: int
    requests: int
    sectors: int
    ideal_sectors: int
    vector: int
    lanes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """The explanation of a launch's time, from its machine code executed on the launch's arguments.

    ``metrics`` are totals under Nsight Compute's names, ``lines`` the same by source line. ``occupancy`` is that of the
    target, ``occupancies`` that of every device profile by name. ``prediction`` has the seconds of each unit, the
    ``limiter`` and the ``time``; it is None if the machine code was not executed, and ``unsupported`` gives the reason.
    ``caveats`` are limits of the counters. ``sources`` holds the text of the files that ``lines`` refer to, by line;
    ``file`` is the one that declares the kernel. ``origin`` is the place of line 1 in the Python file that holds the
    source, such as "ops.py:40". ``fidelity`` lists the executed instructions as exact, approximate or unsupported.
    """

    kernel: str
    target: str
    grid: Index3
    block: Index3
    resources: Resources
    metrics: Mapping[str, float] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()
    occupancy: Occupancy | None = None
    occupancies: Mapping[str, Occupancy] = field(default_factory=dict)
    prediction: Prediction | None = None
    hints: tuple[Hint, ...] = ()
    agrees: Agreement = Agreement("not compared", "nothing was run")
    caveats: tuple[str, ...] = ()
    counts: Counts | None = None
    accesses: tuple[TritonAccess, ...] = ()
    unsupported: str = ""
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    seconds: Mapping[str, float] = field(default_factory=dict)
    file: str = ""
    origin: str = ""
    fidelity: tuple[InstructionFidelity, ...] = ()

    @property
    def sampled(self) -> str:
        """ "64 of 4,096 blocks" if only a sample of the grid was executed, else ""."""
        counts = self.counts
        return f"{counts.blocks_run:,} of {counts.blocks:,} blocks" if counts is not None and counts.sampled else ""

    @cached_property
    def worst(self) -> Line | None:
        """The line with the most sectors and wavefronts beyond the ideal, else the most stall cycles."""
        return max(self.lines, key=_waste, default=None)

    def line(self, number: int, file: str = "") -> Line:
        """Line ``number`` of the kernel's file, or of ``file``, whose last path component suffices.

        Raises ``LookupError`` if there is no machine code for it.
        """
        own = file or (self.main_file or "")
        found = [line for line in self.lines if line.number == number]
        for line in found:
            if line.file == own or Path(line.file).name == Path(own).name:
                return line
        if found and not file:
            return found[0]
        there = ", ".join(str(line.number) for line in self.lines if line.file == self.main_file)
        raise LookupError(f"{self.kernel}: no machine code for line {number}; there is for lines {there or '(none)'}")

    def has_line(self, number: int | None) -> bool:
        """True if there is machine code for line ``number`` of any file."""
        return any(line.number == number for line in self.lines)

    @cached_property
    def main_file(self) -> str | None:
        """The file that declares the kernel, or the one with the most machine code if that file has no lines."""
        if any(line.file == self.file for line in self.lines):
            return self.file
        sizes: dict[str, int] = {}
        for line in self.lines:
            sizes[line.file] = sizes.get(line.file, 0) + len(line.instructions)
        return max(sizes, key=lambda name: sizes[name]) if sizes else None

    def to_dict(self) -> dict[str, Any]:
        """Everything but the program, the outputs and the sources, as values that JSON can represent."""
        left_out = {"counts", "sources", "agrees"}
        made = {
            item.name: _plain(getattr(self, item.name))
            for item in dataclasses.fields(self)
            if item.name not in left_out
        }
        counts = self.counts
        if counts is not None:
            names = ("blocks", "blocks_run", "warps", "warp_cycles", "mean_warp_cycles", "barriers", "l2_misses")
            made["run"] = {name: _plain(getattr(counts, name)) for name in names}
            made["run"]["sectors_read"], made["run"]["sectors_written"] = counts.sectors_read, counts.sectors_written
        made["agrees"] = {"status": self.agrees.status, "text": self.agrees.text}
        made["sampled"] = self.sampled
        return made

    def to_json(self, indent: int | None = 1) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    def html(self, line: int | None = None, page: bool = False) -> str:
        """HTML: a fragment, or with ``page`` a whole document; ``line`` is the line whose requests are opened."""
        made: str = render(self, "html", line, page)
        return made

    def text(self, width: int = 100, line: int | None = None, all_lines: bool = False) -> str:
        """Plain text of at most ``width`` columns."""
        made: str = render(self, "text", width, line, all_lines)
        return made

    def __str__(self) -> str:
        return self.text()

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        """Rows for rich, as wide as its console."""
        yield from render(self, "rich", console, options.max_width)

    def _repr_html_(self) -> str:
        return self.html()


class Explanations(tuple[Explanation, ...]):
    """The launches of one call, in order: a rung may launch several kernels."""

    @property
    def time(self) -> float:
        """Predicted seconds of all launches together."""
        return sum(one.prediction.time for one in self if one.prediction is not None)

    def __str__(self) -> str:
        return "\n\n".join(str(one) for one in self)

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield from self

    def _repr_html_(self) -> str:
        return "".join(one.html() for one in self)

    def to_dict(self) -> list[dict[str, Any]]:
        """Each launch's ``to_dict``."""
        return [one.to_dict() for one in self]


def _waste(line: Line) -> tuple[float, float, float]:
    """Sectors and wavefronts beyond the least needed, then all of them, then cycles spent waiting."""
    get = line.counters.get
    # A sector and a wavefront each take their stage one clock.
    extra = get("sectors", 0) - get("ideal_sectors", 0) + get("wavefronts", 0) - get("ideal_wavefronts", 0)
    traffic = get("sectors", 0) + get("wavefronts", 0) + get("local_sectors", 0)
    return max(extra, 0), traffic, get("stall_cycles", 0)


def _plain(value: Any) -> Any:
    """``value`` as dicts, lists, numbers and strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
