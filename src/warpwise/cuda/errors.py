"""Exceptions for errors in a kernel or its launch, and findings of the emulator, which locate them."""

from __future__ import annotations

import os
from dataclasses import dataclass

Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class Access:
    """One side of a finding: the thread that accessed the memory (or waited), the source line and the kind of access.

    ``what`` is "read", "write", "volatile read", "volatile write", "atomic", "asynchronous copy" or the name of a
    barrier. ``block`` and ``thread`` are indices (x, y, z). ``line`` counts from 1 in ``file``, 0 if it is unknown, and
    ``text`` is the line's text. ``origin`` is the line of a Python file that holds the source, such as "ops.py:40".
    """

    what: str
    block: Index3
    thread: Index3
    file: str = ""
    line: int = 0
    text: str = ""
    origin: str = ""

    def __str__(self) -> str:
        origin = f" ({self.origin})" if self.origin else ""
        where = f"\n    at {shown_path(self.file)}:{self.line}{origin}:  {self.text}" if self.line else ""
        return f"{self.what} by block {self.block} thread {self.thread}{where}"


def shown_path(file: str) -> str:
    """Return the path of ``file``, relative to the working directory if the file is inside it."""
    return file.removeprefix(os.path.join(os.getcwd(), ""))


@dataclass(frozen=True)
class Finding:
    """One defect found while a kernel ran on the CPU. ``str`` of it is the text that ``warpwise check`` prints.

    ``kind`` is the class of the exception, such as ``OutOfBounds``; ``message`` says what happened. ``access`` is the
    access that the finding is about. For a race, ``other`` is the conflicting access; for a barrier, another thread
    that waits. ``variable`` is the parameter or the shared variable, in the memory ``space`` ("global", "shared",
    "dynamic shared", "module" for a ``__device__`` variable, "local"). ``index`` is the element that was accessed, and
    ``size`` the number of elements. ``count`` is the number of occurrences, ``hint`` a likely cause or remedy.
    ``schedule`` gives the options of ``check`` under which the finding occurred, if several schedules ran.
    """

    kind: type[KernelError]
    kernel: str
    message: str
    access: Access | None = None
    other: Access | None = None
    variable: str = ""
    space: str = ""
    index: int | None = None
    size: int | None = None
    count: int = 1
    hint: str = ""
    schedule: str = ""

    def __str__(self) -> str:
        lines = [f"{self.kind.__name__}: {self.kernel}: {self.message}"]
        if self.access:
            lines.append(f"    {self.access}")
        if self.other:
            relation = {DataRace: "conflicts with", UninitializedRead: "is left undefined by"}
            lines.append(f"  {relation.get(self.kind, 'another thread')}\n    {self.other}")
        if self.count > 1 and self.access:
            lines.append(f"  ({self.count:,} such accesses)")
        if self.hint:
            lines.append(f"  {self.hint}")
        if self.schedule:
            lines.append(f"  schedule: {self.schedule}")
        return "\n".join(lines)

    def error(self) -> KernelError:
        """The exception that a plain call raises for this finding."""
        return self.kind(str(self).removeprefix(f"{self.kind.__name__}: "), (self,))


class KernelError(RuntimeError):
    """Base class of errors in a kernel or its launch; ``findings`` are the emulator's, in order of occurrence."""

    def __init__(self, message: str, findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(message)
        self.findings = findings

    @property
    def finding(self) -> Finding | None:
        return self.findings[0] if self.findings else None


class CompileError(KernelError):
    """The source does not compile; the message is the compiler's, with the line numbers of the user's file."""


class MissingTool(CompileError):
    """A program that compiles kernels is not installed; the message names the packages to install."""


class ArgumentError(KernelError, TypeError):
    """An argument does not fit the parameter that the kernel declares."""


class LaunchError(KernelError):
    """A grid, block or shared-memory size that the device cannot launch, or an error of the driver at a launch."""


class OutOfBounds(KernelError):
    """An access outside all buffers of the launch."""


class DataRace(KernelError):
    """Unordered accesses of two threads to one address, at least one of them a write."""


class UninitializedRead(KernelError):
    """A read of memory that no thread has written."""


class UnwrittenOutput(KernelError):
    """Elements of an argument marked with ``cuda.out`` that no thread wrote."""


class ReadOnlyWrite(KernelError):
    """A write through a pointer that the kernel declares const, or to ``__constant__`` memory."""


class MisalignedAccess(KernelError):
    """An access whose address is not a multiple of its width."""


class BarrierDivergence(KernelError):
    """A barrier or warp operation that not all of its threads reach, or that they reach at different source lines."""


class Deadlock(KernelError):
    """All live threads wait, and none can continue."""


class UndefinedBehaviour(KernelError):
    """C++ undefined behaviour: an array index past its type's bound, a division by zero, an undefined shuffle."""


class KernelAssertion(KernelError):
    """An ``assert`` in the kernel failed, or it called ``__trap()``."""


class SpecialValue(KernelError):
    """An operation whose result is NaN, infinite or denormal although none of its operands is.

    Only ``check(..., nan=True)`` reports it.
    """


class KernelTimeout(KernelError):
    """The kernel did not finish within the timeout."""


class UnsupportedFeature(KernelError):
    """A feature that does not run on a CPU, such as dynamic parallelism, or inline PTX in a Triton kernel."""
