"""A launch of one kernel of a file: CUDA C++ (.cu), or Python with Triton kernels or modules of ``cuda.load``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from warpwise import cuda
from warpwise.cli.kept import near
from warpwise.cli.kernel_options import arguments, given_values, in_order, load_kernel
from warpwise.cli.python_kernels import kernels_in
from warpwise.cli.targets import run_file
from warpwise.cli.values import Value
from warpwise.cuda.program.sources import has_main


@dataclass(frozen=True)
class KernelOptions:
    """The options of the command line that select a kernel and describe its launch."""

    expression: str | None
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None
    shared: int
    texts: Sequence[str]
    include: Sequence[Path] = ()
    define: Sequence[str] = ()
    constants: Sequence[str] = ()

    def given(self) -> dict[str, object]:
        """The values by the options' names; None, 0 or empty if the option is not given."""
        return {
            "--kernel": self.expression,
            "--grid": self.grid,
            "--block": self.block,
            "--shared": self.shared,
            "--arg": self.texts,
            "--include": self.include,
            "--define": self.define,
            "--constant": self.constants,
        }


@dataclass(frozen=True)
class KernelLaunch:
    """A kernel bound to its grid, its arguments in order, and those that Triton takes by name."""

    expression: str
    launcher: Any
    values: list[Value]
    meta: dict[str, Any] = field(default_factory=dict)
    target: str = "sm_90"

    @property
    def args(self) -> list[Any]:
        """The positional arguments, with outputs marked."""
        return arguments(self.values)

    def check(self, timeout: float, order: str, seed: int, nan: bool = False) -> list[cuda.Finding]:
        """Run on the CPU with all checks, with ``nan`` for NaN too. ``order`` and ``seed`` apply to CUDA kernels.

        A Triton kernel without findings also passes through Triton's front end; raises ``CompileError``.
        """
        if isinstance(self.launcher, cuda.Launcher):
            return self.launcher.check(*self.args, timeout=timeout, order=order, seed=seed, nan=nan)
        found: list[cuda.Finding] = self.launcher.check(*self.args, timeout=timeout, nan=nan, **self.meta)
        if not found:
            from warpwise.triton.compiler import check_front_end

            error = check_front_end(self.launcher.kernel, tuple(self.args), self.meta, self.target)
            if error is not None:
                raise error
        return found


def kernel_launch(file: Path, options: KernelOptions, target: str, seed: int) -> KernelLaunch:
    """The launch of ``options``. Raises ``click.UsageError`` for a missing option, with the kernels of the file."""
    if not file.is_file():
        raise click.BadParameter(f"no file {str(file)!r}, and no OP:RUNG such as softmax:k03", param_hint="FILE")
    if file.suffix == ".py":
        return _of_python(file, options, target, seed)
    if options.expression is None or options.grid is None or options.block is None:
        raise click.UsageError(f"{file.name}: {_missing(options)}{_declared(file)}")
    kernel = load_kernel(file, options.expression, options.include, options.define, target, options.constants)
    return _of_cuda(kernel, options, given_values(options.texts, seed))


def _missing(options: KernelOptions) -> str:
    """The message about the options of a launch that are not given."""
    given = {"--kernel": options.expression, "--grid": options.grid, "--block": options.block}
    missing = [name for name, value in given.items() if value is None]
    return f"a launch needs {', '.join(given)}; missing: {', '.join(missing)}"


def _of_cuda(kernel: cuda.Kernel, options: KernelOptions, given: list[Value]) -> KernelLaunch:
    if options.grid is None or options.block is None:
        raise click.UsageError(f"{kernel.expression}: {_missing(options)}")
    launcher = kernel[options.grid, options.block, options.shared]
    return KernelLaunch(kernel.expression, launcher, in_order(kernel, given))


def _of_python(file: Path, options: KernelOptions, target: str, seed: int) -> KernelLaunch:
    from warpwise.triton.absent_gpu import described_gpu

    with described_gpu():
        module = run_file(file, "FILE", (options.expression or "").partition("<")[0].strip())
    known = kernels_in(module)
    there = f"; there are {', '.join(known)}" if known else "; there are none"
    if options.expression is None or options.grid is None:
        raise click.UsageError(f"a kernel of {file.name} needs --kernel and --grid{there}")
    base = options.expression.partition("<")[0].strip()
    if base not in known:
        hint = near(base, list(known))
        raise click.BadParameter(f"{file.name}: no kernel {base!r}{hint or there}", param_hint="--kernel")
    found, given = known[base], given_values(options.texts, seed)
    if isinstance(found, cuda.Module):
        return _of_cuda(found[options.expression], options, given)
    if isinstance(found, cuda.Kernel):
        return _of_cuda(found, options, given)
    named = {name: value for name, value in options.given().items() if name not in ("--kernel", "--grid", "--arg")}
    if ignored := [name for name, value in named.items() if value]:
        verb = "is" if len(ignored) == 1 else "are"
        raise click.UsageError(f"{base} is a Triton kernel: {', '.join(ignored)} {verb} for CUDA kernels")
    return _of_triton(found, options.expression, options.grid, given, target)


def _of_triton(kernel: Any, expression: str, grid: tuple[int, ...], given: list[Value], target: str) -> KernelLaunch:
    """Arguments by position, in the order of the parameters; the last constexprs and launch options by name."""
    from warpwise import triton as wt

    kernel = wt.jit(kernel)
    by_name = {value.name: value for value in given}
    names = list(kernel.arg_names)
    first = next((place for place, name in enumerate(names) if name not in by_name), len(names))
    constants = {parameter.name for parameter in kernel.jit_function.params if parameter.is_constexpr}
    while first and names[first - 1] in constants:  # by name they replace those of an autotuner's configuration
        first -= 1
    meta = {value.name: value.value for value in given if value.name not in names[:first]}
    return KernelLaunch(expression, kernel[grid], [by_name[name] for name in names[:first]], meta, target)


def _declared(file: Path) -> str:
    """The kernels that a CUDA file declares, and whether it is a whole program, for a message."""
    declared = cuda.load(file).declarations.values()
    kernels = [f"{one.name}({', '.join(f'{kind} {name}' for kind, name in one.parameters)})" for one in declared]
    listed = f"; the file declares {'; '.join(kernels)}" if kernels else ""
    program = f"; the file defines main: `warpwise run {file.name}` runs the whole program" if has_main(file) else ""
    return listed + program
