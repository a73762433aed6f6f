"""How many kernels of other projects compile for sm_90 and on the emulator, and run there. No GPU is needed.

    python -m benchmarks.third_party FOLDER... [--files 8] [--seed 0] [--kernels 6] [--run SECONDS]
                                               [--json FILE] [--table FILE] [--merge]

Each FOLDER is a checkout of a project. Of its .cu files that define kernels, and that no other file includes,
``--files`` are drawn by ``--seed``. The arguments of a template are those of a launch in its file; a constant of the
launching function is replaced by its value, and its own template parameters by a type or a number: such a guess is a
class of its own where it fails. The table counts kernels by project and refusals by class. A kernel is incomplete if no
back end compiles it because its file and its project lack something: a header, a macro, template arguments, or
functions that CUDA removed.

With ``--run`` each kernel that the emulator compiles is launched there, with arguments that ``kernel_runs`` makes and
this time limit. ``--merge`` reads the --json files of earlier runs instead, and prints their table.
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

from benchmarks import kernel_runs, makefiles
from benchmarks.kernel_expressions import expressions

from warpwise import cuda
from warpwise.cache import atomic_write
from warpwise.cuda.emulator import toolchain as emulator
from warpwise.cuda.errors import CompileError, UnsupportedFeature
from warpwise.cuda.source import includes
from warpwise.cuda.source.device_code import is_host_header
from warpwise.cuda.source.headers import find

FAILURES = (RuntimeError, ValueError, TypeError, LookupError, OSError, ArithmeticError, AssertionError, AttributeError)
BACK_ENDS = ("gpu", "emulator")

# Classes of refusals of kernels that nothing could compile from what the file and its project hold.
GUESSED = "no launch gives its template arguments"
CUTLASS = "needs CUTLASS"
ABSENT = "needs a header that its project lacks"
INCOMPLETE = frozenset({
    GUESSED, CUTLASS, ABSENT, "needs a macro of its build", "exercise with gaps", "removed from CUDA",
    "removed by the preprocessor", "invalid character",
})  # fmt: skip

# The class of a refusal is the first whose pattern its message contains.
CLASSES = (
    ("needs a macro of its build", r"#\s*error"),
    ("invalid character", r"is not valid in an identifier"),
    ("exercise with gaps", r"\b(?:FIXME|TODO)\b"),
    (
        "missing header",
        r"(?:cannot|could not) open source file|No such file or directory|header.* (?:is|was) not found",
    ),
    ("dynamic parallelism", r"launch(?:es|ing)? (?:a )?kernels?|kernel launch from|dynamic parallelism"),
    ("removed from CUDA", r"\btexture\b|\bsurface\b|tex[123]D|cudaReadMode|surf[123]D"),
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
    parser.add_argument("folders", nargs="+", type=Path, help="checkouts; with --merge, files that --json wrote")
    parser.add_argument("--files", type=int, default=8, help="files of each project; 0: all")
    parser.add_argument("--kernels", type=int, default=6, help="kernels of each file; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for a file")
    parser.add_argument("--only", choices=BACK_ENDS, help="one of the two back ends")
    parser.add_argument("--run", type=float, default=0.0, help="seconds for a launch on the emulator; 0: none")
    parser.add_argument("--merge", action="store_true")
    parser.add_argument(
        "--json", type=Path, help="file to which a record of each kernel is written, with the compilers' messages"
    )
    parser.add_argument(
        "--table", type=Path, help="file to which the printed table is written, without names of kernels"
    )
    options = parser.parse_args(arguments)
    back_ends = (options.only,) if options.only else BACK_ENDS
    records: list[dict[str, Any]] = []
    if options.merge:
        records = [record for file in options.folders for record in json.loads(file.read_text())["kernels"]]
    for folder in () if options.merge else options.folders:
        seen: set[tuple[str, str]] = set()  # a header's kernels are those of the first file that includes it
        for file in drawn(folder, options.files, options.seed):
            found = measured(file, seen, back_ends, options.kernels, options.timeout, options.run)
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
    file: Path,
    seen: set[tuple[str, str]],
    back_ends: Sequence[str],
    kernels: int,
    timeout: float,
    seconds: float = 0.0,
) -> list[dict[str, Any]]:
    """One record for each kernel of ``file``, measured in a process of its own that is killed after ``timeout``."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            for record in compiled(file, seen, back_ends, kernels, seconds):
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


def compiled(
    file: Path, seen: set[tuple[str, str]], back_ends: Sequence[str], limit: int, seconds: float = 0.0
) -> Iterator[dict[str, Any]]:
    """The records of a file's kernels: first all as they are if the process is killed, then each as it is measured.

    ``seconds`` is the time limit of a launch on the emulator; 0: kernels are not launched.
    """
    try:
        built = makefiles.recipe(file.parent)
        module = cuda.load(file, built.include, dict(_split(each) for each in built.define))
        texts = {str(file): module.text}
        texts.update({str(path): text for path, text in headers(file, module.text).items()})
        own = [each for each in expressions(texts) if each[:2] not in seen]
        absent = absent_headers(file, texts)
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
            if record[back_end]["by"] is None:
                record[back_end]["class"] = cause(record[back_end], name, absent, all(each for _, each in tried))
            record[back_end]["seconds"] = round(time.perf_counter() - started, 2)
        if seconds and record.get("emulator", {}).get("by"):
            record["run"] = kernel_runs.run(module[record["emulator"]["expression"]], seconds)
        yield record


def _split(define: str) -> tuple[str, object]:
    name, _, value = define.partition("=")
    return name, value or 1


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


def cause(refused: Mapping[str, Any], name: str, absent: Sequence[str], guessed: bool) -> str:
    """The class of a refusal: that of the compiler's message, or what the file or its project lacks."""
    kind = str(refused["class"])
    if inactive(name, refused["message"]):
        return "removed by the preprocessor"
    if any(each.startswith(("cute/", "cutlass/")) for each in absent) or kind == "unsupported: cute":
        return CUTLASS
    if kind in INCOMPLETE:
        return kind
    if absent and kind == "missing header":
        return ABSENT
    if guessed and kind not in ("crash", "timeout"):
        return GUESSED
    return ABSENT if absent and kind in ("undefined name", "no matching function", "other") else kind


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">\n]+)[">]', re.MULTILINE)


def absent_headers(file: Path, texts: Mapping[str, str]) -> list[str]:
    """The headers that ``texts`` include, that are no known library's, and that neither the project nor CUDA has."""
    found = headers(file, texts[str(file)])
    folders = [file.parent, *includes.project_folders(file, texts[str(file)], [file.parent])]
    folders += [*{path.parent for path in found}, *includes.toolkit(), includes.DEVICE_HEADERS, emulator.INCLUDE]
    names = {match for text in texts.values() for _, match in _INCLUDE.findall(text) if "." in match}
    names |= {match for text in texts.values() for _, match in _INCLUDE.findall(text) if "/" in match}
    return sorted(each for each in names if not is_host_header(f"<{each}>") and not find(each, folders))


def inactive(name: str, message: str) -> bool:
    """True if the compilers do not see the kernel: it is in an inactive branch of an `#if`."""
    plain = re.escape(name.split("(")[0].rsplit("::", 1)[-1])
    return (
        re.search(
            rf'identifier "{plain}" is undefined|no kernel .{plain}\b|no __global__ function'
            rf"|[‘']{plain}[’'] was not declared in this scope",
            message,
        )
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


def counts(records: Sequence[dict[str, Any]], back_ends: Sequence[str]) -> list[str]:
    """Kernels, those that are complete, those that NVRTC, a GPU's compilers together and the emulator compile."""
    cells = [str(len(records)), str(sum(map(complete, records)))]
    if "gpu" in back_ends:
        cells.append(str(sum(record["gpu"]["by"] == "nvrtc" for record in records)))
    cells += [str(sum(record[b]["by"] is not None for record in records)) for b in back_ends]
    if not any("run" in record for record in records):
        return cells
    outcomes = Counter(record["run"]["outcome"] for record in records if "run" in record)
    both = sum(map(kernel_runs.completed, records)) if len(back_ends) == len(BACK_ENDS) else 0
    return [*cells, *(str(outcomes[each]) for each in kernel_runs.OUTCOMES), str(both)]


def complete(record: Mapping[str, Any]) -> bool:
    """False if no back end compiles the kernel, and one refuses it for what its file and its project lack."""
    results = [record[back_end] for back_end in BACK_ENDS if back_end in record]
    return any(each["by"] for each in results) or all(each["class"] not in INCOMPLETE for each in results)


def line_of(own: Sequence[dict[str, Any]], project: str, file: Path, back_ends: Sequence[str]) -> str:
    why = [f"{b}: {record[b]['class']}" for record in own for b in back_ends if record[b]["by"] is None]
    why += [
        f"run: {each['run']['class']}" for each in own if each.get("run", {}).get("outcome") in ("refused", "crash")
    ]
    return f"{project[:24]:24} {file.name[:40]:40} {' '.join(counts(own, back_ends))}  {'; '.join(dict.fromkeys(why))}"


def table(records: Sequence[dict[str, Any]], back_ends: Sequence[str]) -> str:
    heads = ["project", "files", "kernels", "complete", *(["NVRTC", "GPU"] if "gpu" in back_ends else [])]
    heads += ["emulator"] if "emulator" in back_ends else []
    ran = any("run" in record for record in records)
    heads += [*kernel_runs.OUTCOMES, "GPU and run"] if ran else []
    rows = []
    for project in [*dict.fromkeys(record["project"] for record in records), "all"]:
        own = [record for record in records if project in (record["project"], "all")]
        files = len({(record["project"], record["file"]) for record in own})
        cells = counts(own, back_ends)
        rows.append([project, str(files), *cells, *["0"] * (len(heads) - 2 - len(cells))])
    lines = ["| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows]]
    for back_end in back_ends:
        classes = refused(records, back_end).items()
        lines += ["", f"refused, {back_end}:", *(f"  {count:4} {kind}" for kind, count in classes)]
    for outcome in kernel_runs.OUTCOMES[1:] if ran else ():
        found = Counter(each["run"]["class"] for each in records if each.get("run", {}).get("outcome") == outcome)
        lines += ["", f"run, {outcome}:", *(f"  {count:4} {kind}" for kind, count in found.most_common())]
    return "\n".join(lines)


def refused(records: Sequence[dict[str, Any]], back_end: str) -> dict[str, int]:
    """The number of refusals of each class, the most frequent first."""
    return dict(Counter(record[back_end]["class"] for record in records if not record[back_end]["by"]).most_common())


if __name__ == "__main__":
    main()
