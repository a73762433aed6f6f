"""What an operation is called on the command line: its name, or the Python file that defines it."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import traceback
from pathlib import Path
from types import ModuleType

import click

from warpwise import operation
from warpwise.cache import key
from warpwise.cli.kept import near
from warpwise.operation import Op, Rung

_OF_FILE: dict[Path, tuple[str, ...]] = {}  # which operations a file that was loaded registered


def is_file(text: str) -> bool:
    """Whether ``text`` means a Python file ("softplus.py", "softplus.py:softplus") and no operation's name."""
    return text.endswith(".py") or ".py:" in text


def is_rung(text: str) -> bool:
    """Whether ``text`` means an operation, or a rung of it, and no file of kernels: "softmax:k03", "softplus.py:k01"."""
    return is_file(text) or (not Path(text).is_file() and (":" in text or text in known_ops()))


def known_ops() -> list[str]:
    """The names of all operations: Warpwise's, those of other packages, and those of files that were loaded."""
    import warpwise.ops  # noqa: F401 - registers its operations

    operation.load_entry_points()
    return [op.name for op in operation.all_ops()]


def find_ops(text: str, hint: str = "OP") -> list[Op]:
    """The operation called ``text``, or those that a file defines; ``file.py:name`` is one of several.

    A file is loaded anew each time. Raises ``click.BadParameter`` saying what is near, or where the file fails.
    """
    names = known_ops()
    if not is_file(text):
        if text not in names:
            raise click.BadParameter(f"no operation {text!r}{near(text, names)}", param_hint=hint)
        return [operation.get(text)]
    file, _, name = text.partition(".py:")
    found = load_file(Path(file if file.endswith(".py") else f"{file}.py"), hint)
    if not name:
        return found
    chosen = [op for op in found if op.name == name]
    if not chosen:
        raise click.BadParameter(
            f"{file}.py: no operation {name!r} in it{near(name, [op.name for op in found])}", param_hint=hint
        )
    return chosen


def find_op(text: str, hint: str = "OP") -> Op:
    """The one operation that ``text`` names, as ``find_ops`` finds it."""
    found = find_ops(text, hint)
    if len(found) > 1:
        ways = ", ".join(f"{text}:{op.name}" for op in found)
        raise click.BadParameter(f"{text} defines {len(found)} operations: choose one of {ways}", param_hint=hint)
    return found[0]


def find_target(text: str, hint: str = "OP:RUNG") -> tuple[Op, str]:
    """The operation that ``softmax:k03``, ``own.py``, ``own.py:k02`` or ``own.py:softplus:k02`` names, and what it says of a rung."""
    if not is_file(text):
        name, _, rung = text.partition(":")
        return find_op(name, hint), rung
    file, _, rest = text.removesuffix(".py").partition(".py:")
    found = load_file(Path(f"{file}.py"), hint)
    first, _, rung = rest.partition(":")
    for op in found:
        if op.name == first:
            return op, rung
    if len(found) > 1:
        names = ", ".join(f"{file}.py:{op.name}" for op in found)
        raise click.BadParameter(f"{text}: expected one of {names}, with :RUNG after it or not", param_hint=hint)
    return found[0], rest


def find_rung(op: Op, name: str, hint: str = "--rung") -> Rung:
    """The rung of ``op`` called ``name``. Raises ``click.BadParameter`` saying which are near."""
    try:
        return op.rung(name)
    except operation.UnknownRung as error:
        names = [rung.name for rung in op.rungs]
        raise click.BadParameter(f"{op.name}: no rung {name!r}{near(name, names)}", param_hint=hint) from error


def load_file(path: Path, hint: str = "OP") -> list[Op]:
    """Run a user's file and return the operations in it, which are registered then; a second time it replaces them.

    Modules beside the file can be imported from it. Raises ``click.BadParameter`` naming the file, and the line it fails at.
    """
    where = path.resolve()
    if not where.is_file():
        raise click.BadParameter(f"{path}: no such file; `warpwise new {path.stem}` writes one", param_hint=hint)
    known_ops()
    for name in _OF_FILE.pop(where, ()):
        operation.unregister(name)
    before = {op.name for op in operation.all_ops()}
    module = _run(path, where, hint)
    for value in vars(module).values():
        if isinstance(value, Op) and value.name not in {op.name for op in operation.all_ops()}:
            operation.register(value)
    found = [op for op in operation.all_ops() if op.name not in before]
    _OF_FILE[where] = tuple(op.name for op in found)
    if not found:
        raise click.BadParameter(
            f"{path}: no operation in it: expected register(Op(spec, rungs, default)), as `warpwise new` writes it",
            param_hint=hint,
        )
    return found


def _run(path: Path, where: Path, hint: str) -> ModuleType:
    if str(where.parent) not in sys.path:
        sys.path.append(str(where.parent))  # last, so that a file beside it hides no module of anybody else's
    linecache.checkcache(str(where))  # Triton and error messages read the source of what runs
    name = f"warpwise_file_{where.stem}_{key(where)}"
    spec = importlib.util.spec_from_file_location(name, where)
    if spec is None or spec.loader is None:
        raise click.BadParameter(f"{path}: expected a Python file", param_hint=hint)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    before = {op.name for op in operation.all_ops()}
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        for op in list(operation.all_ops()):
            if op.name not in before:
                operation.unregister(op.name)
        raise click.BadParameter(
            f"{path}{_line(error, where)}: {type(error).__name__}: {error}", param_hint=hint
        ) from error
    return module


def _line(error: BaseException, where: Path) -> str:
    """``:12``, the line of the user's file that ``error`` comes from, if it is known."""
    if isinstance(error, SyntaxError) and error.filename == str(where):
        return f":{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(where)]
    return f":{lines[-1]}" if lines else ""
