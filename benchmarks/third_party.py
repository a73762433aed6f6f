"""How many kernels of other projects compile, for sm_90 and on the emulator. No GPU is needed.

    python benchmarks/third_party.py FOLDER... [--files 8] [--seed 0] [--kernels 6] [--json FILE] [--table FILE]

Each FOLDER is a checkout of a project. Of its .cu files that define kernels, and that no other file includes,
``--files`` are drawn by ``--seed``. The arguments of a template are those of a launch in its file; a constant of the
launching function is replaced by its value, and its own template parameters by a type or a number: such a guess is
reported where it fails. The table counts kernels by project and refusals by class.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import select
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from warpwise import cuda
from warpwise.cache import atomic_write
from warpwise.cuda.errors import CompileError, UnsupportedFeature
from warpwise.cuda.source import includes
from warpwise.cuda.source.declarations import Declaration, declarations
from warpwise.cuda.source.directives import macros, significant
from warpwise.cuda.source.kernels import parameters_of
from warpwise.cuda.source.lexer import Token, closing_angle, lex, split

CANDIDATES = 3  # expressions tried for one template
NUMBERS = frozenset({"int", "unsigned", "size_t", "long", "short", "char", "uint32_t", "int32_t", "uint", "auto"})
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, OSError, ArithmeticError, AssertionError, AttributeError)
BACK_ENDS = ("gpu", "emulator")

# The class of a refusal is the first whose pattern its message contains.
CLASSES = (
    ("needs a macro of its build", r"cannot be preprocessed:[\s\S]*#error"),
    (
        "missing header",
        r"(?:cannot|could not) open source file|No such file or directory|header.* (?:is|was) not found",
    ),
    ("dynamic parallelism", r"launch(?:es|ing)? (?:a )?kernels?|kernel launch from|dynamic parallelism"),
    ("texture or surface reference", r"\btexture\b|\bsurface\b|tex[123]D|cudaReadMode|surf[123]D"),
    ("removed from CUDA", r'"__(?:shfl(?:_up|_down|_xor)?|ballot|any|all)" is undefined|__shfl|__ballot|__any'),
    ("inline PTX", r"\bPTX\b|\basm\b"),
    ("assembler", r"ptxas"),
    ("undefined name", r"is undefined|was not declared|has not been declared|not a member|has no member|does not name"),
    ("no matching function", r"no (?:matching|instance of|suitable)|ambiguous|no operator|incompatible|cannot convert"),
    ("undefined reference", r"is declared, but defined neither|[Uu]nresolved extern|undefined reference"),
    ("host function", r"calling a __host__ function"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--files", type=int, default=8, help="files of each project; 0: all")
    parser.add_argument("--kernels", type=int, default=6, help="kernels of each file; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for a file")
    parser.add_argument("--only", choices=BACK_ENDS, help="one of the two back ends")
    parser.add_argument("--json", type=Path, help="a record of each kernel, with the messages of the compilers")
    parser.add_argument("--table", type=Path, help="the table that is printed, without names of kernels")
    options = parser.parse_args(arguments)
    back_ends = (options.only,) if options.only else BACK_ENDS
    records: list[dict[str, Any]] = []
    for folder in options.folders:
        seen: set[tuple[str, str]] = set()  # a header's kernels are those of the first file that includes it
        for file in drawn(folder, options.files, options.seed):
            found = measured(file, seen, back_ends, options.kernels, options.timeout)
            seen |= {(record["source"], record["kernel"]) for record in found}
            records += [{"project": folder.name, "file": str(file.relative_to(folder)), **record} for record in found]
            print(line_of(found, folder.name, file, back_ends), file=sys.stderr, flush=True)
        if options.json:
            atomic_write(options.json, json.dumps({"seed": options.seed, "kernels": records}, indent=1))
    print(table(records, back_ends))
    if options.table:
        atomic_write(options.table, table(records, back_ends) + "\n")


def drawn(folder: Path, count: int, seed: int) -> list[Path]:
    """``count`` of the folder's .cu files that define a kernel, drawn by ``seed``; all of them for 0."""
    files = sorted(path for path in folder.rglob("*.cu") if path.is_file())
    parts = {path.resolve() for ending in ("cu", "cuh", "h", "hpp") for path in named_sources(folder, ending)}
    files = [file for file in files if file.resolve() not in parts]
    random.Random(seed).shuffle(files)
    found: list[Path] = []
    for file in files:
        if count and len(found) == count:
            break
        text = file.read_text("utf-8-sig", "replace")
        if any("__global__" in part for part in (text, *headers(file, text).values())):
            found.append(file)
    return found


def named_sources(folder: Path, ending: str) -> list[Path]:
    """The .cu files that files with ``ending`` include: parts of them, which need not compile alone."""
    found = []
    for file in folder.rglob(f"*.{ending}"):
        text = file.read_text("utf-8-sig", "replace") if file.is_file() else ""
        found += [file.parent / name for name in _INCLUDED_SOURCE.findall(text)]
    return found


_INCLUDED_SOURCE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^"<>\n]+\.cu)[>"]', re.MULTILINE)


def headers(file: Path, text: str) -> dict[Path, str]:
    folders = [file.parent, *includes.project_folders(file, text, [file.parent])]
    return {path.resolve(): content for path, content in includes.included(text, folders).items()}


def measured(
    file: Path, seen: set[tuple[str, str]], back_ends: Sequence[str], kernels: int, timeout: float
) -> list[dict[str, Any]]:
    """One record for each kernel of ``file``, measured in a process of its own that is killed after ``timeout``."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            for record in compiled(file, seen, back_ends, kernels):
                print(json.dumps(record), file=pipe, flush=True)
        os._exit(0)
    os.close(write)
    output, until = b"", time.monotonic() + timeout
    while select.select([read], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(read, 65536)
        if not part:
            break
        output += part
    os.close(read)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    records: dict[str, dict[str, Any]] = {}
    for line in output.decode().splitlines():
        record = json.loads(line)
        records[record["source"] + record["kernel"]] = record
    return list(records.values())


def compiled(file: Path, seen: set[tuple[str, str]], back_ends: Sequence[str], limit: int) -> Iterator[dict[str, Any]]:
    """The records of a file's kernels: first all as they are if the process is killed, then each as it is measured."""
    try:
        module = cuda.load(file)
        texts = {str(file): module.text}
        texts.update({str(path): text for path, text in headers(file, module.text).items()})
        own = [each for each in expressions(texts) if each[:2] not in seen]
    except FAILURES:
        why = refusal("crash", traceback.format_exc(limit=-3), file)
        yield {"source": str(file), "kernel": "", **dict.fromkeys(back_ends, why)}
        return
    own = own[:limit] if limit else own
    for source, name, tried in own:
        why = refusal("timeout", "", file)
        yield {
            "source": source,
            "kernel": name,
            "expressions": [text for text, _ in tried],
            **dict.fromkeys(back_ends, why),
        }
    for source, name, tried in own:
        record: dict[str, Any] = {"source": source, "kernel": name, "expressions": [text for text, _ in tried]}
        for back_end in back_ends:
            started = time.perf_counter()
            record[back_end] = attempt(MAKERS[back_end], module, [text for text, _ in tried], file)
            if record[back_end]["by"] is None and inactive(name, record[back_end]["message"]):
                record[back_end]["class"] = "removed by the preprocessor"
            elif record[back_end]["by"] is None and all(guessed for _, guessed in tried):
                record[back_end]["class"] += ", guessed template arguments"
            record[back_end]["seconds"] = round(time.perf_counter() - started, 2)
        yield record


MAKERS: dict[str, Callable[[cuda.Kernel], str]] = {
    "gpu": lambda kernel: getattr(kernel.compile("sm_90"), "compiler", "nvrtc"),
    "emulator": lambda kernel: Path(kernel.build().library).name,
}


def attempt(
    make: Callable[[cuda.Kernel], str], module: cuda.Module, tried: Sequence[str], file: Path
) -> dict[str, Any]:
    """The result of the first expression that compiles, else the refusal of the first one."""
    first: dict[str, Any] | None = None
    for expression in tried:
        try:
            return {"by": make(module[expression]), "expression": expression}
        except UnsupportedFeature as error:
            found = refusal("unsupported: " + feature(str(error)), str(error), file)
        except CompileError as error:
            found = refusal(class_of(str(error)), str(error), file)
        except FAILURES:
            found = refusal("crash", traceback.format_exc(limit=-3), file)
        first = first or found
    return first or refusal("no expression", "", file)


def inactive(name: str, message: str) -> bool:
    """True if the compilers do not see the kernel: it is in an inactive branch of an `#if`."""
    plain = re.escape(name.split("(")[0].rsplit("::", 1)[-1])
    return (
        re.search(rf'identifier "{plain}" is undefined|no kernel .{plain}\b|no __global__ function', message)
        is not None
    )


def refusal(kind: str, message: str, file: Path) -> dict[str, Any]:
    match = re.search(rf"{re.escape(str(file))}[(:](\d+)", message) or re.search(r"[\w./-]+\.\w+[(:](\d+)\)?:", message)
    return {"by": None, "class": kind, "line": int(match[1]) if match else None, "message": message[:1500]}


def class_of(message: str) -> str:
    return next((name for name, pattern in CLASSES if re.search(pattern, message)), "other")


def feature(message: str) -> str:
    match = re.search(r"uses ([\w:]+)", message)
    return match[1] if match else message[:60]


def expressions(texts: Mapping[str, str]) -> list[tuple[str, str, list[tuple[str, bool]]]]:
    """The source, the name and the name expressions to try of each kernel that ``texts`` define, by their sources.

    An expression is paired with True if an argument of its template is a guess.
    """
    tokens = {source: lex(text) for source, text in texts.items()}
    code = {source: significant(part) for source, part in tokens.items()}
    defined = macros(token for part in tokens.values() for token in part)
    found = {source: declarations(part, defined) for source, part in code.items()}
    known = {name for part in found.values() for each in part for name in each.names} | set(defined)
    launched = launches([each for part in found.values() for each in part], known)
    defined_by = [(source, each) for source, part in found.items() for each in part if each.kernel and each.body]
    plain = [each for _, each in defined_by if each.tokens[0].text != "template"]
    signatures = {each.name: {parameters_of(other) for other in plain if other.name == each.name} for each in plain}
    kernels: dict[str, tuple[str, str, list[tuple[str, bool]]]] = {}
    for source, each in defined_by:
        label, tried = each.name, [(each.name, False)]
        if each.tokens[0].text == "template":
            parameters = template_parameters(each)
            given = launched.get(each.name.rsplit("::", 1)[-1], [])
            lists = (filled(parameters, arguments) for arguments in [*given, []])
            tried = list(dict.fromkeys((f"{each.name}<{', '.join(words)}>", guessed) for words, guessed in lists))
        elif len(signatures[each.name]) > 1:  # overloads, or the branches of an #if
            types = ", ".join(kind for kind, _ in parameters_of(each))
            label = f"{each.name}({types})"
            tried = [(f"static_cast<void (*)({types})>(&{each.name})", False), *tried]
        if each.name and label not in kernels:
            kernels[label] = (source, label, tried[:CANDIDATES])
    return list(kernels.values())


def launches(found: Sequence[Declaration], known: set[str]) -> dict[str, list[list[str]]]:
    """The template arguments of launches and explicit instantiations: "" for one that means nothing at file scope."""
    functions = [each for each in found if each.kind == "function" and each.body]
    called: dict[str, list[list[list[Token]]]] = {}
    for each in functions:
        for name, arguments, following in named_with_arguments(each.tokens):
            if following == "(":
                called.setdefault(name, []).append(arguments)
    launched: dict[str, list[list[str]]] = {}
    for each in found:
        if each.kernel and each.tokens[0].text == "template" and each.tokens[1].text != "<":  # explicit instantiation
            for name, arguments, _ in named_with_arguments(each.tokens[: each.head]):
                launched.setdefault(name, []).append([spelled(part, known, {}) for part in arguments])
    for each in functions:
        constants = values_of_parameters(each, called, known)
        read_constants(each.tokens, known, constants)
        for name, arguments, following in named_with_arguments(each.tokens):
            if following == "<<<":
                launched.setdefault(name, []).append([spelled(part, known, constants) for part in arguments])
    return launched


def named_with_arguments(code: Sequence[Token]) -> Iterator[tuple[str, list[list[Token]], str]]:
    """Each `name<...>` with its arguments and the token after it."""
    for index, token in enumerate(code[:-1]):
        if token.kind == "identifier" and code[index + 1].text == "<":
            end = closing_angle(code, index + 1)
            if end is not None and end + 1 < len(code):
                yield token.text, split(code[index + 2 : end]), code[end + 1].text


def values_of_parameters(
    function: Declaration, called: Mapping[str, Sequence[Sequence[Sequence[Token]]]], known: set[str]
) -> dict[str, str]:
    """The template parameters of ``function`` with the arguments of a call of it that mean something at file scope."""
    if function.tokens[0].text != "template":
        return {}
    names = [
        ([t.text for t in split(part, "=")[0] if t.kind == "identifier"] or [""])[-1]
        for part in template_parameters(function)
    ]
    for arguments in called.get(function.name.rsplit("::", 1)[-1], ()):
        values = [spelled(part, known, {}) for part in arguments]
        if values and all(values):
            return dict(zip(names, values, strict=False))
    return {}


def read_constants(code: Sequence[Token], known: set[str], constants: dict[str, str]) -> None:
    """Add the constants that ``code`` defines as `name = value;` and types that it defines as `using name = type;`."""
    for index, token in enumerate(code[:-2]):
        if token.kind == "identifier" and code[index + 1].text == "=":
            end = next((i for i in range(index + 2, min(index + 40, len(code))) if code[i].text in (";", ",")), None)
            value = spelled(code[index + 2 : end], known, constants) if end else ""
            if value and token.text not in constants:
                constants[token.text] = value if code[index - 1].text == "using" or len(value) < 4 else f"({value})"


def spelled(argument: Sequence[Token], known: set[str], constants: Mapping[str, str]) -> str:
    words = [constants.get(t.text, t.text) for t in argument]
    means = all(t.kind != "identifier" or t.text in known | WORDS or t.text in constants for t in argument)
    return " ".join(words) if means else ""


def template_parameters(kernel: Declaration) -> list[list[Token]]:
    end = closing_angle(kernel.tokens, 1)
    return [part for part in split(kernel.tokens[2:end]) if part] if end else []


def filled(parameters: Sequence[Sequence[Token]], arguments: Sequence[str]) -> tuple[list[str], bool]:
    """An argument for each template parameter: that of the launch if there is one, else a guess, and whether one is."""
    result, guessed = [], False
    for index, parameter in enumerate(parameters):
        text = [token.text for token in parameter]
        given = arguments[index] if index < len(arguments) else ""
        if not given and ("..." in text or "=" in text):
            break
        result.append(given or guess(text))
        guessed = guessed or not given
    return result, guessed


WORDS = frozenset({
    "float", "double", "int", "unsigned", "char", "short", "long", "bool", "true", "false", "half", "__half", "half2",
    "nv_bfloat16", "__nv_bfloat16", "float2", "float4", "int4", "uint4", "double2", "size_t", "uint32_t", "uint8_t",
    "int8_t", "int64_t", "uint64_t", "const", "signed", "void", "sizeof", "uint", "nvcuda", "wmma", "row_major",
    "col_major",
})  # fmt: skip


def guess(parameter: Sequence[str]) -> str:
    if parameter[0] in ("typename", "class"):
        return "float"
    if parameter[0] == "bool":
        return "true"
    kind = " ".join(parameter[:-1] if len(parameter) > 1 else parameter).split("=")[0].strip()
    return "32" if set(parameter) & NUMBERS else f"static_cast<{kind}>(0)"


def counts(records: Sequence[dict[str, Any]], back_ends: Sequence[str]) -> list[str]:
    """Kernels, those that NVRTC compiles, those that a GPU's compilers compile together, those of the emulator."""
    cells = [str(len(records))]
    if "gpu" in back_ends:
        cells.append(str(sum(record["gpu"]["by"] == "nvrtc" for record in records)))
    return [*cells, *(str(sum(record[b]["by"] is not None for record in records)) for b in back_ends)]


def line_of(own: Sequence[dict[str, Any]], project: str, file: Path, back_ends: Sequence[str]) -> str:
    why = [f"{b}: {record[b]['class']}" for record in own for b in back_ends if record[b]["by"] is None]
    return f"{project[:24]:24} {file.name[:40]:40} {' '.join(counts(own, back_ends))}  {'; '.join(dict.fromkeys(why))}"


def table(records: Sequence[dict[str, Any]], back_ends: Sequence[str]) -> str:
    heads = ["project", "files", "kernels", *(["NVRTC", "GPU"] if "gpu" in back_ends else [])]
    heads += ["emulator"] if "emulator" in back_ends else []
    rows = []
    for project in [*dict.fromkeys(record["project"] for record in records), "all"]:
        own = [record for record in records if project in (record["project"], "all")]
        files = len({(record["project"], record["file"]) for record in own})
        rows.append([project, str(files), *counts(own, back_ends)])
    lines = ["| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows]]
    for back_end in back_ends:
        classes = refused(records, back_end).items()
        lines += ["", f"refused, {back_end}:", *(f"  {count:4} {kind}" for kind, count in classes)]
    return "\n".join(lines)


def refused(records: Sequence[dict[str, Any]], back_end: str) -> dict[str, int]:
    """The number of refusals of each class, the most frequent first."""
    return dict(Counter(record[back_end]["class"] for record in records if not record[back_end]["by"]).most_common())


if __name__ == "__main__":
    main()
