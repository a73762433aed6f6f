"""The files of ``src/warpwise`` import one another in no cycle; imports inside functions count, those for type checkers
do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src"


def _modules() -> dict[str, Path]:
    """Each module name of the package, with its file; a package is named by its ``__init__``."""
    found = {}
    for path in sorted((ROOT / "warpwise").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield every import statement below ``node`` that runs: those under ``if TYPE_CHECKING`` do not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            for other in child.orelse:
                yield from _statements(ast.Module([other], []))
        else:
            yield from _statements(child)


def _imports(name: str, path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules of the package that the file ``path`` imports.

    ``from package import name`` imports the module ``package.name`` if there is one, and ``package`` otherwise.
    """
    found = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for statement in _statements(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
            continue
        base = statement.module or ""
        if statement.level:
            above = package.split(".")[: len(package.split(".")) - statement.level + 1]
            base = ".".join([*above, *([base] if base else [])])
        for alias in statement.names:
            inner = f"{base}.{alias.name}"
            found.add(inner if inner in modules else base)
    return (found & modules.keys()) - {name}


def _cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            cut = stack.index(node)
            component = stack[cut:]
            del stack[cut:]
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def test_imports_have_no_cycle() -> None:
    modules = _modules()
    graph = {name: _imports(name, path, modules) for name, path in modules.items()}
    cycles = _cycles(graph)
    assert not cycles, "import cycles:\n" + "\n".join("  " + ", ".join(cycle) for cycle in cycles)


def test_a_cycle_is_found_wherever_the_import_stands(tmp_path: Path) -> None:
    inside = tmp_path / "a.py"
    inside.write_text("def call():\n    from warpwise.b import value\n    return value\n")
    typed = tmp_path / "b.py"
    typed.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from warpwise import c\nelse:\n    from . import a\n"
    )
    modules = {"warpwise.a": inside, "warpwise.b": typed, "warpwise.c": inside}
    graph = {name: _imports(name, path, modules) for name, path in modules.items()}
    assert graph == {"warpwise.a": {"warpwise.b"}, "warpwise.b": {"warpwise.a"}, "warpwise.c": {"warpwise.b"}}
    assert _cycles(graph) == [["warpwise.a", "warpwise.b"]]
