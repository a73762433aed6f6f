"""Local variables that a kernel reads before it writes them, from the compiler's warnings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from warpwise.cuda.errors import Finding, UninitializedRead, shown_path

if TYPE_CHECKING:
    from warpwise.cuda.emulator.compiler import Build

GNU_FLAGS = ("-Wuninitialized", "-Wmaybe-uninitialized")
CLANG_FLAGS = ("-Wuninitialized",)
_PLACE = re.compile(r"(.+?):(\d+):(?:(\d+):)? (?:fatal )?(error|warning|note): (.*)")
_CERTAIN = re.compile(r"[‘'](\w+)[’'] is (?:used uninitialized|uninitialized when used here)")
_POSSIBLE = re.compile(r"[‘'](\w+)[’'] may be used uninitialized")
_FUNCTION = re.compile(r"\b__(?:global|device)__\b")


def without_warnings(output: str) -> str:
    """Return a compiler's output without its warnings and the notes that belong to them."""
    kept, is_kept = [], True
    for line in output.splitlines(keepends=True):
        if (match := _PLACE.match(line)) and match[4] != "note":
            is_kept = match[4] == "error"
        if is_kept:
            kept.append(line)
    return "".join(kept)


def reads(output: str, file: str, text: str) -> list[tuple[int, str]]:
    """Return the line in ``file`` and the name of each local variable that is read before it is written.

    g++ also warns of a variable that has no value on some paths only, which often no thread takes. Such a warning
    counts only if every assignment in the function is an update, such as ``sum += x[i]``.
    """
    found: dict[tuple[int, str], None] = {}
    lines = text.splitlines()
    for line in output.splitlines():
        match = _PLACE.match(line)
        if match is None or match[4] != "warning" or match[1] != file or not 0 < int(match[2]) <= len(lines):
            continue
        number = int(match[2])
        if certain := _CERTAIN.search(match[5]):
            found[number, certain[1]] = None
        elif (possible := _POSSIBLE.search(match[5])) and _is_only_updated(lines, number, possible[1]):
            found[number, possible[1]] = None
    return list(found)


def _is_only_updated(lines: list[str], number: int, name: str) -> bool:
    """True if the function around the line updates the variable and nothing there can give it its first value."""
    first = next((i for i in range(number - 1, -1, -1) if _FUNCTION.search(lines[i])), 0)
    last = next((i for i in range(number, len(lines)) if _FUNCTION.search(lines[i])), len(lines))
    body = "\n".join(lines[first:last])
    updated = re.search(rf"\b{name}\s*(?:[-+*/|&^]=|\+\+|--)", body)
    passed = re.search(rf"[(,]\s*&?{name}\s*[,)]|&{name}\b|\({name}\)", body)
    return updated is not None and passed is None and re.search(rf"\b{name}\s*=(?!=)", body) is None


def findings(build: Build) -> list[Finding]:
    lines = build.text.splitlines()
    return [
        Finding(
            UninitializedRead,
            build.expression,
            f"the local variable '{name}' is read before it has a value\n    at {shown_path(build.file)}:{line}:  "
            f"{lines[line - 1].strip()}",
            variable=name,
            space="local",
        )
        for line, name in build.uninitialised
        if 0 < line <= len(lines)
    ]
