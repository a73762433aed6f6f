"""Inductor's output, read: the kernels that it defines and the calls that it makes, in their order."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from typing import Any, Literal

RAW = "--raw saves Inductor's text as it is"
JUNK = re.compile(
    r"^(args\.clear\(\)|assert_size_stride\(|assert_alignment\(|del |torch\.cuda\.set_device\(|\w*stream\w* = get_raw_stream\(|pass$)"
)
GUARD = re.compile(r"^with torch\.\w+\._DeviceGuard\(\d+\):$")


class NotWritable(ValueError):
    """Inductor's output holds something that cannot be made a file of its own; the message names it."""


@dataclass(frozen=True)
class Kernel:
    """One kernel that Inductor wrote: its source without decorators, and how it is launched.

    ``function`` is what ``@triton.jit`` or ``extern "C"`` stands on, ``helpers`` further functions that it calls, in their order.
    ``kind`` is Inductor's heuristic ("pointwise", "reduction" ...), ``meta`` its ``inductor_meta`` as far as it is plain data,
    ``parameters`` the kernel's own, with the compile-time ones in ``constants``. ``nodes`` names the operators it fuses.
    """

    name: str
    language: Literal["triton", "cpp"]
    function: str
    helpers: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    kind: str = ""
    meta: tuple[tuple[str, Any], ...] = ()
    parameters: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    nodes: str = ""

    @property
    def grid_type(self) -> str:
        return str(dict(self.meta).get("grid_type", "Grid1D"))


@dataclass(frozen=True)
class Program:
    """Inductor's output: ``kernels`` by definition, ``body`` the statements of its ``call`` without its checks and bookkeeping.

    ``arguments`` are the names that ``call`` gives its inputs, ``returned`` the expressions that it returns, and ``globals``
    the lines at the file's head that define names.
    """

    kernels: tuple[Kernel, ...]
    arguments: tuple[str, ...]
    body: tuple[str, ...]
    returned: tuple[str, ...]
    globals: tuple[tuple[str, str], ...]


def parse(code: str) -> Program:
    """Read one output of Inductor's Python wrapper. Raises ``NotWritable``, naming what is not understood."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise NotWritable(f"Inductor's output is no Python ({error}); {RAW}") from error
    lines = code.splitlines()
    kernels, names = [], []
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
            if isinstance(value, ast.Call) and ast.unparse(value.func).startswith("async_compile."):
                kernels.append(_kernel(name, value, _nodes(lines, node.lineno)))
            else:
                names.append((name, ast.unparse(node)))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                bound = (alias.asname or alias.name).partition(".")[0]
                module = f"from {node.module} " if isinstance(node, ast.ImportFrom) else ""
                names.append((bound, f"{module}import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")))
    if any(isinstance(node, ast.FunctionDef) and node.name.startswith("partition_") for node in ast.walk(tree)):
        raise NotWritable(f"Inductor split its call for CUDA graphs; {RAW}")
    call = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "call"), None)
    if call is None:
        raise NotWritable(f"Inductor's output has no function called call; {RAW}")
    arguments, body, returned = _body(lines, call)
    return Program(tuple(kernels), arguments, tuple(body), returned, tuple(names))


def _nodes(lines: list[str], start: int) -> str:
    """Which operators a kernel fuses, from the comment above it: ``softmax: aten._softmax``."""
    for line in reversed(lines[: start - 1]):
        if not line.startswith("#"):
            break
        if found := re.search(r"Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]", line):
            return f"{found[1]}: {found[2]}" if found[1] else found[2]
    return ""


def _kernel(name: str, call: ast.Call, nodes: str) -> Kernel:
    language = ast.unparse(call.func).removeprefix("async_compile.")
    texts = [value.value for value in call.args if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    if language.startswith("cpp") and texts:
        return Kernel(name, "cpp", texts[-1].strip("\n"), nodes=nodes)
    if language != "triton" or len(texts) < 2:
        raise NotWritable(f"{name}: Inductor made it by {ast.unparse(call.func)}, which is no Triton kernel; {RAW}")
    return _triton(name, textwrap.dedent(texts[1]), nodes)


def _triton(name: str, source: str, nodes: str) -> Kernel:
    tree, lines = ast.parse(source), source.splitlines()
    imports = tuple(ast.unparse(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    main = next((node for node in functions if node.name == name), functions[-1] if functions else None)
    if main is None:
        raise NotWritable(f"{name}: Inductor's source defines no function; {RAW}")
    heuristic = next(
        (
            item
            for item in main.decorator_list
            if isinstance(item, ast.Call) and "triton_heuristics" in ast.unparse(item.func)
        ),
        None,
    )
    kind = ast.unparse(heuristic.func).rpartition(".")[2] if heuristic else ""
    meta = {}
    for keyword in heuristic.keywords if heuristic else []:
        if keyword.arg == "inductor_meta":
            meta = _plain(keyword.value)
    parameters = [argument.arg for argument in main.args.args]
    constants = [
        argument.arg
        for argument in main.args.args
        if argument.annotation and "constexpr" in ast.unparse(argument.annotation)
    ]

    def text(node: ast.FunctionDef) -> str:
        return "\n".join(lines[node.lineno - 1 : node.end_lineno])

    helpers = tuple(text(node) for node in functions if node is not main)
    function = without_dead_names(text(main)).replace(f"def {main.name}(", f"def {name}(", 1)
    return Kernel(
        name,
        "triton",
        function,
        helpers,
        imports,
        kind,
        tuple(meta.items()),
        tuple(parameters),
        tuple(constants),
        nodes,
    )


def _plain(node: ast.expr) -> dict[str, Any]:
    """The items of a dictionary display that are plain data."""
    found = {}
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            try:
                found[str(ast.literal_eval(key))] = ast.literal_eval(value)  # type: ignore[arg-type]
            except (ValueError, TypeError, SyntaxError):
                continue
    return found


def without_dead_names(function: str) -> str:
    """``function`` without one-line assignments to names that nothing reads, and that call nothing."""
    while True:
        tree = ast.parse(function)
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        dead = set()
        for node in ast.walk(tree):
            if (
                isinstance(node, (ast.Assign, ast.AnnAssign))
                and node.lineno == node.end_lineno
                and node.value is not None
            ):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                calls = any(isinstance(part, ast.Call) for part in ast.walk(node.value))
                if isinstance(target, ast.Name) and target.id not in read and not calls:
                    dead.add(node.lineno)
        if not dead:
            return function
        function = "\n".join(line for at, line in enumerate(function.splitlines(), 1) if at not in dead)


def _body(lines: list[str], call: ast.FunctionDef) -> tuple[tuple[str, ...], list[str], tuple[str, ...]]:
    """Inputs' names, statements with the comments between them, and what is returned."""
    text = textwrap.dedent("\n".join(lines[call.lineno : call.end_lineno]))
    arguments: tuple[str, ...] = ()
    returned: tuple[str, ...] | None = None
    kept: list[str] = []
    for line in _statements(text):
        if found := re.fullmatch(r"\(?([\w, ]+?),? *\)? = args", line):
            arguments = tuple(name.strip() for name in found[1].split(",") if name.strip())
        elif line.startswith("return "):
            value = ast.parse(line.removeprefix("return ").strip(), mode="eval").body
            parts = value.elts if isinstance(value, ast.Tuple) else [value]
            returned = tuple(ast.unparse(part) for part in parts)
        elif not JUNK.match(line) and not GUARD.match(line):
            kept.append(re.sub(r"; del \w+(?=  #|$)", "", line))
    if returned is None:
        raise NotWritable(f"Inductor's call returns nothing; {RAW}")
    return arguments, kept, returned


def _statements(text: str) -> list[str]:
    """The lines of a function body, each statement on one line and without the indentation of a device guard."""
    found, start = [], 0
    lines = text.splitlines()
    while start < len(lines):
        end = start + 1
        statement = lines[start].strip()
        while statement and not statement.startswith("#") and end < len(lines) and _open(statement):
            statement += " " + lines[end].strip()
            end += 1
        if statement:
            found.append(statement)
        start = end
    return found


def _open(statement: str) -> bool:
    """Whether a bracket is still open at the end of ``statement``."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|#.*", "", statement)
    return sum(bare.count(mark) for mark in "([{") > sum(bare.count(mark) for mark in ")]}")
