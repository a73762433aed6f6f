"""``load`` and ``Module``: the kernels of a CUDA C++ source, compiled at their first launch."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from warpwise.cuda.errors import CompileError
from warpwise.cuda.launch import limits, origin
from warpwise.cuda.launch.constants import Constants
from warpwise.cuda.launch.kernel import Kernel
from warpwise.cuda.source import includes
from warpwise.cuda.source.kernels import OVERLOAD, KernelDeclaration, kernel_of, kernels


def load(
    source_or_path: str | os.PathLike[str],
    include: Sequence[str | os.PathLike[str]] = (),
    define: Mapping[str, object] | None = None,
    target: str | None = None,
) -> Module:
    """Load the kernels of a CUDA C++ source, given as a path or as text. Host code in it is ignored.

    ``include`` lists folders for ``#include`` in addition to the file's own folder and to those of its project: the
    ``-I`` of a Makefile, ``include`` or ``common`` beside the file or above it. ``define`` maps macro names to values.
    ``target`` ("sm_80") is the device whose limits apply to emulated launches; the default is $WARPWISE_TARGET, else
    sm_90. A kernel is compiled at its first launch.

    >>> module = load("sgemm.cu")
    >>> module["sgemm<32>"][grid, block](m, n, k, alpha, a, b, beta, c)

    Raises ``FileNotFoundError`` for a path that does not exist, ``ValueError`` for an unknown target or an empty
    text, ``TypeError`` for a source that is neither text nor a path.
    """
    if not isinstance(source_or_path, (str, os.PathLike)):
        raise TypeError(f"cuda.load: expected a source text or a path, got {type(source_or_path).__name__}")
    if target is not None:
        limits.target_profile(target)
    folders = [Path(folder) for folder in include]
    if isinstance(source_or_path, str) and not source_or_path.strip():
        raise ValueError("cuda.load: the source text is empty; expected a __global__ function, or a path")
    path = _as_path(source_or_path)
    if path is None:
        text = os.fspath(source_or_path)
        module = Module(text, "kernel.cu", folders, define, target)
        module.origin = origin.of_caller(text)
        return module
    if not path.is_file():
        raise FileNotFoundError(
            f"cuda.load: no file {str(path)!r} (in {os.getcwd()}); a source text holds a __global__ function"
        )
    text = path.read_text("utf-8-sig", "replace")
    folders = [path.parent, *folders]
    folders += includes.project_folders(path, text, (*folders, includes.DEVICE_HEADERS))
    return Module(text, str(path), folders, define, target)


def _as_path(given: str | os.PathLike[str]) -> Path | None:
    """The path that ``given`` is, or None for source text, which contains a newline, a brace or ``__global__``."""
    if not isinstance(given, str):
        return Path(given)
    if "\n" in given or "{" in given or "__global__" in given:
        return None
    return Path(given)


class Module:
    """The kernels of one source, made by ``load``. ``module["name"]`` or ``module["name<32, float>"]`` returns one.

    ``module.kernels`` are the names; ``"name" in module`` is true for one of them.
    """

    def __init__(
        self,
        text: str,
        file: str,
        include: Sequence[Path] = (),
        define: Mapping[str, object] | None = None,
        target: str | None = None,
    ) -> None:
        self.text, self.file, self.target = text, file, target
        self.shown = text  # the text that messages quote lines of
        self.origin: origin.Origin | None = None  # of a text in a Python file
        self.include = (*include, includes.DEVICE_HEADERS)
        self.define = dict(define or {})
        self.constants = Constants()
        self._declared: dict[str, KernelDeclaration] | None = None
        self._kernels: dict[str, Kernel] = {}

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the ``__global__`` functions, in source order."""
        return tuple(self.declarations)

    @property
    def declarations(self) -> dict[str, KernelDeclaration]:
        """The ``__global__`` functions of the source and of the headers that it includes, by name."""
        if self._declared is None:
            found = kernels(self.text)
            for included in includes.included(self.text, self.include).values():
                for name, declaration in kernels(included).items():
                    found.setdefault(name, declaration)
            self._declared = found
        return self._declared

    def __getitem__(self, expression: str) -> Kernel:
        """The kernel that a C++ name expression names. Raises ``CompileError`` that lists the module's kernels.

        A cast chooses one of several kernels of a name: ``module["static_cast<void (*)(int*)>(&fill)"]``.
        """
        kernel = self._kernels.get(expression)
        if kernel is None:
            kernel = self._kernels[expression] = Kernel(self, expression, self._declaration(expression))
        return kernel

    def __contains__(self, name: str) -> bool:
        return name in self.declarations

    def __repr__(self) -> str:
        return f"Module({self.file!r}: {', '.join(self.kernels) or 'no kernels'})"

    def set_constant(self, name: str, value: Any) -> None:
        """Set the ``__constant__`` (or ``__device__``) variable ``name`` for every kernel of this module.

        ``value`` is a tensor, a NumPy array or a NumPy number (``np.float32(0.5)``) of exactly the variable's size in
        bytes; it is copied by this call. All later launches use it, also those of kernels that are compiled later.
        Raises ``CompileError`` if the source does not declare the name, and ``ArgumentError`` for a Python number, the
        size of which is unknown; the launch raises ``ArgumentError`` if the sizes differ.
        """
        plain = name.replace(" ", "").removeprefix("::")
        last = re.escape(plain.rpartition("::")[2])
        texts = (self.text, *includes.included(self.text, self.include).values())
        if not any(re.search(rf"\b{last}\b", text) for text in texts):
            raise CompileError(f"{self.file}: set_constant: the source declares no variable {name!r}")
        self.constants.set(plain, value)

    def _may_be_made_by_macro(self, name: str) -> bool:
        """True if only the compiler can decide whether the source or a header of its project has the kernel."""
        headers = includes.included(self.text, self.include).items()
        texts = [self.text, *(text for path, text in headers if includes.DEVICE_HEADERS not in path.parents)]
        return any("##" in text or re.search(rf"\b{name}\b", text) for text in texts)

    def _declaration(self, expression: str) -> KernelDeclaration | None:
        if OVERLOAD.match(expression):
            return None  # the compiler decides which of several kernels of one name it is
        match = re.match(r"\s*(?:::)?(\w+(?:::\w+)*)\s*(<.*>)?\s*$", expression, re.DOTALL)
        if not match:
            raise CompileError(
                f"{self.file}: {expression!r} is not the name of a kernel, such as 'sgemm' or 'sgemm<32>'"
            )
        declaration = kernel_of(match[1], self.declarations)
        name = match[1].rpartition("::")[2]
        if declaration is None and not self._may_be_made_by_macro(name):
            raise self._unknown(match[1])
        if declaration is not None and declaration.template and not match[2]:
            wanted = ", ".join(declaration.template_parameters)
            raise CompileError(
                f"{self.file}: {name} is a template of <{wanted}>: name its arguments, module['{name}<...>'] in Python "
                f"or --kernel '{name}<...>' in a command line"
            )
        return declaration

    def _unknown(self, name: str) -> CompileError:
        there = ", ".join(self.kernels) or "none"
        near = difflib.get_close_matches(name, self.kernels, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return CompileError(f"{self.file}: no __global__ function {name!r}{hint} (there are: {there})")
