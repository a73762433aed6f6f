"""Run a kernel on the CPU: one program after the other, through Triton's semantic layer, with checked accesses."""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
import time
import traceback
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import triton.language as tl

from warpwise.cuda.errors import (
    ArgumentError,
    CompileError,
    Finding,
    Index3,
    KernelAssertion,
    KernelError,
    LaunchError,
)
from warpwise.cuda.launch.limits import check_launch, dimensions, target_profile
from warpwise.cuda.launch.order import current_order
from warpwise.triton import rewrite
from warpwise.triton.addresses import LiveTensors
from warpwise.triton.arguments import ArgumentConverter
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
from warpwise.triton.intrinsics import Intrinsics, language_overrides, scalar_item
from warpwise.triton.memory import Memory
from warpwise.triton.outputs import add_shadows, report_unwritten
from warpwise.triton.philox import philox_of_words
from warpwise.triton.programs import Programs
from warpwise.triton.races import AccessTracker
from warpwise.triton.sources import python_function
from warpwise.triton.special_values import SpecialValues

CHECKS = ("all", "bounds", "none")
_MISSING = object()
_UNBOUND = re.compile(r"variable '(\w+)'")
_LONG_ARRAY = re.compile(r"\[[^\[\]]{40,}\]")


class UnquotedText(str):
    """A string that a debugger shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


class Interpreter:
    """The interpreter of the process. It patches ``triton.language`` during a launch, so launches are serialised."""

    lock = threading.RLock()  # all interpreters patch the same modules
    is_gluon = False
    # Triton's front end and the kernel's own Python raise these for a kernel that does not compile.
    compile_errors: tuple[type[Exception], ...] = (
        ValueError,
        TypeError,
        LookupError,
        NameError,
        AttributeError,
        SyntaxError,
    )

    def __init__(self, builder: Builder | None = None, semantic: Any = None) -> None:
        self.builder = builder or Builder()
        self.semantic = semantic or TritonSemantic(self.builder)
        self.semantic._has_native_tma = lambda: True  # Triton asks the driver, which needs a GPU
        self.intrinsics = Intrinsics(self.semantic)
        self.sources = Sources()
        self._rewritten: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()
        self._depth = 0
        self._patch_list: list[Patch] = []
        self._patched_modules = 0

    def rewritten(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its rewritten body (cached)."""
        found = self._rewritten.get(function)
        if found is None:
            found = self._rewritten[function] = rewrite.rewrite_kernel(
                function, self.intrinsics, self.intrinsics.is_language_function
            )
            if not function.__module__.startswith("triton."):
                self.sources.add(found.__code__)
        return found

    def call(self, function: JITFunction, *args: Any, **kwargs: Any) -> Any:
        """Call a device function from a kernel."""
        kwargs.pop("_semantic", None)
        kwargs.pop("_generator", None)
        if function is tl.random.philox and not kwargs and (words := philox_of_words(*args)) is not None:
            return words
        result = self.rewritten(python_function(function))(*args, **kwargs)
        # A constant that a function returns is a tensor.
        return self.semantic.to_tensor(result) if type(result) in (bool, int, float) else result

    def debug_value(self, block: tl.tensor) -> Any:
        """Return what a debugger shows for a tensor: its values; for pointers, ``x_ptr + [0 1 2]``."""
        if not block.dtype.is_ptr():
            return values_of(block.handle)
        width = max(1, block.dtype.element_ty.primitive_bitwidth // 8)
        return UnquotedText(self.builder.memory.describe_pointer(block.handle.data, width))

    def _patches(self) -> list[Patch]:
        modules = len(language_modules())
        if modules != self._patched_modules:
            self._patch_list, self._patched_modules = self._make_patches(), modules
        return self._patch_list

    def _overrides(self) -> dict[str, Callable[..., Any]]:
        return language_overrides(self.semantic)

    def _make_patches(self) -> list[Patch]:
        found = patches(self.semantic, self._overrides())
        tensor = {
            "__index__": lambda block: int(self.intrinsics.defined_item(block)),
            "__int__": lambda block: int(self.intrinsics.defined_item(block)),
            "__float__": lambda block: float(self.intrinsics.defined_item(block)),
            # Triton's code tests if an optional tensor is given; a kernel's conditions use Intrinsics.scalar_condition.
            "__bool__": lambda block: block.handle.data.size != 1 or bool(scalar_item(block)),
            "__repr__": lambda block: repr(self.debug_value(block)),
            "__str__": lambda block: str(self.debug_value(block)),
            "__hash__": object.__hash__,
            "T": property(lambda block: tl.trans(block)),
        }
        found += [(tl.tensor, name, member) for name, member in tensor.items()]
        found += [(kind, "to_ir", lambda dtype, builder: dtype) for kind in (tl.dtype, tl.pointer_type, tl.block_type)]

        def call(function: JITFunction, *args: Any, **kwargs: Any) -> Any:
            return self.call(function, *args, **kwargs)

        for kind in (JITFunction, InterpretedFunction):
            found += [(kind, "__call__", call), (kind, "__get__", _method_of_aggregate)]
        return found

    @contextlib.contextmanager
    def interpreted_language(self) -> Iterator[None]:
        """Patch ``triton.language`` to compute in Python; restore it on exit."""
        with self.lock:
            # The code generator copies functions from triton.language on import: import it before patching.
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
        nan: bool = False,
        num_warps: int = 4,
    ) -> list[Finding]:
        """Run every program of the grid; raises the first finding, or returns all of them with ``collect``.

        ``nan``: also find where a NaN, an infinity or a denormal number arises. ``num_warps``: of a Gluon kernel.
        """
        name = function.__name__
        if checks not in CHECKS:
            raise ArgumentError(f"{name}: checks: expected one of {', '.join(CHECKS)}, got {checks!r}")
        with self.interpreted_language(), self._saved_state():
            dimensions = grid_of(name, grid, bound)
            recorder = Recorder(name, self.sources, collect)
            memory = Memory(recorder)
            values = ArgumentConverter(function, memory, self.semantic).convert(bound)
            tracker = AccessTracker(dimensions, recorder, 1 if self.is_gluon else num_warps)
            add_shadows(memory, tracker, checks)
            memory.real_pointers = LiveTensors(memory, tracker, checks).pointers
            self.builder.memory, self.builder.tracker, self.builder.recorder = memory, tracker, recorder
            self.builder.special = SpecialValues(recorder) if nan else None
            self.builder.num_warps = num_warps
            self.builder.options = types.SimpleNamespace(**{**vars(self.builder.options), "num_warps": num_warps})
            self.builder.finds_undefined = checks != "none"
            self.intrinsics.timeout, self.intrinsics.deadline = timeout, time.monotonic() + timeout
            self._run_programs(function, values, dimensions, tracker, recorder)
            if checks != "none":
                report_unwritten(memory, recorder)
            return recorder.findings

    @contextlib.contextmanager
    def _saved_state(self) -> Iterator[None]:
        """Save and restore the state of a launch: a debugger can launch a kernel while another one runs."""
        saved = [(owner, dict(vars(owner))) for owner in (self.builder, self.intrinsics)]
        try:
            yield
        finally:
            for owner, state in saved:
                vars(owner).update(state)

    def _run_programs(
        self, function: JITFunction, values: dict[str, Any], grid: Index3, tracker: AccessTracker, recorder: Recorder
    ) -> None:
        self.builder.set_grid_dim(*grid)

        def enter(number: int) -> None:
            program = (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))
            self.builder.set_grid_idx(*program)
            recorder.program, tracker.program = program, number
            tracker.phase += 1

        def run(number: int) -> None:
            enter(number)
            self.intrinsics.check_timeout()
            body(**values)

        count, reverse = grid[0] * grid[1] * grid[2], current_order() == "reverse"
        programs = Programs(count, run, enter, reverse)
        self.intrinsics.let_others_run = (lambda: None) if self.is_gluon else programs.let_others_run
        try:
            body = self.rewritten(python_function(function))
            self.intrinsics.kernel_code, self.intrinsics.branch_types = body.__code__, {}
            programs.run_all()
        except KernelError as error:
            if error.findings:
                raise error.with_traceback(self._trimmed_traceback(error)) from error.__cause__
            raise self._located_error(type(error), str(error), error, recorder).with_traceback(
                self._trimmed_traceback(error)
            ) from None
        except self.compile_errors as error:
            if not self._is_compile_error(error):
                raise
            raise self._located_error(CompileError, _message(error), error, recorder) from error
        except AssertionError as error:
            if self._is_compile_error(error) and not self._in_kernel(error):
                raise self._located_error(CompileError, _message(error), error, recorder) from error
            raise self._located_error(KernelAssertion, f"assertion failed: {error}", error, recorder) from error

    def _is_compile_error(self, error: BaseException) -> bool:
        """Return False for an error of the interpreter itself: its innermost frame is in this package."""
        if isinstance(error, SyntaxError):
            return True
        module = str(_innermost(error).f_globals.get("__name__", ""))
        return self._in_kernel(error) or module.partition(".")[0] == "triton"

    def _in_kernel(self, error: BaseException) -> bool:
        return _innermost(error).f_code in self.sources

    def _trimmed_traceback(self, error: BaseException) -> types.TracebackType | None:
        """Cut the traceback of ``error`` after the kernel's frame, so that a debugger opens there."""
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

    def _located_error(
        self, kind: type[KernelError], message: str, error: BaseException, recorder: Recorder
    ) -> KernelError:
        """Return an error of type ``kind`` with the kernel's line, taken from the traceback of ``error``."""
        site = ("", 0)
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code in self.sources:
                site = trace.tb_frame.f_code.co_filename, trace.tb_lineno
            trace = trace.tb_next
        access = recorder.access("executed", recorder.program, (), site)
        return Finding(kind, recorder.kernel, f"program {recorder.program}: {message}", access).error()


def _method_of_aggregate(function: JITFunction, instance: Any, owner: Any = None) -> Any:
    """``__get__`` of a device function: the compiler binds it to a value of a class of ``tl.core._aggregate``."""
    return types.MethodType(function, instance) if hasattr(type(instance), "__triton_aggregate__") else function


def _message(error: BaseException) -> str:
    """Return the text of ``error`` without long arrays, with its type if the text alone is a key or empty."""
    text, kind = _LONG_ARRAY.sub("[...]", str(error)), type(error).__name__
    if isinstance(error, NameError) and (unbound := _UNBOUND.search(text)):
        return (
            f"{unbound[1]} is not defined here: a variable exists after a loop or an if only if it is assigned before, "
            "or in both branches of the if"
        )
    return f"{kind}: {text}" if text and isinstance(error, KeyError) else text or kind


def _innermost(error: BaseException) -> types.FrameType:
    """Return the frame that raised ``error``."""
    return list(traceback.walk_tb(error.__traceback__))[-1][0]


def grid_of(name: str, grid: Any, bound: Mapping[str, Any]) -> Index3:
    """Return the grid as three sizes, checked against the device limits. A size of 0 launches no program."""
    sizes = dimensions(name, "grid", grid(dict(bound)) if callable(grid) else grid)
    check_launch(name, (max(sizes[0], 1), max(sizes[1], 1), max(sizes[2], 1)), (32, 1, 1), target_profile())
    if min(sizes) < 0:
        raise LaunchError(f"{name}: grid {sizes}: sizes must not be negative")
    return sizes


INTERPRETER = Interpreter()
