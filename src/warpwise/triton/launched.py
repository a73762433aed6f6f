"""What a launch on CPU tensors, or a warm-up without a GPU, returns in place of Triton's compiled kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from warpwise.triton.compat import launch_options


class LaunchedKernel:
    """The kernel of a launch, with the attributes of Triton's compiled kernel that programs read.

    The first read compiles the kernel for sm_90, as ``kernel.compile_for`` does, with its errors. ``asm`` holds the
    stages of the compilation, ``n_regs`` is registers per thread, ``n_spills`` is the stack frame in bytes per thread,
    ``shared`` is bytes per block; ``metadata`` has ``name``, ``shared``, ``num_warps`` and ``num_stages``.
    ``launched[grid](*args)`` launches the kernel again, with the same launch options.
    """

    def __init__(self, kernel: Any, args: tuple[Any, ...], meta: Mapping[str, Any]) -> None:
        self._kernel, self._args, self._meta = kernel, args, dict(meta)

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        names = self._kernel.jit_function.arg_names
        options = {name: value for name, value in self._meta.items() if name not in names}
        return functools.partial(self._kernel[grid], **options)

    def _init_handles(self) -> None:
        """Load the machine code: programs call this before they read ``n_regs``."""

    @functools.cached_property
    def _compiled(self) -> Any:
        known = {*launch_options(), *self._kernel.jit_function.arg_names}
        meta = {name: value for name, value in self._meta.items() if name in known}
        return self._kernel.compile_for(*self._args, **meta)

    @property
    def asm(self) -> Mapping[str, Any]:
        return self._compiled.asm

    @property
    def n_regs(self) -> int:
        return self._compiled.registers

    @property
    def n_spills(self) -> int:
        return self._compiled.spills

    @property
    def shared(self) -> int:
        return self._compiled.shared

    @property
    def name(self) -> str:
        return self._compiled.name

    @property
    def metadata(self) -> SimpleNamespace:
        names = ("name", "shared", "num_warps", "num_stages")
        return SimpleNamespace(**{name: getattr(self._compiled, name) for name in names})
