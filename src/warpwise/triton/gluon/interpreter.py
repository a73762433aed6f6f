"""The interpreter of Gluon kernels."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from warpwise.triton.compat import Patch
from warpwise.triton.gluon.builder import GluonBuilder
from warpwise.triton.gluon.semantic import Semantic, gluon_patches, overrides
from warpwise.triton.interpreter import Interpreter


class GluonInterpreter(Interpreter):
    """Runs Gluon kernels. Errors that Gluon's semantic layer, a part of this package, raises are compile errors."""

    is_gluon = True  # its builder holds the shared memory of one program, so that programs do not alternate

    def __init__(self) -> None:
        importlib.import_module("triton.experimental.gluon.language.nvidia.blackwell")
        builder = GluonBuilder()
        super().__init__(builder, Semantic(builder))

    def _is_compile_error(self, error: BaseException) -> bool:
        return isinstance(error, (ValueError, TypeError, IndexError)) or super()._is_compile_error(error)

    def _overrides(self) -> dict[str, Callable[..., Any]]:
        return {**super()._overrides(), **overrides(self.semantic)}

    def _make_patches(self) -> list[Patch]:
        return super()._make_patches() + gluon_patches(self.semantic, self._overrides())


@functools.cache
def gluon_interpreter() -> GluonInterpreter:
    """Return the process's interpreter of Gluon kernels."""
    return GluonInterpreter()
