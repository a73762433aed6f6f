"""The verdict on a rung, its failures and the result of each case."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from warpwise.cuda.errors import Finding
from warpwise.operation import Case

Status = Literal["right", "wrong", "untested"]
FailureKind = Literal["value", "unwritten", "guard", "input", "nondeterministic", "finding", "exception"]


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def number(value: float | bool | None) -> str:
    """The value as text; floats with nine digits, which identify a float32."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Failure:
    """A failure in one case.

    In result number ``output``, ``wrong`` of ``total`` elements are wrong, and ``index`` is the first of them.
    """

    kind: FailureKind
    message: str
    case: Case
    dtype: torch.dtype
    seed: int
    output: int = 0
    index: tuple[int, ...] | None = None
    expected: float | bool | None = None
    actual: float | bool | None = None
    tolerance: float | None = None
    wrong: int = 0
    total: int = 0
    findings: tuple[Finding, ...] = ()
    smaller: Failure | None = None

    def __str__(self) -> str:
        layout = "" if self.case.layout == "contiguous" else f", {self.case.layout}"
        lines = [f"{self.case}{layout}, {dtype_name(self.dtype)}, seed {self.seed}: {self.message}"]
        if self.smaller is not None:
            lines.append(f"  smallest failing case: {self.smaller.case}: {self.smaller.message}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain data, with NaN and infinity as text, since JSON cannot represent them."""
        return {
            "kind": self.kind,
            "message": self.message,
            "case": case_to_json(self.case),
            "dtype": dtype_name(self.dtype),
            "seed": self.seed,
            "output": self.output,
            "index": list(self.index) if self.index is not None else None,
            "expected": plain(self.expected),
            "actual": plain(self.actual),
            "tolerance": plain(self.tolerance),
            "wrong": self.wrong,
            "total": self.total,
            "findings": [str(finding) for finding in self.findings],
            "smaller": self.smaller.to_json() if self.smaller else None,
        }


@dataclass(frozen=True)
class CaseResult:
    """The result of one case and dtype: ``worst`` is the largest ratio of an error to its tolerance."""

    case: Case
    dtype: torch.dtype
    status: Status
    reason: str = ""
    worst: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """``right`` if each case that the rung supports passed, ``wrong`` if one failed, ``untested`` if it supports none.

    ``lost`` is true if the CUDA context was destroyed: nothing else can run on the GPU in this process.
    """

    op: str
    rung: str
    place: str
    status: Status
    cases: tuple[CaseResult, ...] = ()
    failures: tuple[Failure, ...] = ()
    seconds: float = 0.0
    lost: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def right(self) -> bool:
        return self.status == "right"

    @property
    def why_untested(self) -> str:
        """The reasons why cases were not tested."""
        return "; ".join(sorted({case.reason for case in self.cases if case.status == "untested"})) or "no case"

    @property
    def worst(self) -> float:
        """The largest ratio of an error to its tolerance in any case: at most 1 for a rung that is right."""
        return max((result.worst for result in self.cases), default=0.0)

    def __str__(self) -> str:
        return self._text(f": {self.status}")

    @property
    def details(self) -> str:
        """The text without the status, to follow it."""
        return self._text("")

    def _text(self, status: str) -> str:
        tested = [result for result in self.cases if result.status != "untested"]
        head = f"{self.op} {self.rung} on {self.place}{status}"
        if self.status == "untested":
            return f"{head}: {self.why_untested}"
        skipped = f", {len(self.cases) - len(tested)} skipped" if len(tested) < len(self.cases) else ""
        cases = "1 case" if len(tested) == 1 else f"{len(tested)} cases"
        lines = [f"{head} ({cases}{skipped}, {self.seconds:.1f} s)"]
        if self.failures:
            lines.append("  " + str(self.failures[0]).replace("\n", "\n  "))
        if others := [f"{failure.case.name} ({dtype_name(failure.dtype)})" for failure in self.failures[1:]]:
            lines.append(f"  fails as well: {', '.join(others)}")
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def to_json(self) -> dict[str, Any]:
        """Plain data, as written to a results file."""
        return {
            "status": self.status,
            "place": self.place,
            "seconds": round(self.seconds, 3),
            "worst": plain(self.worst),
            "cases": [
                {
                    **case_to_json(result.case),
                    "dtype": dtype_name(result.dtype),
                    "status": result.status,
                    "reason": result.reason,
                    "worst": plain(result.worst),
                }
                for result in self.cases
            ],
            "failures": [failure.to_json() for failure in self.failures],
            "notes": list(self.notes),
        }


def plain(value: Any) -> Any:
    """``value``, or its text if JSON cannot represent it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def case_to_json(case: Case) -> dict[str, Any]:
    """The case as plain data."""
    return {
        "name": case.name,
        "sizes": dict(case.sizes),
        "attributes": {key: str(value) for key, value in case.attributes.items()},
        "values": case.values,
        "layout": case.layout,
        "layouts": dict(case.layouts),
    }


@dataclass(frozen=True)
class Step:
    """A step of progress: ``stage`` of ``rung`` is at ``done`` of ``total``; ``detail`` is what it works on.

    ``result`` is a ``Verdict`` or a ``Point`` if the stage has just ended with one.
    """

    stage: Literal["impostors", "verify", "shrink", "reference", "gradient", "time"]
    rung: str
    detail: str
    done: int
    total: int
    result: object = None


Progress = Callable[[Step], None]


def silent(step: Step) -> None:
    """Ignore progress."""
