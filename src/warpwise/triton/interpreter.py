"""A kernel run on the CPU: one program after the other, through Triton's semantics, with every access checked."""

from __future__ import annotations

import contextlib
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import triton.language as tl

from warpwise.cuda.errors import (
    ArgumentError,
    CompileError,
    Finding,
    Index3,
    KernelAssertion,
    KernelError,
    KernelTimeout,
    LaunchError,
    UnwrittenOutput,
)
from warpwise.cuda.limits import check_launch, dimensions, target_profile
from warpwise.triton import reductions, rewrite
from warpwise.triton.arguments import Values
from warpwise.triton.builder import Builder, values_of
from warpwise.triton.compat import InterpretedFunction, JITFunction, Patch, TritonSemantic, bound_function, language_modules, patches
from warpwise.triton.findings import Recorder, Sources, index3
from warpwise.triton.memory import Memory, Slot
from warpwise.triton.races import Clock, Shadow

CHECKS = ("all", "bounds", "none")
_MISSING = object()


class Helper:
    """What a rewritten kernel body calls (see ``rewrite``)."""

    def __init__(self, semantic: TritonSemantic) -> None:
        self.semantic = semantic
        self.deadline = float("inf")
        self._bound: dict[Any, Callable[..., Any]] = {}
        self.timeout = 0.0

    def value(self, value: Any) -> Any:
        """Numbers as tensors; tensors and everything else as they are."""
        if isinstance(value, tl.tensor):
            return value
        if type(value) is tuple:
            return tuple(self.value(item) for item in value)
        return self.semantic.to_tensor(value, False)

    def is_language(self, value: Any) -> bool:
        return bound_function(value, self.semantic) is not None

    def bound(self, value: Any) -> Any:
        """A function of the language that the kernel's module imported by name."""
        if value not in self._bound:
            self._bound[value] = bound_function(value, self.semantic) or value
        return self._bound[value]

    def _condition(self, value: tl.tensor) -> tl.tensor:
        return value if value.type.scalar.is_int1() else value != 0

    def both(self, left: Any, right: Callable[[], Any]) -> Any:
        """``left and right``, element by element if a tensor is among them."""
        if not isinstance(left, tl.tensor):
            return left and right()
        other = right()
        if not isinstance(other, tl.tensor):
            return left if other else other
        return self._condition(left) & self._condition(other)

    def either(self, left: Any, right: Callable[[], Any]) -> Any:
        """``left or right``, element by element if a tensor is among them."""
        if not isinstance(left, tl.tensor):
            return left or right()
        other = right()
        if not isinstance(other, tl.tensor):
            return other or left
        return self._condition(left) | self._condition(other)

    def negated(self, value: Any) -> Any:
        """``not value``, element by element for a tensor."""
        return value == 0 if isinstance(value, tl.tensor) else not value

    def truth(self, value: Any) -> Any:
        """A condition of ``if`` or ``while``, which no block of several elements can be."""
        if isinstance(value, tl.tensor) and value.handle.data.size != 1:
            raise CompileError(
                f"a condition must be a scalar, got a block of shape {value.handle.data.shape}: use tl.where or a mask"
            )
        return bool(value) if isinstance(value, tl.tensor) else value

    def _fold(self, plain: Callable[..., Any], pair: Callable[[Any, Any], Any], values: tuple[Any, ...]) -> Any:
        if not any(isinstance(value, tl.tensor) for value in values):
            return plain(*[value.value if isinstance(value, tl.constexpr) else value for value in values])
        result = values[0]
        for value in values[1:]:
            result = pair(result, value)
        return result

    def max(self, *values: Any) -> Any:
        return self._fold(max, tl.maximum, values)

    def min(self, *values: Any) -> Any:
        return self._fold(min, tl.minimum, values)

    def tick(self) -> None:
        """Once per turn of a loop and per program: whether the time is up."""
        if time.monotonic() > self.deadline:
            raise KernelTimeout(f"still running after {self.timeout:g} s")


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
        self._runnable: dict[Callable[..., Any], Callable[..., Any]] = {}
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
        found = patches(self.semantic, language(self))
        tensor = {
            "__index__": lambda block: int(_only(block)),
            "__int__": lambda block: int(_only(block)),
            "__float__": lambda block: float(_only(block)),
            # Triton's own code asks whether an optional block is there; a kernel's conditions go through Helper.truth.
            "__bool__": lambda block: block.handle.data.size != 1 or bool(_only(block)),
            "__repr__": lambda block: repr(self.shown(block)),
            "__str__": lambda block: str(self.shown(block)),
            "__hash__": object.__hash__,
            "T": property(lambda block: tl.trans(block)),
        }
        found += [(tl.tensor, name, member) for name, member in tensor.items()]
        found += [(kind, "to_ir", lambda dtype, builder: dtype) for kind in (tl.dtype, tl.pointer_type, tl.block_type)]
        call = lambda function, *args, **kwargs: self.call(function, *args, **kwargs)  # noqa: E731
        found += [(kind, "__call__", call) for kind in (JITFunction, InterpretedFunction)]
        return found

    @contextlib.contextmanager
    def language(self) -> Iterator[None]:
        """``triton.language`` computes in Python inside, and is as it was afterwards."""
        with self.lock:
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
        with self.language():
            saved = self.builder.memory, self.builder.clock, self.builder.recorder, self.helper.deadline, self.helper.timeout
            saved_grid = self.builder.__dict__.get("grid_dim"), self.builder.__dict__.get("grid_idx")
            try:
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
            finally:
                self.builder.memory, self.builder.clock, self.builder.recorder = saved[:3]
                self.helper.deadline, self.helper.timeout = saved[3:]
                self.builder.grid_dim, self.builder.grid_idx = saved_grid

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
                raise error.with_traceback(self._trimmed(error))
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


def _only(block: tl.tensor) -> Any:
    """The value of a scalar; a block of several has none."""
    values = values_of(block.handle)
    if values.size != 1:
        raise ValueError(
            f"a block of shape {values.shape} has no single truth value or integer: use tl.where, a mask, or reduce it first"
        )
    return values.item()


def language(interpreter: Interpreter) -> dict[str, Callable[..., Any]]:
    """Functions of ``triton.language`` that are taken over whole."""

    def counted(first: Any, last: Any = None, step: Any = None, **hints: Any) -> range:
        start, stop = (0, first) if last is None else (first, last)
        return range(int(start), int(stop), 1 if step is None else int(step))

    def static_assert(condition: Any, message: Any = "", **ignored: Any) -> None:
        if not condition:
            raise AssertionError(f"tl.static_assert: {getattr(message, 'value', message)}")

    def hinted(value: Any, *hints: Any, **ignored: Any) -> Any:
        return value

    return {
        "range": counted,
        "static_range": counted,
        "static_assert": static_assert,
        "static_print": print,
        "multiple_of": hinted,
        "max_contiguous": hinted,
        "max_constancy": hinted,
        "reduce": reductions.reduce,
        "associative_scan": reductions.associative_scan,
    }


def grid_of(name: str, grid: Any, bound: Mapping[str, Any]) -> Index3:
    """The grid as three sizes, checked as a GPU checks them; a size of 0 launches nothing, as in Triton."""
    sizes = dimensions(name, "grid", grid(dict(bound)) if callable(grid) else grid)
    check_launch(name, (max(sizes[0], 1), max(sizes[1], 1), max(sizes[2], 1)), (32, 1, 1), target_profile())
    if min(sizes) < 0:
        raise LaunchError(f"{name}: grid {sizes}: a size may not be negative")
    return sizes


def add_shadows(memory: Memory, clock: Clock, checks: str) -> None:
    """One shadow for each stretch of memory that arguments share, and poison in the outputs."""
    if checks == "none":
        return
    slots = sorted((slot for slot in memory.slots.values() if slot.nbytes), key=lambda slot: slot.tensor.data_ptr())
    group: list[Slot] = []
    end = 0
    for slot in [*slots, None]:
        start = slot.tensor.data_ptr() if slot is not None else 0
        if group and (slot is None or start >= end):
            _share_shadow(group, end, clock, checks)
            group = []
        if slot is not None:
            end = max(end, start + slot.nbytes) if group else start + slot.nbytes
            group.append(slot)


def _share_shadow(group: list[Slot], end: int, clock: Clock, checks: str) -> None:
    start = group[0].tensor.data_ptr()
    granule = min(slot.tensor.element_size() for slot in group)
    while any((slot.tensor.data_ptr() - start) % granule for slot in group):
        granule //= 2
    outputs = [slot for slot in group if slot.output]
    if checks == "bounds" and not outputs:
        return
    shadow = Shadow(end - start, granule.bit_length() - 1, clock, checks == "all")
    for slot in group:
        slot.shadow, slot.origin = shadow, slot.tensor.data_ptr() - start
    for slot in outputs:
        shadow.track_writes()
        poison(slot.tensor)


def poison(tensor: torch.Tensor) -> None:
    """Set every byte of the elements to 0xff: NaN for floating-point types, -1 for integers."""
    same_size = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    tensor.detach().view(same_size).fill_(-1)


def report_unwritten(memory: Memory, recorder: Recorder) -> None:
    """Elements of outputs that no program wrote."""
    for slot in memory.slots.values():
        if not slot.output or slot.shadow is None or slot.shadow.written is None:
            continue
        width = slot.tensor.element_size() >> slot.shadow.shift
        first = slot.origin >> slot.shadow.shift
        flat = slot.shadow.written[first : first + slot.nbytes // slot.tensor.element_size() * width]
        elements = torch.from_numpy(flat.reshape(-1, width).all(axis=1))
        missing = ~torch.as_strided(elements, slot.tensor.shape, slot.tensor.stride())
        count = int(missing.sum())
        if count:
            position = tuple(int(value) for value in missing.nonzero()[0])
            where = ", ".join(str(value) for value in position)
            message = f"{count} of {missing.numel()} elements of the output {slot.name} were written by no program, the first is [{where}]"
            index = int(np.ravel_multi_index(position, missing.shape)) if position else 0
            recorder.put(
                Finding(
                    UnwrittenOutput, recorder.kernel, message, None, None, slot.name, "global", index, missing.numel(), count
                )
            )


INTERPRETER = Interpreter()
__all__ = ["INTERPRETER", "index3"]
