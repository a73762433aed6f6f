"""Kernel launches that were intercepted instead of made, so that their kernels can be compiled for any GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class InterceptedLaunch:
    """A launch of ``warpwise.cuda`` or ``warpwise.triton`` with its arguments and options, which was not made."""

    launcher: Any
    args: tuple[Any, ...]
    options: Mapping[str, Any]

    @property
    def language(self) -> str:
        return "cuda" if hasattr(self.kernel, "expression") else "triton"

    @property
    def kernel(self) -> Any:
        """The ``cuda.Kernel`` or Triton kernel."""
        return self.launcher.kernel

    @property
    def name(self) -> str:
        """The kernel's name, in CUDA C++ with its template arguments."""
        return str(self.kernel.expression if self.language == "cuda" else self.kernel.jit_function.__name__)

    def compile(self, target: str) -> Any:
        """The kernel compiled for ``target`` ("sm_90"), as this launch specialises it. Raises ``CompileError``."""
        if self.language == "cuda":
            return self.kernel.compile(target)
        meta = {name: value for name, value in self.options.items() if name not in ("timeout", "checks")}
        return self.kernel.compile_for(*self.args, target=target, **meta)
