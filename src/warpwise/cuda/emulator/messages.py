"""The compiler's messages about a kernel, in terms of the user's file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from warpwise.cuda.emulator.rewrite import ABSENT
from warpwise.cuda.errors import UnsupportedFeature
from warpwise.cuda.source.advice import removed_advice
from warpwise.cuda.source.kernels import kernels

_NESTED_LAUNCH = "a kernel launch from __device__ or __global__ functions (dynamic parallelism) is not supported"
_UNDEFINED = re.compile(r"undefined reference to [`']([^']+)'")  # of ld.bfd and of gold


def refuse_absent(message: str, expression: str) -> None:
    """Raise ``UnsupportedFeature`` if the compiler misses a library that the emulator does not implement."""
    names = "|".join((*ABSENT, "atomic", "atomic_ref", "ptx"))
    missed = r"(?:has not been declared|is not a member of ['‘]cuda['’]|does not name|is not a namespace-name)"
    match = re.search(rf"^(.+?:\d+):.* error: ['‘](?:cuda::)?({names})['’] {missed}", message, re.MULTILINE)
    if match:
        raise UnsupportedFeature(
            f"{match[1]}: kernel {expression} uses {match[2]}, which the emulator does not implement; run it on a GPU"
        )


def readable(message: str, file: str, text: str, expression: str) -> str:
    """Return the compiler's errors, each with the user's line below it, without notes about generated code."""
    source = text.splitlines()
    lines = []
    advice = removed_advice(message)
    for line in message.splitlines():
        match = re.match(r"(.+?):(\d+):(?:(\d+):)? (?:fatal )?(error|note): (.*)", line)
        if match is None or _UNDEFINED.search(line):
            continue
        where, number, kind = match[1], int(match[2]), match[4]
        if kind == "note" and where != file:
            continue
        if where == "<warpwise entry>":
            found = kernels(text)
            lines.append(f"{file}: {expression}: {match[5]}{_known(found)}")
            continue
        own = source[number - 1].strip() if where == file and 0 < number <= len(source) else ""
        what = _NESTED_LAUNCH if "<<<" in own and match[5].startswith("expected") else match[5]
        lines.append(f"{where}:{number}: {kind}: {what}")
        lines += [f"    {own}"] if own else []
    for name in dict.fromkeys(_UNDEFINED.findall(message)):
        lines.append(f"{name} is declared, but defined neither in this file nor in the headers it includes")
    return f"{file}: kernel {expression} does not compile:\n" + "\n".join(
        [*(dict.fromkeys(lines) or message.splitlines()[-20:]), *([advice] if advice else [])]
    )


def _known(found: Mapping[str, object]) -> str:
    return f" (kernels in this file: {', '.join(found)})" if found else ""
