"""Kernels of a CUDA source, compiled when first launched: on a GPU for CUDA tensors, else emulated and checked."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from warpwise.cuda import includes, limits, observe, source
from warpwise.cuda.arguments import Binder, device_of
from warpwise.cuda.constants import Constants
from warpwise.cuda.errors import CompileError, Finding, LaunchError
from warpwise.cuda.signature import parse

if TYPE_CHECKING:
    from warpwise.cuda.emulator.compiler import Build
    from warpwise.cuda.gpu import GpuKernel
    from warpwise.cuda.nvrtc import Compiled
    from warpwise.device.profiles import Profile

CHECKS = ("all", "bounds", "none")
_SOURCE_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc")
_KEPT_LAUNCHERS = 64


def load(
    source_or_path: str | os.PathLike[str],
    include: Sequence[str | os.PathLike[str]] = (),
    define: Mapping[str, object] | None = None,
    target: str | None = None,
) -> Module:
    """The kernels of a CUDA C++ source, given as a path or as text. Host code in it is passed over.

    ``include`` adds folders for ``#include`` (a file's own folder is among them already), ``define`` macros.
    ``target`` ("sm_80") is the device whose limits emulated launches are held to; $WARPWISE_TARGET or sm_90 unless
    given. Nothing is compiled before a kernel's first launch.

    >>> module = load("sgemm.cu")
    >>> module["sgemm<32>"][grid, block](m, n, k, alpha, a, b, beta, c)

    Raises ``FileNotFoundError`` for a path that does not exist, ``ValueError`` for an unknown target.
    """
    if target is not None:
        limits.target_profile(target)
    folders = [Path(folder) for folder in include]
    path = _as_path(source_or_path)
    if path is None:
        return Module(os.fspath(source_or_path), "kernel.cu", folders, define, target)
    if not path.is_file():
        raise FileNotFoundError(
            f"cuda.load: no file {str(path)!r} (in {os.getcwd()}); a source text holds a __global__ function"
        )
    return Module(path.read_text("utf-8-sig", "replace"), str(path), [path.parent, *folders], define, target)


def _as_path(given: str | os.PathLike[str]) -> Path | None:
    """The path that ``given`` is, or None if it is source text: text has a newline, a brace or ``__global__``."""
    if not isinstance(given, str):
        return Path(given)
    if "\n" in given or "{" in given or "__global__" in given:
        return None
    return Path(given)


class Module:
    """The kernels of one source. ``module["name"]`` or ``module["name<32, float>"]`` gives one of them."""

    def __init__(
        self,
        text: str,
        file: str,
        include: Sequence[Path] = (),
        define: Mapping[str, object] | None = None,
        target: str | None = None,
    ) -> None:
        self.text, self.file, self.target = text, file, target
        self.include = (*include, includes.DEVICE_HEADERS)
        self.define = dict(define or {})
        self.constants = Constants()
        self._declared: dict[str, source.KernelDeclaration] | None = None
        self._kernels: dict[str, Kernel] = {}

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the ``__global__`` functions, in the order of the source."""
        return tuple(self.declarations)

    @property
    def declarations(self) -> dict[str, source.KernelDeclaration]:
        """The ``__global__`` functions of the source and of the files it includes by ``#include "..."``."""
        if self._declared is None:
            found = source.kernels(self.text)
            for included in includes.included(self.text, self.include).values():
                for name, declaration in source.kernels(included).items():
                    found.setdefault(name, declaration)
            self._declared = found
        return self._declared

    def __getitem__(self, expression: str) -> Kernel:
        """The kernel that a C++ name expression names. Raises ``CompileError`` listing the kernels there are."""
        kernel = self._kernels.get(expression)
        if kernel is None:
            kernel = self._kernels[expression] = Kernel(self, expression, self._declaration(expression))
        return kernel

    def __contains__(self, name: str) -> bool:
        return name in self.declarations

    def __repr__(self) -> str:
        return f"Module({self.file!r}: {', '.join(self.kernels) or 'no kernels'})"

    def set_constant(self, name: str, value: Any) -> None:
        """Fill the ``__constant__`` (or ``__device__``) variable ``name`` for every kernel of this module.

        ``value`` is an array or a number of exactly the variable's bytes; it is copied now, so later changes to it do
        not show. Launches from here on see it, also of kernels compiled later. Raises ``CompileError`` for a name that
        the source does not hold, and at the launch ``ArgumentError`` for a value of another size.
        """
        plain = name.replace(" ", "").removeprefix("::")
        last = re.escape(plain.rpartition("::")[2])
        texts = (self.text, *includes.included(self.text, self.include).values())
        if not any(re.search(rf"\b{last}\b", text) for text in texts):
            raise CompileError(f"{self.file}: set_constant: the source declares no variable {name!r}")
        self.constants.set(plain, value)

    def _declaration(self, expression: str) -> source.KernelDeclaration | None:
        match = re.match(r"\s*(?:::)?(\w+(?:::\w+)*)\s*(<.*>)?\s*$", expression, re.DOTALL)
        if not match:
            raise CompileError(
                f"{self.file}: {expression!r} is not the name of a kernel, such as 'sgemm' or 'sgemm<32>'"
            )
        declaration = source.kernel_of(match[1], self.declarations)
        name = match[1].rpartition("::")[2]
        made_by_macro = "##" in self.text or re.search(rf"\b{name}\b", self.text)  # then the compiler will tell
        if declaration is None and not made_by_macro:
            raise self._unknown(match[1])
        if declaration is not None and declaration.template and not match[2]:
            raise CompileError(f"{self.file}: {name} is a template: name its arguments, such as module['{name}<...>']")
        return declaration

    def _unknown(self, name: str) -> CompileError:
        there = ", ".join(self.kernels) or "none"
        near = difflib.get_close_matches(name, self.kernels, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return CompileError(f"{self.file}: no __global__ function {name!r}{hint} (there are: {there})")


class Kernel:
    """One kernel of a module. ``kernel[grid, block]`` or ``kernel[grid, block, shared_bytes]`` makes it callable.

    ``grid`` and ``block`` are an integer or up to three; ``shared_bytes`` is the dynamic shared memory of a block.
    """

    def __init__(self, module: Module, expression: str, declaration: source.KernelDeclaration | None) -> None:
        self.module, self.expression, self.declaration = module, expression, declaration
        self._launchers: dict[Any, Launcher] = {}
        self._builds: dict[bool, Build] = {}
        self._binder: Binder | None = None
        self._gpu: dict[int, GpuKernel] = {}

    def __repr__(self) -> str:
        return f"Kernel({self.expression!r} of {self.module.file!r})"

    def __call__(self, *args: Any, **options: Any) -> None:
        raise LaunchError(f"{self.expression}: say the grid and the block: kernel[grid, block](...)")

    def __getitem__(self, shape: Any) -> Launcher:
        try:
            return self._launchers[shape]
        except (KeyError, TypeError):  # new, or a list or array somewhere in it
            pass
        if not isinstance(shape, tuple) or len(shape) not in (2, 3):
            raise LaunchError(f"{self.expression}: expected kernel[grid, block] or kernel[grid, block, shared_bytes]")
        grid = limits.dimensions(self.expression, "grid", shape[0])
        block = limits.dimensions(self.expression, "block", shape[1])
        shared = limits.dimensions(self.expression, "shared_bytes", shape[2])[0] if len(shape) == 3 else 0
        plain = (grid, block, shared)
        launcher = self._launchers.get(plain)
        if launcher is None:
            if len(self._launchers) >= _KEPT_LAUNCHERS:
                self._launchers.clear()
            launcher = self._launchers[plain] = Launcher(self, grid, block, shared)
        if all(type(part) is int or type(part) is tuple for part in shape):
            self._launchers[shape] = launcher
        return launcher

    def compile(self, target: str | None = None) -> Compiled:
        """Compile for a GPU of ``target`` (this machine's GPU, or the module's target) by NVRTC, which needs no GPU:
        registers, shared memory, spills. Raises ``CompileError``."""
        from warpwise.cuda import nvrtc

        if target is None and self.module.target is None and torch.cuda.is_available():
            target = ".".join(map(str, torch.cuda.get_device_capability()))
        target = target or limits.target_profile(self.module.target).name
        return nvrtc.compile(self.module, self.expression, target)

    def cubin(self, target: str | None = None) -> bytes:
        """The machine code for ``target``, as ``compile`` makes it."""
        return self.compile(target).cubin

    def build(self, checked: bool = True) -> Build:
        """The library that emulated launches run; ``checked`` with every access reported. Raises ``CompileError``."""
        made = self._builds.get(checked)
        if made is None:
            from warpwise.cuda.emulator import compiler

            module = self.module
            made = self._builds[checked] = compiler.build(
                module.text, module.file, self.expression, include=module.include, define=module.define,
                target=limits.target_profile(module.target).name, checked=checked,
            )  # fmt: skip
        return made

    def binder(self, build: Build) -> Binder:
        """What checks and packs this kernel's arguments for the emulator."""
        if self._binder is None:
            declared = self.declaration.parameters if self.declaration else ()
            self._binder = Binder(self.expression, parse(build.function_type), build.sizes, declared)
        return self._binder

    def on_gpu(self, device: torch.device) -> GpuKernel:
        """This kernel loaded for ``device``."""
        index = device.index if device.index is not None else torch.cuda.current_device()
        loaded = self._gpu.get(index)
        if loaded is None:
            from warpwise.cuda import gpu

            loaded = self._gpu[index] = gpu.GpuKernel(self, index)
        return loaded


class Launcher:
    """A kernel with its grid, block and dynamic shared memory: call it with the arguments."""

    __slots__ = ("_checked_for", "block", "grid", "kernel", "shared_bytes")

    def __init__(
        self, kernel: Kernel, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int
    ) -> None:
        self.kernel, self.grid, self.block, self.shared_bytes = kernel, grid, block, shared_bytes
        self._checked_for: Profile | None = None

    def __call__(
        self, *args: Any, timeout: float = 60.0, checks: str | None = None, order: str = "forward", seed: int = 0
    ) -> None:
        """Launch. CUDA tensors run on their GPU and torch's current stream; CPU tensors and NumPy arrays, emulated.

        The other arguments concern emulated launches. ``timeout`` is in seconds. ``checks`` is "all", "bounds"
        (no races, no uninitialised memory) or "none"; $WARPWISE_CHECKS or "all" unless given. ``order`` is the order
        in which blocks and threads run: "forward", "reverse" or "shuffle" by ``seed``.

        Raises ``CompileError``, ``ArgumentError``, ``LaunchError``; emulated, the first finding as its ``KernelError``.
        """
        if observe.OBSERVERS:
            options = {"timeout": timeout, "checks": checks, "order": order, "seed": seed}
            if observe.taken(self, args, options):
                return
        device = device_of(args, self.kernel.expression)
        if device is None:
            device = torch.device("cuda") if torch.cuda.is_available() and self.kernel.module.target is None else _CPU
        if device.type == "cuda":
            self.kernel.on_gpu(device).launch(self, args)
            return
        findings = self._emulate(args, timeout, checks, order, seed)
        if findings:
            raise findings[0].error()

    def check(
        self, *args: Any, timeout: float = 60.0, checks: str | None = None, order: str = "forward", seed: int = 0
    ) -> list[Finding]:
        """Run emulated and return every finding instead of raising the first; CUDA tensors are copied to the CPU first."""
        device = device_of(args, self.kernel.expression)
        if device is not None and device.type == "cuda":
            from warpwise.cuda import copies

            args = copies.to_cpu(args)
        return self._emulate(args, timeout, checks, order, seed)

    def _emulate(self, args: Sequence[Any], timeout: float, checks: str | None, order: str, seed: int) -> list[Finding]:
        from warpwise.cuda.emulator import launcher

        kernel = self.kernel
        checks = _checks(checks)
        profile = limits.target_profile(kernel.module.target)
        if self._checked_for is not profile:
            bounds = kernel.declaration.launch_bounds if kernel.declaration else None
            limits.check_launch(kernel.expression, self.grid, self.block, profile, bounds)
            limits.check_shared(kernel.expression, 0, self.shared_bytes, profile)
            self._checked_for = profile
        build = kernel.build(checked=checks != "none")
        bound = kernel.binder(build).cpu(args)
        if kernel.module.constants:
            kernel.module.constants.apply_to_library(build)
        options = launcher.Options(timeout=timeout, checks=checks, order=order, seed=seed)
        return launcher.launch(build, self.grid, self.block, self.shared_bytes, bound, options, profile)


def _checks(given: str | None) -> str:
    checks = given if given is not None else os.environ.get("WARPWISE_CHECKS", "all")
    if checks not in CHECKS:
        where = "checks" if given is not None else "WARPWISE_CHECKS"
        raise ValueError(f"{where}={checks!r}: expected one of {', '.join(CHECKS)}")
    return checks


_CPU = torch.device("cpu")
