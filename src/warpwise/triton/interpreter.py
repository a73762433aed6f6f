"""A kernel run on the CPU: one program after the other, through Triton's semantics, with every access checked."""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import triton.language as tl

from warpwise.cuda.errors import (
    ArgumentError,
    Finding,
    Index3,
    KernelAssertion,
    KernelError,
    LaunchError,
)
from warpwise.cuda.launch.limits import check_launch, dimensions, target_profile
from warpwise.triton import rewrite
from warpwise.triton.arguments import Values
from warpwise.triton.builder import Builder, values_of
from warpwise.triton.compat import (
    InterpretedFunction,
    JITFunction,
    Patch,
    TritonSemantic,
    language_modules,
    patches,
)
from warpwise.triton.findings import Recorder, Sources
from warpwise.triton.helper import Helper, language, only
from warpwise.triton.memory import Memory
from warpwise.triton.outputs import add_shadows, report_unwritten
from warpwise.triton.races import Clock

CHECKS = ("all", "bounds", "none")
_MISSING = object()


class Shown(str):
    """Text that stands for itself in a debugger, without quotes."""

    def __repr__(self) -> str:
        return str(self)


class Interpreter:
    """The one interpreter of a process: Triton's language can be set to compute in Python for one launch at a time."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.builder = Builder()
        self.semantic = TritonSemantic(self.builder)
        self.helper = Helper(self.semantic)
        self.sources = Sources()
        self._runnable: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()
        self._depth = 0
        self._patch_list: list[Patch] = []
        self._patched_modules = 0

    def runnable(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function's rewritten body; made once."""
        found = self._runnable.get(function)
        if found is None:
            found = self._runnable[function] = rewrite.runnable(function, self.helper, self.helper.is_language)
            if not function.__module__.startswith("triton.language"):
                self.sources.add(found.__code__)
        return found

    def call(self, function: JITFunction, *args: Any, **kwargs: Any) -> Any:
        """A device function called from a kernel."""
        kwargs.pop("_semantic", None)
        kwargs.pop("_generator", None)
        return self.runnable(function.fn)(*args, **kwargs)

    def shown(self, block: tl.tensor) -> Any:
        """A tensor as a debugger shows it: its values; a pointer by its tensor and element numbers, ``x_ptr + [0 1 2]``."""
        if not block.dtype.is_ptr():
            return values_of(block.handle)
        width = max(1, block.dtype.element_ty.primitive_bitwidth // 8)
        return Shown(self.builder.memory.described(block.handle.data, width))

    def _patches(self) -> list[Patch]:
        modules = len(language_modules())
        if modules != self._patched_modules:
            self._patch_list, self._patched_modules = self._make_patches(), modules
        return self._patch_list

    def _make_patches(self) -> list[Patch]:
        found = patches(self.semantic, language())
        tensor = {
            "__index__": lambda block: int(only(block)),
            "__int__": lambda block: int(only(block)),
            "__float__": lambda block: float(only(block)),
            # Triton's own code asks whether an optional block is there; a kernel's conditions go through Helper.truth.
            "__bool__": lambda block: block.handle.data.size != 1 or bool(only(block)),
            "__repr__": lambda block: repr(self.shown(block)),
            "__str__": lambda block: str(self.shown(block)),
            "__hash__": object.__hash__,
            "T": property(lambda block: tl.trans(block)),
        }
        found += [(tl.tensor, name, member) for name, member in tensor.items()]
        found += [(kind, "to_ir", lambda dtype, builder: dtype) for kind in (tl.dtype, tl.pointer_type, tl.block_type)]

        def call(function: JITFunction, *args: Any, **kwargs: Any) -> Any:
            return self.call(function, *args, **kwargs)

        found += [(kind, "__call__", call) for kind in (JITFunction, InterpretedFunction)]
        return found

    @contextlib.contextmanager
    def language(self) -> Iterator[None]:
        """``triton.language`` computes in Python inside, and is as it was afterwards."""
        with self.lock:
            # What Triton's compiler takes from the language when it is imported must be the language itself.
            importlib.import_module("triton.compiler.code_generator")
            undo: list[Patch] = []
            self._depth += 1
            try:
                if self._depth == 1:
                    for owner, name, value in self._patches():
                        undo.append((owner, name, vars(owner).get(name, _MISSING)))
                        setattr(owner, name, value)
                with np.errstate(all="ignore"):
                    yield
            finally:
                self._depth -= 1
                for owner, name, value in reversed(undo):
                    if value is _MISSING:
                        delattr(owner, name)
                    else:
                        setattr(owner, name, value)

    def launch(
        self,
        function: JITFunction,
        grid: Any,
        bound: Mapping[str, Any],
        *,
        timeout: float,
        checks: str,
        collect: bool,
    ) -> list[Finding]:
        """Run every program of the grid; raises the first finding, or returns all of them with ``collect``."""
        name = function.__name__
        if checks not in CHECKS:
            raise ArgumentError(f"{name}: checks: expected one of {', '.join(CHECKS)}, got {checks!r}")
        with self.language(), self._state_kept():
            dimensions = grid_of(name, grid, bound)
            recorder = Recorder(name, self.sources, collect)
            memory = Memory(recorder)
            values = Values(function, memory, self.semantic).of(bound)
            clock = Clock(dimensions, recorder)
            add_shadows(memory, clock, checks)
            self.builder.memory, self.builder.clock, self.builder.recorder = memory, clock, recorder
            self.helper.timeout, self.helper.deadline = timeout, time.monotonic() + timeout
            self._programs(function, values, dimensions, clock, recorder)
            if checks != "none":
                report_unwritten(memory, recorder)
            return recorder.findings

    @contextlib.contextmanager
    def _state_kept(self) -> Iterator[None]:
        """What belongs to one launch, put back after it: a debugger may launch a kernel in the middle of another."""
        saved = [(owner, dict(vars(owner))) for owner in (self.builder, self.helper)]
        try:
            yield
        finally:
            for owner, state in saved:
                vars(owner).update(state)

    def _programs(
        self, function: JITFunction, values: dict[str, Any], grid: Index3, clock: Clock, recorder: Recorder
    ) -> None:
        body = self.runnable(function.fn)
        self.builder.set_grid_dim(*grid)
        try:
            for z in range(grid[2]):
                for y in range(grid[1]):
                    for x in range(grid[0]):
                        self.builder.set_grid_idx(x, y, z)
                        recorder.program = (x, y, z)
                        self.helper.tick()
                        body(**values)
                        clock.program += 1
        except KernelError as error:
            if error.findings:
                raise error.with_traceback(self._trimmed(error)) from error.__cause__
            raise self._located(type(error), str(error), error, recorder).with_traceback(self._trimmed(error)) from None
        except AssertionError as error:
            raise self._located(KernelAssertion, f"assertion failed: {error}", error, recorder) from error

    def _trimmed(self, error: BaseException) -> types.TracebackType | None:
        """The traceback of ``error`` ending in the kernel's own line, where a debugger should open."""
        frames = []
        trace = error.__traceback__
        while trace is not None:
            frames.append(trace)
            trace = trace.tb_next
        own = [number for number, entry in enumerate(frames) if entry.tb_frame.f_code in self.sources]
        if not own:
            return error.__traceback__
        result: types.TracebackType | None = None
        for entry in reversed(frames[: own[-1] + 1]):
            result = types.TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        return result

    def _located(self, kind: type[KernelError], message: str, error: BaseException, recorder: Recorder) -> KernelError:
        """``kind`` with the kernel's line taken from the traceback of ``error``."""
        site = ("", 0)
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code in self.sources:
                site = trace.tb_frame.f_code.co_filename, trace.tb_lineno
            trace = trace.tb_next
        access = recorder.access("statement", recorder.program, (), site)
        return Finding(kind, recorder.kernel, f"program {recorder.program}: {message}", access).error()


def grid_of(name: str, grid: Any, bound: Mapping[str, Any]) -> Index3:
    """The grid as three sizes, checked as a GPU checks them; a size of 0 launches nothing, as in Triton."""
    sizes = dimensions(name, "grid", grid(dict(bound)) if callable(grid) else grid)
    check_launch(name, (max(sizes[0], 1), max(sizes[1], 1), max(sizes[2], 1)), (32, 1, 1), target_profile())
    if min(sizes) < 0:
        raise LaunchError(f"{name}: grid {sizes}: a size may not be negative")
    return sizes


INTERPRETER = Interpreter()
