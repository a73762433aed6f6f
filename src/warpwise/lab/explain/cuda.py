"""Explain a launch of a CUDA C++ kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from warpwise.cuda import Launcher
from warpwise.cuda.gpu import nvrtc
from warpwise.cuda.launch import copies, limits
from warpwise.cuda.launch.arguments import Binder, device_of
from warpwise.cuda.launch.module import Kernel
from warpwise.cuda.launch.origin import annotating
from warpwise.lab.explain import outputs
from warpwise.lab.explain.execution import ATOMICS, assembled, execute, timed
from warpwise.lab.explain.model.explanation import Explanation, Resources
from warpwise.lab.explain.options import Options

if TYPE_CHECKING:
    from warpwise.machine.program import Program


def explain_cuda(launcher: Launcher, args: tuple[Any, ...], options: Options) -> Explanation:
    """``explain_launch`` for a kernel of ``warpwise.cuda`` with its grid and block."""
    return _Cuda(launcher, args, options).explanation()


class _Cuda:
    """Explain one launch of a CUDA kernel."""

    def __init__(self, launcher: Launcher, args: tuple[Any, ...], options: Options) -> None:
        self.launcher, self.kernel, self.options = launcher, launcher.kernel, options
        self.profile = limits.target_profile(options.target or self.kernel.module.target)
        self.seconds: dict[str, float] = {}
        device = device_of(args, self.kernel.expression)
        self.original = args
        self.on_gpu = device is not None and device.type == "cuda"
        self.args = copies.to_cpu(args) if self.on_gpu else args

    def explanation(self) -> Explanation:
        launcher, kernel, checked = self.launcher, self.kernel, self.options.checks != "none"
        bounds = kernel.declaration.launch_bounds if kernel.declaration else None
        limits.check_launch(kernel.expression, launcher.grid, launcher.block, self.profile, bounds)
        arguments = kernel.binder(kernel.build()).cpu(self.args) if checked else None
        before = outputs.ArgumentSnapshot(arguments) if arguments is not None else None
        try:
            if checked:
                timed(self.seconds, "checked run", self._check)
            after = outputs.ArgumentSnapshot(arguments) if arguments is not None else None
            compiled = timed(self.seconds, "compilation", self._compile)
            limits.check_shared(kernel.expression, compiled.shared, launcher.shared_bytes, self.profile)
            program = timed(self.seconds, "disassembly", lambda: _load(compiled))
            if arguments is None:
                arguments = _binder(kernel, compiled, program).cpu(self.args)
            given = before.rebased(arguments) if before is not None else arguments
            constants = {compiled.constants[name]: data for name, data in kernel.module.constants.values.items()}
            run = execute(
                program,
                launcher.grid,
                launcher.block,
                launcher.shared_bytes,
                given,
                constants,
                self.options,
                self.seconds.get("checked run"),
            )
        finally:
            if before is not None and not self.options.keep:
                before.put_back()
        if run.counts is not None:
            self.seconds["execution"] = run.counts.seconds
            if before is not None and after is not None and arguments is not None:
                adds = any(instruction.opcode in ATOMICS for instruction in program.instructions)
                run.agrees = outputs.agreement(
                    arguments, before, after, run.counts.outputs, run.counts.sampled, adds, program.uses_tf32
                )
        if self.on_gpu and self.options.keep:
            launcher(*self.original)
        resources = Resources(
            compiled.registers,
            compiled.shared,
            launcher.shared_bytes,
            compiled.stack,
            compiled.spill_stores,
            compiled.spill_loads,
            len(program.instructions),
        )
        made = assembled(
            kernel.expression,
            self.profile,
            launcher.grid,
            launcher.block,
            resources,
            program,
            run,
            kernel.module.file,
            kernel.module.text,
            self.options,
            self.seconds,
        )
        return replace(made, origin=kernel.module.origin.at(1) if kernel.module.origin else "")

    def _check(self) -> None:
        findings = self.launcher.check(*self.args, timeout=self.options.timeout, checks=self.options.checks)
        if findings:
            raise findings[0].error()

    def _compile(self) -> nvrtc.Compiled:
        wanted = tuple(sorted(self.kernel.module.constants.values))
        module = self.kernel.module
        with annotating(module.origin, module.file):
            return nvrtc.compile(module, self.kernel.expression, self.profile.name, wanted)


def _load(compiled: nvrtc.Compiled) -> Program:
    from warpwise import machine

    program = machine.load_program(compiled.cubin, compiled.symbol)
    return replace(
        program, spill_stores=compiled.spill_stores
    )  # from the assembler's report: the cubin does not hold it


def _binder(kernel: Kernel, compiled: nvrtc.Compiled, program: Program) -> Binder:
    """Pack the arguments without the emulator's build: the cubin holds the parameters' sizes."""
    sizes = [size for _, size in program.parameters]
    return Binder.of(kernel.expression, compiled.function_type, sizes, kernel.declaration)
