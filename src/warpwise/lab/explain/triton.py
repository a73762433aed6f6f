"""Explain a Triton launch: accesses counted by the interpreter, and the compiled machine code executed."""

from __future__ import annotations

import contextlib
import inspect
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from warpwise.cuda import ctype
from warpwise.cuda.errors import UnsupportedFeature
from warpwise.cuda.launch import copies
from warpwise.cuda.launch.arguments import Buffer, Scalar
from warpwise.cuda.launch.extents import extent_bytes
from warpwise.cuda.launch.limits import target_profile
from warpwise.lab.explain import outputs
from warpwise.lab.explain.execution import ATOMICS, MachineRun, assembled, execute, timed
from warpwise.lab.explain.hints import in_triton
from warpwise.lab.explain.model.explanation import Agreement, Explanation, Resources
from warpwise.lab.explain.options import Options
from warpwise.lab.explain.triton_accesses import Accesses

if TYPE_CHECKING:
    from warpwise.machine.program import Program
    from warpwise.triton.compiler import CompiledKernel
    from warpwise.triton.kernel import BoundKernel

_WARP = 32
_FORMATS = {
    "i1": "<B", "u1": "<B", "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q",
    "u64": "<Q",
    "fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d",
}  # fmt: skip
_INFERRED = (
    "Sectors of loads and stores from the interpreter assume that the 32 lanes of a warp access neighbouring elements, "
    "with the widest vectors that the addresses allow; the compiled kernel's layout may differ."
)


def explain_triton(launch: BoundKernel, args: tuple[Any, ...], meta: dict[str, Any], options: Options) -> Explanation:
    """``explain_launch`` for a kernel of ``warpwise.triton`` with its grid; ``meta`` are the keyword arguments."""
    return _Triton(launch, args, meta, options).explanation()


class _Triton:
    """Explain one launch of a Triton kernel."""

    def __init__(self, launch: BoundKernel, args: tuple[Any, ...], meta: dict[str, Any], options: Options) -> None:
        from warpwise.triton.arguments import bind

        self.launch, self.options = launch, options
        self.profile = target_profile(options.target)
        self.original = args, meta
        moved = copies.to_cpu((*args, *meta.values()))
        self.on_gpu = any(isinstance(value, torch.Tensor) and value.is_cuda for value in (*args, *meta.values()))
        self.args, self.meta = moved[: len(args)], dict(zip(meta, moved[len(args) :], strict=True))
        self.function = launch.kernel.jit_function
        configured, given, _ = launch.kernel.apply_config(self.args, dict(self.meta))
        self.bound = bind(self.function, configured, given)
        self.accesses = Accesses()
        self.seconds: dict[str, float] = {}

    def explanation(self) -> Explanation:
        options, checked = self.options, self.options.checks != "none"
        buffers = {name: _buffer(name, value) for name, value in self.bound.items() if _tensor(value) is not None}
        before = outputs.ArgumentSnapshot(list(buffers.values())) if checked else None
        try:
            if checked:
                timed(self.seconds, "checked run", self._check)
            after = outputs.ArgumentSnapshot(list(buffers.values())) if checked else None
            compiled = timed(self.seconds, "compilation", self._compile)
            program = timed(self.seconds, "disassembly", lambda: _load(compiled))
            grid, block = self._grid(), (_WARP * compiled.num_warps, 1, 1)
            run = self._run(compiled, program, grid, block, buffers, before)
        finally:
            if before is not None and not options.keep:
                before.put_back()
        if run.counts is not None:
            self.seconds["execution"] = run.counts.seconds
            if before is not None and after is not None:
                adds = any(instruction.opcode in ATOMICS for instruction in program.instructions)
                run.agrees = outputs.agreement(
                    list(buffers.values()),
                    before,
                    after,
                    run.counts.outputs,
                    run.counts.sampled,
                    adds,
                    program.uses_tf32,
                )
        if self.on_gpu and options.keep:
            self.launch(*self.original[0], **self.original[1])
        resources = Resources(
            compiled.registers, 0, compiled.shared, compiled.spills, instructions=len(program.instructions)
        )
        file = inspect.getsourcefile(self.function.fn) or ""
        made = assembled(
            self.function.__name__,
            self.profile,
            grid,
            block,
            resources,
            program,
            run,
            file,
            _text(file),
            options,
            self.seconds,
        )
        seen = self.accesses.found()
        return replace(
            made,
            hints=tuple(map(in_triton, made.hints)),
            accesses=seen,
            caveats=(*made.caveats, *((_INFERRED,) if seen else ())),
        )

    def _check(self) -> None:
        """The checked run, with its accesses counted."""
        with self.accesses.watching():
            findings = self.launch.check(
                *self.args, timeout=self.options.timeout, checks=self.options.checks, **self.meta
            )
        if findings:
            raise findings[0].error()

    def _compile(self) -> CompiledKernel:
        made: CompiledKernel = self.launch.kernel.compile_for(*self.args, target=self.profile.name, **self.meta)
        return made

    def _grid(self) -> tuple[int, int, int]:
        from warpwise.triton.interpreter import INTERPRETER, grid_of

        with INTERPRETER.interpreted_language():
            return grid_of(self.function.__name__, self.launch.grid, self.bound)

    def _run(
        self,
        compiled: CompiledKernel,
        program: Program,
        grid: Any,
        block: Any,
        buffers: Mapping[str, Buffer],
        before: outputs.ArgumentSnapshot | None,
    ) -> MachineRun:
        """Execute the compiled kernel. If it is not supported, the result holds the reason instead of counters."""
        try:
            packed = _packed(compiled, program, self.bound, buffers)
        except UnsupportedFeature as error:
            return MachineRun(
                unsupported=str(error), agrees=Agreement("not compared", "the machine code was not executed")
            )
        given = before.rebased(packed) if before is not None else packed
        return execute(program, grid, block, compiled.shared, given, {}, self.options, None)


def _load(compiled: CompiledKernel) -> Program:
    from warpwise import machine

    return replace(machine.load_program(compiled.cubin, compiled.name), spill_stores=compiled.spills)


def _tensor(value: Any) -> torch.Tensor | None:
    from warpwise.triton.arguments import unwrap

    value = unwrap(value)
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    return value if isinstance(value, torch.Tensor) else None


def _buffer(name: str, value: Any) -> Buffer:
    """A tensor argument as a machine buffer."""
    from warpwise.triton.arguments import is_output

    tensor = _tensor(value)
    assert tensor is not None
    size = extent_bytes(tensor)
    address = tensor.data_ptr() if size else 0
    storage = tensor.untyped_storage().data_ptr() if size else 0
    output = is_output(value)
    return Buffer(name, address, size, tensor.element_size(), _element(tensor.dtype), False, output, storage, True)


def _element(dtype: torch.dtype) -> str:
    try:
        return ctype(dtype)
    except (KeyError, TypeError, ValueError):
        return str(dtype)


def _packed(
    compiled: CompiledKernel, program: Program, bound: Mapping[str, Any], buffers: Mapping[str, Buffer]
) -> list[Buffer | Scalar]:
    """The compiled kernel's parameters in order: the arguments that are not constexpr, then unused scratch memory."""
    from warpwise.triton.arguments import unwrap

    made: list[Buffer | Scalar] = []
    for name, kind in compiled.signature.items():
        if kind == "constexpr":
            continue
        if name in buffers:
            made.append(buffers[name])
        elif isinstance(kind, str) and kind in _FORMATS:
            made.append(Scalar(name, struct.pack(_FORMATS[kind], unwrap(bound[name]))))
        else:
            raise UnsupportedFeature(
                f"{compiled.name}: {name} is a {kind}, which is not supported as an argument of executed machine code"
            )
    scratch = len(program.parameters) - len(made)
    if scratch < 0:
        raise UnsupportedFeature(
            f"{compiled.name}: the machine code takes {len(program.parameters)} parameters, got {len(made)}"
        )
    return [*made, *(Scalar(f"scratch{number}", bytes(size)) for number, (_, size) in _last(program, scratch))]


def _last(program: Program, count: int) -> Iterator[tuple[int, tuple[int, int]]]:
    return enumerate(program.parameters[len(program.parameters) - count :])


def _text(file: str) -> str:
    with contextlib.suppress(OSError):
        return Path(file).read_text("utf-8")
    return ""
