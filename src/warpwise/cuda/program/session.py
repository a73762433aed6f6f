"""A program's run: its host code in this process, its kernels on the emulator."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from warpwise.cuda import errors
from warpwise.cuda.emulator import launcher
from warpwise.cuda.emulator.compiler import SEPARATE
from warpwise.cuda.emulator.constants import library_variables, mark_set
from warpwise.cuda.errors import CompileError, Finding, LaunchError, UnsupportedFeature
from warpwise.cuda.inline import native as inline
from warpwise.cuda.inline.device import build_instance, instance_name
from warpwise.cuda.launch import limits
from warpwise.cuda.launch.arguments import Buffer, Scalar
from warpwise.cuda.launch.module import Module
from warpwise.cuda.program import build, findings, native
from warpwise.cuda.program.findings import HostFinding
from warpwise.cuda.program.progress import Progress
from warpwise.cuda.source.signature import demangle

Report = Callable[["Finding | HostFinding | Exception"], None]
# Findings that do not end a launch.
_RECOVERABLE = (errors.DataRace, errors.UninitializedRead, errors.BarrierDivergence, errors.UnwrittenOutput)
_CODES = {
    errors.OutOfBounds: "address",
    errors.KernelAssertion: "assert",
    errors.MisalignedAccess: "misaligned",
}
REFUSED = 2
INTERRUPTED = 130


@dataclass(frozen=True)
class Emulation:
    """How kernels run: ``checks`` as in ``Launcher``, the timeout of a launch in seconds (0: none), the target."""

    checks: str = "all"
    timeout: float = 0.0
    target: str = "sm_90"


class Session:
    """One run of a program.

    ``report`` receives each finding once, while the program runs, and the exception of a kernel that cannot run.
    ``leaks``: memory that is never freed is a finding. ``notice`` receives the progress of launches that take long.
    """

    def __init__(
        self,
        library: Path,
        units: Sequence[build.Unit],
        options: build.Options,
        report: Report,
        emulation: Emulation,
        *,
        leaks: bool = False,
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        define = dict(_split(each) for each in options.define)
        if len(units) > 1:
            define[SEPARATE] = "1"
        self._modules = {
            unit.key: Module(
                unit.path.read_text("utf-8-sig", "replace"), str(unit.path), unit.folders, define, emulation.target
            )
            for unit in units
        }
        self._report, self._leaks, self._emulation = report, leaks, emulation
        self._profile = limits.target_profile(emulation.target)
        self._progress = Progress(notice)
        self._library = library
        self._symbols = findings.Symbols(library)
        self._seen: set[object] = set()
        self._count = 0
        self._libc = ctypes.CDLL(None)
        self._support = native.Support(build.support(), self._launched, self._problem, self._exited)

    def run(self, name: str, arguments: Sequence[str]) -> NoReturn:
        """Run ``main`` with these arguments. The process exits with its status, or with 1 if there are findings."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends host code at once; the emulator has its own handler
        sys.stdout.flush()
        try:
            program = ctypes.CDLL(str(self._library))
        except OSError as error:
            self._stop(CompileError(f"{name}: {_unresolved(str(error))}"), REFUSED)
        self._symbols.loaded()
        self._support.run(program, [name, *arguments])
        raise SystemExit(REFUSED)

    # ---- callbacks of the support library

    def _exited(self, status: int) -> int:
        if self._leaks:
            for leak in findings.leaks(self._support.live(), self._symbols):
                self._found(leak, leak)
        sys.stdout.flush()
        sys.stderr.flush()
        return status or (1 if self._count else 0)

    def _problem(self, problem: native.Problem) -> int:
        if problem.kind == native.UNSUPPORTED_MAP:
            where, _ = self._symbols.line(problem.at)
            self._stop(UnsupportedFeature(f"{where}: {problem.function.decode()}"), REFUSED)
        block = self._support.find(problem.address)
        found = findings.of_problem(problem, block, self._symbols)
        self._found(found, found)
        return 0

    def _launched(self, record: inline.LaunchRecord) -> int:
        """Run a launch. Errors are reported and become the error codes of the CUDA API."""
        try:
            if not self._support.failed():
                self._launch(record)
        except _HostTensorMap as error:
            self._found(error.finding, error.finding)
            self._support.set_error(native.ERRORS["address"], True)
        except LaunchError as error:
            self._found(error, str(error))
            self._support.set_error(native.ERRORS["configuration"], False)
        except (CompileError, UnsupportedFeature) as error:
            self._stop(error, REFUSED)
        except KeyboardInterrupt:
            self._stop(None, INTERRUPTED)
        except BaseException:  # noqa: BLE001 - it cannot pass through the program's C++ frames
            traceback.print_exc()
            self._stop(None, REFUSED)
        return 0

    def _launch(self, record: inline.LaunchRecord) -> None:
        module = self._modules[record.extension.decode()]
        name = instance_name(record.instance)
        line = f"{module.file}:{record.line}" if record.line else ""
        where = f"{name} (launched at {line})" if line else name
        if "{lambda(" in name:
            short = name.partition("<")[0]
            raise UnsupportedFeature(
                f"{line or module.file}: kernel {short} has a lambda of host code as template argument, "
                "which has no CPU version: pass a function object"
            )
        kernel = module[name]
        grid, block = tuple(record.grid), tuple(record.block)
        bounds = kernel.declaration.launch_bounds if kernel.declaration else None
        limits.check_launch(where, grid, block, self._profile, bounds)
        limits.check_shared(where, 0, record.shared_bytes, self._profile)
        if record.shared_bytes > max(self._profile.shared_per_block, record.shared_limit):
            raise LaunchError(
                f"{where}: {record.shared_bytes:,} bytes of dynamic shared memory; more than "
                f"{self._profile.shared_per_block:,} require cudaFuncSetAttribute(kernel, "
                "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) before the launch"
            )
        cluster = tuple(record.cluster)
        limits.check_cluster(where, grid, cluster)
        arguments = [self._bound(name, line, record.arguments[i], i) for i in range(record.count)]
        built = build_instance(module, record.instance, checked=self._emulation.checks != "none")
        copies = library_variables(built.library)
        known = inline.symbols(record.extension.decode())
        variables = [(symbol, copies[found]) for found, symbol in known.items() if found in copies]
        for symbol, (address, size) in variables:
            ctypes.memmove(address, symbol.data, size)
            if symbol.constant and inline.is_set(symbol):
                mark_set(built.library, address)
        self._libc.fflush(None)
        options = launcher.Options(timeout=self._emulation.timeout, checks=self._emulation.checks, cluster=cluster)
        self._progress.began(where)
        try:
            found = launcher.launch(built, grid, block, record.shared_bytes, arguments, options, self._profile)
        finally:
            self._progress.ended()
        sys.stdout.flush()
        for symbol, (address, size) in variables:
            if not symbol.constant:
                ctypes.memmove(symbol.data, address, size)
        self._support.launched()
        for each in found:
            self._found(findings.with_block(each, self._support.find, self._symbols), _same(each))
            if not issubclass(each.kind, _RECOVERABLE):
                self._support.set_error(native.ERRORS[_CODES.get(each.kind, "launch")], True)

    def _bound(self, kernel: str, line: str, argument: inline.Argument, position: int) -> Buffer | Scalar:
        """A pointer to the program's memory as a buffer up to the end of its block; any other argument as it is."""
        name = argument.name.decode() if argument.name else f"#{position}"
        data = ctypes.string_at(argument.data, argument.bytes)
        address = int.from_bytes(data, "little") if argument.kind == 1 else 0
        block = self._support.find(address) if address else None
        if block is None:
            if address and inline.type_name(argument.element) == "CUtensorMap_st":
                raise _HostTensorMap(findings.host_tensor_map(kernel, name, line))
            return Scalar(name, data)
        if not block.live:
            stale = findings.used_after_free(kernel, name, block, self._symbols, line)
            self._found(stale, stale)
        size = max(0, block.address + block.bytes - address)
        if not block.live or not size:
            return Scalar(name, data)
        element = inline.type_name(argument.element)
        const = bool(argument.pointee_const)
        return Buffer(name, address, size, argument.element_bytes, element, const, False, address, True)

    # ---- reports

    def _found(self, found: Finding | HostFinding | Exception, same: object) -> None:
        self._count += 1
        if same in self._seen:
            return
        self._seen.add(same)
        self._libc.fflush(None)
        self._report(found)

    def _stop(self, error: Exception | None, status: int) -> None:
        self._libc.fflush(None)
        if error is not None:
            self._report(error)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class _HostTensorMap(Exception):
    """A kernel cannot run: an argument points to a tensor map in host memory."""

    def __init__(self, finding: HostFinding) -> None:
        super().__init__(str(finding))
        self.finding = finding


def _unresolved(error: str) -> str:
    """Describe an error of ``dlopen``, with the C++ name of an undefined symbol."""
    missing = error.partition(": ")[2] or error
    text, _, symbol = missing.rpartition(": ")
    with contextlib.suppress(ValueError, OSError):  # a C function, or no libstdc++
        missing = f"{text}: {demangle(symbol)}"
    return f"{missing} in the host code; name the other .cu files of the program, or pass a library by -X -lNAME"


def _same(found: Finding) -> object:
    """Findings of one kernel, kind and line are reported once."""
    return found.kind, found.kernel, found.variable, found.access and (found.access.file, found.access.line)


def _split(define: str) -> tuple[str, str]:
    name, _, value = define.partition("=")
    return name, value or "1"
