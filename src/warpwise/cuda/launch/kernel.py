"""``Kernel``: one kernel of a module, compiled at its first launch on each device."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from warpwise.cuda.errors import LaunchError
from warpwise.cuda.launch import limits
from warpwise.cuda.launch.arguments import Binder
from warpwise.cuda.launch.launcher import Launcher
from warpwise.cuda.launch.origin import annotating
from warpwise.cuda.source.kernels import KernelDeclaration

if TYPE_CHECKING:
    from warpwise.cuda.emulator.compiler import Build
    from warpwise.cuda.gpu.kernel import GpuKernel
    from warpwise.cuda.gpu.nvrtc import Compiled
    from warpwise.cuda.launch.module import Module

_KEPT_LAUNCHERS = 64


class Kernel:
    """One kernel of a module. ``kernel[grid, block]`` or ``kernel[grid, block, shared_bytes]`` returns a ``Launcher``.

    ``grid`` is the number of blocks and ``block`` the number of threads of a block, each an integer or a tuple (x, y,
    z) of up to three; ``shared_bytes`` is the dynamic shared memory of a block, in bytes. Raises ``LaunchError`` for
    anything else.
    """

    def __init__(self, module: Module, expression: str, declaration: KernelDeclaration | None) -> None:
        self.module, self.expression, self.declaration = module, expression, declaration
        self._launchers: dict[Any, Launcher] = {}
        self._builds: dict[tuple[bool, bool], Build] = {}
        self._binder: Binder | None = None
        self._gpu: dict[int, GpuKernel] = {}

    def __repr__(self) -> str:
        return f"Kernel({self.expression!r} of {self.module.file!r})"

    def __call__(self, *args: Any, **options: Any) -> None:
        """Raise ``LaunchError``: a launch needs a grid and a block, ``kernel[grid, block](...)``."""
        raise LaunchError(f"{self.expression}: expected a grid and a block: kernel[grid, block](...)")

    def __getitem__(self, shape: Any) -> Launcher:
        try:
            return self._launchers[shape]
        except (KeyError, TypeError):  # a new shape, or one that holds a list or an array
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
        """Compile by NVRTC, which needs no GPU, and return the machine code (``cubin``) with its ``registers`` (of a
        thread), ``shared`` memory (of a block, bytes) and spills (of a thread, bytes).

        ``target`` ("sm_90") defaults to the module's target, else this machine's GPU, else $WARPWISE_TARGET, else
        sm_90. Raises ``CompileError``, and ``ImportError`` that names the packages to install if NVRTC is missing.
        """
        from warpwise.cuda.gpu import nvrtc

        if target is None and self.module.target is None and torch.cuda.is_available():
            target = ".".join(map(str, torch.cuda.get_device_capability()))
        target = target or limits.target_profile(self.module.target).name
        with annotating(self.module.origin, self.module.file):
            return nvrtc.compile(self.module, self.expression, target)

    def cubin(self, target: str | None = None) -> bytes:
        """The machine code for ``target``, an ELF file; see ``compile``."""
        return self.compile(target).cubin

    def build(self, checked: bool = True, numbers: bool = False) -> Build:
        """The library that emulated launches run, compiled by the machine's C++ compiler.

        With ``checked``, it checks every memory access; with ``numbers``, also the results of arithmetic, for
        ``check(..., nan=True)``. Raises ``CompileError``.
        """
        made = self._builds.get((checked, numbers))
        if made is None:
            from warpwise.cuda.emulator import compiler

            module = self.module
            with annotating(self.module.origin, self.module.file):
                made = compiler.build(
                    module.text,
                    module.file,
                    self.expression,
                    include=module.include,
                    define=module.define,
                    target=limits.target_profile(module.target).name,
                    checked=checked,
                    numbers=numbers,
                    shown=module.shown,
                )
            made = self._builds[checked, numbers] = dataclasses.replace(made, origin=module.origin)
        return made

    def binder(self, build: Build) -> Binder:
        """The binder that checks and packs this kernel's arguments for the emulator."""
        if self._binder is None:
            self._binder = Binder.of(self.expression, build.function_type, build.sizes, self.declaration)
        return self._binder

    def on_gpu(self, device: torch.device) -> GpuKernel:
        """This kernel loaded on ``device``."""
        index = device.index if device.index is not None else torch.cuda.current_device()
        loaded = self._gpu.get(index)
        if loaded is None:
            from warpwise.cuda.gpu import kernel

            loaded = self._gpu[index] = kernel.GpuKernel(self, index)
        return loaded


def build_together(kernels: Iterable[Kernel]) -> None:
    """Build the libraries of several kernels ahead of their emulated launches: one compiler run for each module.

    A kernel that is not built with the others is built at its first launch.
    """
    from warpwise.cuda.emulator import compiler

    modules: dict[Module, list[str]] = {}
    for kernel in kernels:
        modules.setdefault(kernel.module, []).append(kernel.expression)
    for module, expressions in modules.items():
        compiler.build_together(
            module.text,
            module.file,
            expressions,
            include=module.include,
            define=module.define,
            target=limits.target_profile(module.target).name,
            shown=module.shown,
        )
