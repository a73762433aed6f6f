"""Pages of documentation whose code blocks are executed: ``python -m tests.docs.pages [PAGE.md...]`` rewrites outputs.

The blocks of a page run in order, in a folder of the page's own:

- A block with ``title="FILE"`` is written to FILE; a ``diff`` block with a title changes FILE. If no
  command follows the ``diff``, the last command is repeated, and it must end with status 0.
- In a ``console`` block a line that starts with ``$ `` is a command: ``warpwise`` or ``python``, after assignments of
  variables. The lines after it are its whole output, in which ``...`` stands for any text.
- Before a block, ``<!-- test: full -->`` leaves it to ``make test-full``, ``gpu`` executes it with a GPU only, and
  ``numbers`` lets the numbers of its output vary; ``none, REASON`` does not execute it.
"""

from __future__ import annotations

import io
import linecache
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import torch

import warpwise
from warpwise.cli.ladder_table import STAGES

DOCS = Path(__file__).parents[2] / "docs"
COLUMNS = 100
_FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?$")
_QUOTES = str.maketrans("‘’", "''")
_MARK = re.compile(r"^<!-- test: (none, .+|(?:(?:full|gpu|numbers)(?:, )?)+) -->$")
_NUMBER = r"\d(?:[\d.,]*\d)?"
_PROGRESS = re.compile(rf"^\w+: (?:{'|'.join(STAGES.values())})\b")


@dataclass
class Command:
    """A command of a ``console`` block, and the lines of its output."""

    text: str
    output: list[str] = field(default_factory=list)


@dataclass
class Block:
    """A code block. ``line`` is the number of its first line inside the fence, from 1."""

    language: str
    title: str
    line: int
    lines: list[str]
    marks: frozenset[str]

    @property
    def commands(self) -> list[Command]:
        found: list[Command] = []
        continued = False
        for line in self.lines:
            if continued:
                found[-1].text += f"\n{line}"
            elif line.startswith("$ "):
                found.append(Command(line[2:]))
            else:
                found[-1].output.append(line)
            continued = (continued or line.startswith("$ ")) and line.endswith("\\")
        return found


def blocks(text: str) -> list[Block]:
    """Return the fenced code blocks of a page. Raises ``ValueError`` for a fence that is not closed."""
    lines = text.splitlines()
    found: list[Block] = []
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            if lines[at].startswith("```"):
                raise ValueError(f'line {at + 1}: expected ```LANGUAGE or ```LANGUAGE title="FILE", got {lines[at]}')
            at += 1
            continue
        end = next((n for n in range(at + 1, len(lines)) if lines[n] == "```"), None)
        if end is None:
            raise ValueError(f"line {at + 1}: the code block is not closed")
        mark = _MARK.match(lines[at - 1]) if at else None
        if at and lines[at - 1].startswith("<!-- test") and not mark:
            raise ValueError(f"line {at}: unknown mark {lines[at - 1]}")
        marks = frozenset(mark[1].split(", ")) if mark else frozenset()
        found.append(Block(fence[1], fence[2] or "", at + 2, lines[at + 1 : end], marks))
        at = end + 1
    return found


def changed(text: str, diff: Sequence[str]) -> str:
    """Return ``text`` after ``diff``, whose lines start with " ", "-" or "+".

    Raises ``ValueError`` unless the lines before the change occur once.
    """
    before = "".join(f"{line[1:]}\n" for line in diff if not line.startswith("+"))
    after = "".join(f"{line[1:]}\n" for line in diff if not line.startswith("-"))
    if text.count(before) != 1:
        raise ValueError(f"the lines before the change occur {text.count(before)} times:\n{before}")
    return text.replace(before, after)


def matches(expected: Sequence[str], output: Sequence[str], numbers: bool = False) -> bool:
    """Return whether ``output`` is ``expected``, in which ``...`` stands for any text. g++ has two kinds of quotes.

    With ``numbers`` a number stands for any number, and white space for any white space.
    """
    shown, got = ("\n".join(lines).translate(_QUOTES) for lines in (expected, output))
    parts = [_pattern(part, numbers) for part in shown.split("...")]
    return re.fullmatch(".*?".join(parts), got, re.DOTALL) is not None


def _pattern(text: str, numbers: bool) -> str:
    """A regular expression for ``text``, or for it with any numbers and any white space."""
    if not numbers:
        return re.escape(text)
    found = _NUMBER.join(re.escape(between) for between in re.split(_NUMBER, text))
    return re.sub(r"(?:\\\s)+", r"\\s+", found)


def run(command: str) -> tuple[list[str], int]:
    """Run a command of a page in the working folder; return the lines that it prints, and its exit status."""
    words = shlex.split(command.replace("\\\n", " "))
    name, equals, value = words[0].partition("=")
    if equals:
        with _variable(name, value):
            return run(shlex.join(words[1:]))
    printed = io.StringIO()
    if words[:2] == ["warpwise", "run"]:  # the program writes to the file descriptor
        python = [sys.executable, "-m", *words]
        environment = {**os.environ, "PYTHONPATH": str(Path(warpwise.__file__).resolve().parents[1])}
        done = subprocess.run(
            python, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment
        )
        return _lines(done.stdout), done.returncode
    with _process(), redirect_stdout(printed), redirect_stderr(printed):
        if words[0] == "warpwise":
            status = _warpwise(words[1:])
        elif words[0] == "python":
            status = _python(words[1:])
        else:
            raise ValueError(f"expected a command of warpwise or python, got {command!r}")
    return _lines(printed.getvalue()), status


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def _warpwise(arguments: Sequence[str]) -> int:
    from warpwise import cli

    sys.argv = ["warpwise", *arguments]
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _python(arguments: Sequence[str]) -> int:
    """Run a script in this process. An exception is printed as Python prints it."""
    sys.argv = list(arguments)
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    except Exception as error:  # noqa: BLE001 - as the interpreter does
        frame = error.__traceback__
        while frame and frame.tb_frame.f_code.co_filename != arguments[0]:
            frame = frame.tb_next
        print("".join(traceback.format_exception(type(error), error, frame)), end="")
        return 1
    return 0


def _lines(text: str) -> list[str]:
    """The lines of ``text`` without the progress of a climb, which a terminal does not show as lines."""
    lines = [line.rstrip() for line in text.splitlines() if not _PROGRESS.match(line)]
    while lines and not lines[-1]:
        lines.pop()
    return lines


@dataclass
class Difference:
    """A command whose output is not what the page shows. ``line`` is that of its block."""

    line: int
    command: Command
    output: list[str]

    def __str__(self) -> str:
        shown, got = "\n".join(self.command.output), "\n".join(self.output)
        return f"line {self.line}: $ {self.command.text}\n--- the page shows\n{shown}\n--- the command prints\n{got}"


def execute(text: str, full: bool = True, gpu: bool = False) -> Iterator[Difference]:
    """Execute a page in the working folder; yield the commands that print something else.

    With ``gpu`` only files and the commands for a GPU are executed.
    """
    last: Command | None = None
    found = [block for block in blocks(text) if "none" not in block.marks]
    for number, block in enumerate(found):
        if ("full" in block.marks and not full) or ("gpu" in block.marks) != (gpu and block.language == "console"):
            continue
        if block.language == "console":
            for command in block.commands:
                output, status = run(command.text)
                last = command
                if not matches(command.output, output, "numbers" in block.marks):
                    yield Difference(block.line, command, output)
        elif block.language == "diff" and block.title:
            path = Path(block.title)
            path.write_text(changed(path.read_text(), block.lines))
            linecache.clearcache()
            following = found[number + 1].language if number + 1 < len(found) else ""
            if following not in ("console", "diff") and last and not gpu:
                output, status = run(last.text)
                if status:
                    raise AssertionError(f"line {block.line}: after the change: " + "\n".join(output))
        elif block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text("".join(f"{line}\n" for line in block.lines))
            linecache.clearcache()
        else:
            raise ValueError(f"line {block.line}: a block is a file, a diff of a file, or a console; see pages.py")


@contextmanager
def folder(path: Path) -> Iterator[None]:
    """Work in ``path``."""
    before = os.getcwd()
    os.chdir(path)
    try:
        with _variable("COLUMNS", str(COLUMNS)):
            yield
    finally:
        os.chdir(before)


@contextmanager
def _process() -> Iterator[None]:
    """What a process of its own would do: operations and modules of the page's files are gone afterwards."""
    from warpwise.cli import targets
    from warpwise.operation import autograd, registry

    targets.known_ops()
    operations, modules, files, argv, path = dict(registry._OPS), set(sys.modules), targets._OF_FILE, sys.argv, sys.path
    targets._OF_FILE, sys.path = {}, [os.getcwd(), *path]
    try:
        yield
    finally:
        targets._OF_FILE, sys.argv, sys.path = files, argv, path
        for name in set(registry._OPS) - set(operations):
            del registry._OPS[name]
            autograd.TAKEN.discard(name)
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None) or ""
            if Path(file).is_relative_to(os.getcwd()) or name.startswith("warpwise_file_"):
                del sys.modules[name]


def rewritten(text: str, differences: Sequence[Difference]) -> str:
    """Return the page with the outputs of ``differences`` in place of those that it shows."""
    lines = text.splitlines()
    for difference in sorted(differences, key=lambda one: -one.line):
        at = difference.line - 1
        command = f"$ {difference.command.text}".splitlines()
        while lines[at : at + len(command)] != command:
            at += 1
        start = at + len(command)
        lines[start : start + len(difference.command.output)] = difference.output
    return "\n".join(lines) + "\n"


def main(names: Sequence[str]) -> None:
    """Rewrite the outputs of the pages, by default of all pages of the guide."""
    for page in [Path(name).resolve() for name in names] or sorted((DOCS / "guide").glob("*.md")):
        text = page.read_text()
        with tempfile.TemporaryDirectory() as name, folder(Path(name)):
            differences = list(execute(text, gpu=torch.cuda.is_available()))
        for difference in differences:
            print(f"{page.name}: {difference}\n")
        page.write_text(rewritten(text, differences))


if __name__ == "__main__":
    main(sys.argv[1:])
