"""Findings: errors in an interpreted kernel, with program and source line; raised at once or collected."""

from __future__ import annotations

import dataclasses
import linecache
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from warpwise.cuda.errors import Access, Finding, Index3, KernelError, SpecialValue

Site = tuple[str, int]
_UNKNOWN: Site = ("", 0)
MAX_FINDINGS = 64


class Sources:
    """Code objects of interpreted kernels; they identify the stack frames of user code."""

    def __init__(self) -> None:
        self._codes: set[types.CodeType] = set()

    def add(self, code: types.CodeType) -> None:
        """Register ``code`` and the lambdas inside it."""
        self._codes.add(code)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.add(constant)

    def __contains__(self, code: types.CodeType) -> bool:
        return code in self._codes

    def site(self) -> Site:
        """Return the file and line of the innermost kernel statement on the call stack."""
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code in self._codes:
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back
        return _UNKNOWN


def index3(position: Iterable[int]) -> Index3:
    """Return the first three coordinates, padded with zeros."""
    values = [int(value) for value in position]
    return (*values[:3], *(0 for _ in range(3 - len(values))))  # type: ignore[return-value]


class Recorder:
    """Findings of one launch. Findings of the same kind, tensor and line are merged and their counts added."""

    def __init__(self, kernel: str, sources: Sources, collect: bool) -> None:
        self.kernel = kernel
        self.sources = sources
        self.collect = collect
        self.program: Index3 = (0, 0, 0)
        self.block_pointer_loads: set[Site] = set()  # that leave lanes undefined
        self._found: dict[tuple[Any, ...], Finding] = {}

    @property
    def findings(self) -> list[Finding]:
        return list(self._found.values())

    def access(self, what: str, program: Index3, lane: Iterable[int], site: Site) -> Access:
        """Return one access of a finding; ``lane`` is the element's index within the block."""
        file, line = site
        return Access(what, program, index3(lane), file, line, linecache.getline(file, line).strip())

    def add(
        self,
        kind: type[KernelError],
        message: str,
        what: str,
        lane: np.ndarray[Any, np.dtype[Any]] | Iterable[int] = (),
        *,
        other: Access | None = None,
        variable: str = "",
        index: int | None = None,
        size: int | None = None,
        count: int = 1,
        hint: str = "",
        space: str = "global",
    ) -> None:
        """Record a finding at the current statement; raise it unless findings are collected."""
        site = self.sources.site()
        message = f"program {self.program}: {message}"
        access = self.access(what, self.program, lane, site)
        self.record(Finding(kind, self.kernel, message, access, other, variable, space, index, size, count, hint))

    def record(self, finding: Finding) -> None:
        """Record ``finding``; raise it unless findings are collected."""
        if not self.collect:
            raise finding.error()
        where = (finding.access.file, finding.access.line) if finding.access else _UNKNOWN
        key = (finding.kind, finding.variable, where, finding.message if finding.kind is SpecialValue else "")
        known = self._found.get(key)
        if known is not None:
            self._found[key] = dataclasses.replace(known, count=known.count + finding.count)
        elif len(self._found) < MAX_FINDINGS:
            self._found[key] = finding
