"""``FlatSource``: a kernel's source as one text, with the user's headers inserted and host code removed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpwise import native
from warpwise.cuda.errors import CompileError
from warpwise.cuda.source import flatten
from warpwise.cuda.source.advice import assembler_line, left_out_advice, removed_advice
from warpwise.cuda.source.device_code import identifiers, prune
from warpwise.cuda.source.headers import keep_found, refuse_missing

if TYPE_CHECKING:
    from warpwise.cuda.launch.module import Module


class FlatSource:
    """The source of one kernel after the preprocessor.

    ``expression`` is the kernel's name expression with its macros expanded. Uses the preprocessor of the C++ compiler.
    Raises ``native.NoCompiler`` if there is no compiler, and ``CompileError`` for directives that it refuses.
    """

    def __init__(self, module: Module, expression: str, arch: str, constants: tuple[str, ...]) -> None:
        self.file, self.arch, self.constants, self.given = module.file, arch, constants, expression
        self.include = module.include
        self.compiler = native.compiler()
        folders = flatten.search_path(module.file, module.include)
        definitions = _definitions(module, arch)
        self.text, self.expression = flatten.expand(
            module.text, module.file, folders, definitions, self.compiler, expression
        )

    def pruned(self, folders: Sequence[Path], *, strict: bool = False) -> str:
        """The declarations that the kernel needs, and the headers that the user's folders or ``folders`` have.

        With ``strict``, raises ``CompileError`` for a missing header in quotes or of the CUDA toolkit.
        """
        searched = (*self.include, *folders)
        roots = identifiers(self.expression).union(*map(identifiers, self.constants))
        text = prune(self.text, roots, keep=keep_found(searched))
        if strict:
            refuse_missing(text, self.file, (*searched, *native.header_folders(self.compiler)))
        return text

    def with_advice(self, message: str, pruned: str) -> str:
        """``message`` with the cause if it is known: a feature that CUDA has removed, or headers that are missing."""
        advice = removed_advice(message) or left_out_advice(message, self.text, pruned, self.file)
        line = assembler_line(message, self.text, self.file)
        return "\n".join(part for part in (message, line, advice) if part)

    def error(self, log: str, pruned: str) -> CompileError:
        text = f"{self.file}: {self.given} does not compile for {self.arch}:\n{log}"
        return CompileError(self.with_advice(text, pruned))


def _definitions(module: Module, arch: str) -> str:
    match = re.fullmatch(r"sm_(\d+)(a?)", arch)
    number = match[1] if match else "90"
    lines = [f"#define __CUDA_ARCH__ {number}0"]
    if match and match[2]:
        lines.append(f"#define __CUDA_ARCH_FEAT_SM{number}_ALL 1")
    for name, value in module.define.items():
        spelled = "" if value is None else int(value) if isinstance(value, bool) else value
        lines.append(f"#define {name} {spelled}")
    return "\n".join(lines)
