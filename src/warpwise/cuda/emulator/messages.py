"""The compiler's messages about a kernel, in terms of the user's file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from warpwise.cuda.emulator.rewrite import ABSENT
from warpwise.cuda.emulator.toolchain import INCLUDE
from warpwise.cuda.errors import UnsupportedFeature
from warpwise.cuda.source.advice import removed_advice
from warpwise.cuda.source.declarations import declarations
from warpwise.cuda.source.directives import macros, significant
from warpwise.cuda.source.includes import toolkit
from warpwise.cuda.source.kernels import LIBRARY, OVERLOAD, KernelDeclaration, kernel_of, kernels
from warpwise.cuda.source.lexer import lex, split

_FULL_DISK = re.compile(r"No space left on device|File size limit exceeded|Disk quota exceeded")
_REQUIRED = re.compile(r"(.+?):(\d+):\d+:\s+required from ")  # of g++; clang's notes name the user's line
_UNDEFINED = re.compile(r"undefined reference to [`']([^']+)'")  # of ld.bfd and of gold
_MACRO = re.compile(r"(.+?):(\d+):\d+: note: (in expansion of|expanded from) macro ['‘]WW_")  # of g++; of clang
_UNCLOSED = re.compile(r"to match this ['‘]\{['’]")
_UNDECLARED = r"(?:has not been declared|is not a member of ['‘]cuda['’]|does not name|is not a namespace-name)"
_HEADERS = {"cub": "cub/cub.cuh", "atomic": "cuda/atomic", "atomic_ref": "cuda/atomic"}


def refuse_absent(message: str, file: str, text: str, expression: str, left_out: Sequence[str] = ()) -> None:
    """Raise ``UnsupportedFeature`` if the compiler misses what the emulator does not implement.

    ``left_out`` are the included headers of the CUDA toolkit that the emulator has no version of.
    """
    source = text.splitlines()
    unexpected = rf"^{re.escape(file)}:(\d+):.* error: expected (?:primary-)?expression"
    for line in re.findall(unexpected, message, re.MULTILINE):
        if int(line) <= len(source) and re.search(r"<<\s*<", source[int(line) - 1]):
            raise UnsupportedFeature(
                f"{file}:{line}: kernel {expression} launches a kernel (dynamic parallelism), which Warpwise does not "
                "support: launch it from the host"
            )
    _refuse_left_out(message, expression, left_out)
    names = "|".join((*ABSENT, *_HEADERS))
    match = re.search(rf"^(.+?:\d+):.* error: ['‘](?:cuda::)?({names})['’] {_UNDECLARED}", message, re.MULTILINE)
    if match and _header_advice(message, text):
        return
    match = match or re.search(
        r"^(.+?:\d+):.* error: ['‘](\w+)['’] (?:is not a member of|in namespace) ['‘]cub['’]", message, re.MULTILINE
    )
    if match:
        raise UnsupportedFeature(
            f"{match[1]}: kernel {expression} uses {match[2]}, which the emulator does not implement; run it on a GPU"
        )


# The missing name and, in the second form, its namespace.
_MISSING = re.compile(
    r"^(.+?:\d+):.* error: (?:(?:no (?:member|type|template) named |use of undeclared identifier )?"
    r"['‘](\w+)(?:<[^\n]*)?['’]"
    r"(?: (?:is not a member of|in namespace) ['‘]([\w:]+)['’]"
    r"| (?:was|has) not (?:been )?declared| does not name| is not a (?:namespace-name|template|class)| is not a type"
    r"|[;,\n]|$))",
    re.MULTILINE,
)


def _refuse_left_out(message: str, expression: str, left_out: Sequence[str]) -> None:
    """Raise ``UnsupportedFeature`` if a missing name is one that a header of ``left_out`` may declare.

    A header in a folder declares the namespace of the folder's name; any other header declares names without one.
    """
    for where, name, space in _MISSING.findall(message):
        outer = (space or name).partition("::")[0]
        library = [each for each in left_out if each.partition("/")[0] == outer]
        found = library or ([] if space else [each for each in left_out if _declares(each, name)])
        if found:
            full = f"{space}::{name}" if space else f"namespace {name}" if library else name
            headers = " and ".join(f"<{each}>" for each in found)
            raise UnsupportedFeature(
                f"{where}: kernel {expression} uses {full}, and the emulator has no version of {headers}; run it on a "
                "GPU"
            )


def _declares(header: str, name: str) -> bool:
    """True if the installed CUDA toolkit's ``header`` mentions ``name``."""
    paths = [folder / header for folder in toolkit()]
    files = [each for path in paths for each in (path, path.with_suffix(".hpp")) if each.is_file()]
    return any(re.search(rf"\b{re.escape(name)}\b", each.read_text(errors="replace")) for each in files)


# CUDA's compiler also finds names in base classes that depend on template parameters, and a class may redeclare names.
_UNFOUND = re.compile(r"no declarations were found by argument-dependent lookup at the point of instantiation")
_IN_BASE = re.compile(r": note: declarations in dependent base ")


def is_permitted(message: str) -> bool:
    """True if g++ refuses only what CUDA's compiler accepts, so that the option `-fpermissive` helps."""
    errors = re.findall(r": (?:fatal )?error: (.*)", message)
    unfound = sum(_UNFOUND.search(each) is not None for each in errors)
    redeclared = sum("changes meaning of" in each and each.endswith("[-fpermissive]") for each in errors)
    return 0 < len(errors) == unfound + redeclared and unfound == len(_IN_BASE.findall(message))


def _header_advice(message: str, text: str) -> str:
    """The header of the name that the compiler misses, if ``text`` does not include it; else an empty string."""
    match = re.search(rf" error: ['‘](?:cuda::)?({'|'.join(_HEADERS)})['’] {_UNDECLARED}", message)
    header = _HEADERS[match[1]] if match else ""
    included = header and re.search(rf"#\s*include\s*[<\"]{header.partition('/')[0]}/", text)
    return f"{match[1]} is declared in <{header}>, which is not included" if match and not included else ""


def readable(message: str, file: str, text: str, expression: str) -> str:
    """Return the compiler's errors, each with the user's line below it, without notes about generated code."""
    source = text.splitlines()
    if full := _FULL_DISK.search(message):
        return (
            f"{file}: kernel {expression} was not compiled, because the compiler cannot write a file ({full[0]}); free "
            "space in the temporary folder and in the cache, or set TMPDIR and WARPWISE_CACHE to other folders"
        )
    lines: list[str] = []
    ours: list[str] = []  # errors in the header that follows the source, after a missing brace
    advice = removed_advice(message) or _header_advice(message, text)
    user: tuple[str, int] | None = None  # where the user's code instantiates a template of the emulator
    placed: set[tuple[str, int]] = set()  # lines with an error
    printed = message.splitlines()
    for position, line in enumerate(printed, 1):
        if "In instantiation of" in line:
            user = None
        elif (required := _REQUIRED.match(line)) and user is None and INCLUDE not in Path(required[1]).parents:
            user = required[1], int(required[2])
        match = re.match(r"(.+?):(\d+):(?:(\d+):)? (?:fatal )?(error|note): (.*)", line)
        if match is None or _UNDEFINED.search(line) or _MACRO.match(line):
            continue
        where, number, kind = match[1], int(match[2]), match[4]
        if kind == "error" and user is not None and INCLUDE in Path(where).parents:
            where, number = user
        if kind == "error" and (declared := _declared_by_macro(where, number, printed[position:])):
            if declared in placed:  # follows from an earlier error
                continue
            where, number = declared
        if (kind == "note" and where != file) or "<expression error>" in match[5]:  # follows from an earlier error
            continue
        if kind == "error" and Path(where) == INCLUDE / "ww" / "entry.h":
            ours.append(f"{where}:{number}: {kind}: {match[5]}")
            continue
        if kind == "note" and ours and _UNCLOSED.search(match[5]):
            lines.append(f"{where}:{number}: error: this '{{' has no matching '}}'")
            lines += [f"    {source[number - 1].strip()}"] if 0 < number <= len(source) else []
            continue
        if where == "<warpwise entry>":
            found = kernels(text)
            reason = _missing_arguments(expression, found) or _overloads(expression, match[5], text)
            reason = reason or f"{match[5]}{_known(found)}"
            lines.append(f"{file}: {expression}: {reason}")
            continue
        own = source[number - 1].strip() if where == file and 0 < number <= len(source) else ""
        lines.append(f"{where}:{number}: {kind}: {match[5]}")
        placed |= {(where, number)} if kind == "error" else set()
        lines += [f"    {own}"] if own else []
    for name in dict.fromkeys(_UNDEFINED.findall(message)):
        lines.append(f"{name} is declared, but defined neither in this file nor in the headers it includes")
    return f"{file}: kernel {expression} does not compile:\n" + "\n".join(
        [*(dict.fromkeys(lines) or ours or message.splitlines()[-20:]), *([advice] if advice else [])]
    )


def _declared_by_macro(where: str, number: int, following: Sequence[str]) -> tuple[str, int] | None:
    """The user's line if an error is in code that a macro of the emulator declares there, as for `__shared__`."""
    for line in following:
        if " error: " in line:
            break
        match = _MACRO.match(line)
        if match and match[3] == "expanded from":
            return where, number
        if match and INCLUDE not in Path(match[1]).parents:
            return (match[1], int(match[2])) if match[1] != "<warpwise entry>" else None
    return None


def _missing_arguments(expression: str, found: dict[str, KernelDeclaration]) -> str:
    """The template parameters of a kernel for which its name expression gives no argument, for a message."""
    kernel = kernel_of(expression, found)
    first, _, given = expression.partition("<")
    if kernel is None or not kernel.template or OVERLOAD.match(expression):
        return ""
    count = len(split(lex(given.rstrip().removesuffix(">"), directives=False))) if given else 0
    missing = [one for one in kernel.template_parameters[count:] if "=" not in one and "..." not in one]
    if not missing:
        return ""
    return f"no template argument for {', '.join(missing)}; {first} has <{', '.join(kernel.template_parameters)}>"


def _overloads(expression: str, message: str, text: str) -> str:
    """The cause if the compiler cannot choose a function: wrong template arguments, or several of this name."""
    if not re.search("unable to deduce|overloaded function", message):
        return ""
    kernel = kernel_of(expression, kernels(text))
    name, _, given = expression.partition("<")
    if kernel is not None and kernel.template and given and not OVERLOAD.match(expression) and _alone(kernel, text):
        return f"<{given.rstrip()} does not fit {name}, which has <{', '.join(kernel.template_parameters)}>"
    return (
        f"several functions have this name; name one by its parameters, as in "
        f'"static_cast<void (*)(float*, int)>({expression})"'
    )


def _alone(kernel: KernelDeclaration, text: str) -> bool:
    """True if ``text`` defines no other function of the kernel's name, and the headers always included declare none."""
    tokens = lex(text)
    defined = [
        each
        for each in declarations(significant(tokens), macros(tokens))
        if each.kind == "function" and each.body and each.name == kernel.name
    ]
    specialised = [each for each in defined if [token.text for token in each.tokens[:3]] == ["template", "<", ">"]]
    return len(defined) - len(specialised) == 1 and kernel.name not in LIBRARY


def _known(found: Mapping[str, object]) -> str:
    return f" (kernels in this file: {', '.join(found)})" if found else ""
