"""The first NaN, infinity and denormal number of an interpreted launch that reach memory: line, lane and operands.

Lanes that a mask excludes may compute anything, so an operation is a candidate until a store writes such a value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from warpwise.cuda.errors import Finding, SpecialValue
from warpwise.triton.findings import Recorder, Site

Array = np.ndarray[Any, np.dtype[Any]]
_MAX_CANDIDATES = 64  # of a program
_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/"}
_SMALLEST_NORMAL = {"fp16": 2.0**-14, "bf16": 2.0**-126, "fp32": 2.0**-126, "fp64": 2.0**-1022}


@dataclasses.dataclass(frozen=True)
class _Candidate:
    kind: str
    where: Array  # the lanes, a mask
    text: Callable[[tuple[int, ...]], str]
    site: Site


class SpecialValues:
    """Notes operations with results that are NaN, infinite or denormal while no operand explains it."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._candidates: list[_Candidate] = []
        self._program = recorder.program
        self._reported: set[str] = set()

    def note(self, name: str, operands: Sequence[Array], result: Array, dtype: str) -> None:
        """Note an elementwise operation; ``dtype`` is the scalar type of its result."""
        for kind, bad in self._arising(operands, result, dtype):

            def text(lane: tuple[int, ...]) -> str:
                values = [_number(np.broadcast_to(each, result.shape)[lane]) for each in operands]
                left = f" {_INFIX[name]} ".join(values) if name in _INFIX else f"{name}({', '.join(values)})"
                return f"{left} = {_number(result[lane])}"

            self._add(kind, bad, text)

    def note_reduction(self, name: str, data: Sequence[Array], result: Array, dtype: str) -> None:
        """Note a reduction, or a product of matrices: an operand explains its result wherever it is special."""
        if result.dtype.kind != "f":
            return
        result = np.atleast_1d(result)
        for kind, test in _tests(dtype):
            bad = test(result)
            if bad.any() and not any(_explains(kind, test, part).any() for part in data if part.dtype.kind == "f"):
                most = max((float(np.abs(part).max()) for part in data if part.size), default=0.0)
                self._add(
                    kind,
                    bad,
                    lambda lane, most=most: f"{name}(...) = {_number(result[lane])}, of up to {_number(most)}",
                )

    def stored(self, values: Array, mask: Array | None, dtype: str) -> None:
        """Report the origin of each kind of value that a store writes."""
        if values.dtype.kind != "f" or not self._candidates:
            return
        for kind, test in _tests(dtype):
            written = test(values) if mask is None else test(values) & mask
            if kind not in self._reported and written.any():
                wanted = ("an infinity", kind) if kind == "a NaN" else (kind,)
                for each in wanted:
                    self._report(each, np.atleast_1d(written))

    def _arising(self, operands: Sequence[Array], result: Array, dtype: str) -> list[tuple[str, Array]]:
        found = []
        for kind, test in _tests(dtype) if result.dtype.kind == "f" else ():
            bad = test(result)
            if not bad.any():
                continue
            for operand in operands:
                if operand.dtype.kind == "f":
                    bad = bad & ~np.broadcast_to(_explains(kind, test, operand), bad.shape)
            if bad.any():
                found.append((kind, bad))
        return found

    def _add(self, kind: str, where: Array, text: Callable[..., str]) -> None:
        if self.recorder.program != self._program:
            self._candidates.clear()
            self._program = self.recorder.program
        if kind not in self._reported and len(self._candidates) < _MAX_CANDIDATES:
            self._candidates.append(_Candidate(kind, np.atleast_1d(where), text, self.recorder.sources.site()))

    def _report(self, kind: str, written: Array) -> None:
        candidates = [each for each in self._candidates if each.kind == kind]
        if not candidates or kind in self._reported or self._program != self.recorder.program:
            return
        self._reported.add(kind)
        same = [each for each in candidates if each.where.shape == written.shape and (each.where & written).any()]
        chosen = (same or candidates)[0]
        lanes = chosen.where & written if same else chosen.where
        lane = tuple(int(place) for place in np.argwhere(lanes)[0])
        message = f"program {self.recorder.program}: {kind} arises: {chosen.text(lane)}"
        access = self.recorder.access("computed", self.recorder.program, lane, chosen.site)
        self.recorder.record(Finding(SpecialValue, self.recorder.kernel, message, access))


def _tests(dtype: str) -> list[tuple[str, Callable[[Array], Array]]]:
    smallest = _SMALLEST_NORMAL.get(dtype, 0.0)
    return [
        ("a NaN", np.isnan),
        ("an infinity", np.isinf),
        ("a denormal number", lambda values: (values != 0) & (np.abs(values) < smallest)),
    ]


def _explains(kind: str, test: Callable[[Array], Array], operand: Array) -> Array:
    explained: Array = ~np.isfinite(operand) if kind == "an infinity" else test(operand)
    return explained


def _number(value: Any) -> str:
    return f"{float(value):.9g}" if np.asarray(value).dtype.kind == "f" else str(value)
