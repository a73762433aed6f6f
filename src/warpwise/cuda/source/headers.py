"""Which headers a pruned source keeps, and the error for one that is not found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from warpwise.cuda.errors import CompileError
from warpwise.cuda.source import includes
from warpwise.cuda.source.device_code import INCLUDE, is_host_header, is_standard
from warpwise.cuda.source.lexer import Lines, lex

Keep = Callable[[str, frozenset[str]], bool]

# Libraries of templates for host and device: the header's folder is their namespace.
_LIBRARIES = frozenset({"thrust"})


def keep_found(folders: Sequence[Path]) -> Keep:
    """A rule for ``prune``: keep what ``folders`` have, a host header only if a kept declaration names its namespace.

    A header in angle brackets that is not found is left out, as are the known headers of host libraries; a kernel that
    needs one does not compile. A header in quotes, or of the CUDA toolkit, stays and is an error if it is not found.
    """

    def keep(name: str, words: frozenset[str]) -> bool:
        plain = name.strip('<>"')
        if is_host_header(name):
            library = "std" if is_standard(name) else plain.split("/")[0]
            needed = library in words and (library == "std" or library in _LIBRARIES)
            return needed and find(name, folders) is not None
        return not name.startswith("<") or includes.is_toolkit_header(plain) or find(name, folders) is not None

    return keep


def find(name: str, folders: Sequence[Path]) -> Path | None:
    """The file of `<name>` or `"name"` in the first of ``folders`` that has it."""
    plain = name.strip('<>"')
    return next((folder / plain for folder in folders if (folder / plain).is_file()), None)


def refuse_missing(pruned: str, file: str, folders: Sequence[Path]) -> None:
    """Raise ``CompileError``, the same for all compilers, if ``pruned`` includes a header that ``folders`` lack."""
    written = {match[1] for match in INCLUDE.finditer(pruned)}  # also in comments and strings
    if all(find(name, folders) is not None for name in written):
        return
    for token in lex(pruned):
        match = INCLUDE.match(token.text) if token.kind == "directive" else None
        if match and find(match[1], folders) is None:
            where, line = Lines(pruned, file).at(token.start)
            name = match[1].strip('<>"')
            message = f'{where}:{line}: error: cannot open source file "{name}"'
            advice = includes.missing_header_advice(message)
            advice = advice or includes.generated_header_advice(name, Path(where), "include=[...]")
            advice = advice or "include=[...] adds a folder of headers"
            raise CompileError(f"{message}\n{advice}")
