"""Operations and rungs as named on the command line: by name, or by the Python file that defines them."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import traceback
import warnings
from pathlib import Path
from types import ModuleType

import click

from warpwise import operation
from warpwise.cache import key
from warpwise.cli.kept import near
from warpwise.cli.python_kernels import kernels_in
from warpwise.operation import Op, Rung

KERNELS_APART = "`warpwise check` and `warpwise explain` take kernels without an operation"
_OF_FILE: dict[Path, tuple[str, ...]] = {}  # the operations that each loaded file registered
_IMPORTED: dict[Path, tuple[str, ...]] = {}  # the modules of its package that each loaded file imported


def is_file(text: str) -> bool:
    """True if ``text`` names a Python file ("softplus.py", "softplus.py:softplus")."""
    return text.endswith(".py") or ".py:" in text


def is_rung(text: str) -> bool:
    """True if ``text`` names an operation or a rung ("softmax:k03", "softplus.py:k01"), not a file of kernels."""
    return is_file(text) or (not Path(text).is_file() and (":" in text or registered(text) is not None))


def known_ops() -> list[str]:
    """The names of all operations: Warpwise's, other packages', and those of loaded files."""
    import warpwise.ops  # noqa: F401 - registers its operations

    with warnings.catch_warnings(record=True) as failed:
        warnings.simplefilter("always")
        operation.load_entry_points()
    for warning in failed:
        click.echo(f"note: {warning.message}", err=True)
    return [op.name for op in operation.all_ops()]


def find_ops(text: str, hint: str = "OP", advice: str = KERNELS_APART) -> list[Op]:
    """The operation called ``text``, or those that a file defines; ``file.py:name`` selects one of them.

    A file is loaded again at each call. Raises ``click.BadParameter`` with similar names, or the line at which the
    file fails, or ``advice`` for a file without an operation.
    """
    if text.endswith((".cu", ".cuh")):
        raise click.BadParameter(
            f"{text}: expected an operation, or a Python file that defines one; `warpwise check` and "
            "`warpwise explain` take CUDA files",
            param_hint=hint,
        )
    if not is_file(text):
        if Path(text).is_dir():
            raise click.BadParameter(
                f"{text} is a folder: expected an operation, or the Python file that defines one, such as "
                f"{Path(text) / '__init__.py'}",
                param_hint=hint,
            )
        return [_named(text, hint)]
    file, _, name = text.partition(".py:")
    found = load_file(Path(file if file.endswith(".py") else f"{file}.py"), hint, advice)
    if not name:
        return found
    chosen = [op for op in found if name in (op.name, op.spec.name)]
    if not chosen:
        raise click.BadParameter(
            f"{file}.py: no operation {name!r} in it{near(name, [op.spec.name for op in found])}", param_hint=hint
        )
    return chosen


def split_rung(text: str) -> tuple[str, str]:
    """The operation and the rung of ``softmax:k03`` or ``mypackage::softmax:k03``; "" without a rung."""
    namespace, colons, rest = text.rpartition("::")
    name, _, rung = rest.partition(":")
    return f"{namespace}{colons}{name}", rung


def registered(name: str) -> Op | None:
    """The registered operation of that name, with or without the namespace of its package, or None."""
    known_ops()
    try:
        return operation.get(name)
    except LookupError:
        return None


def _named(name: str, hint: str) -> Op:
    """As ``registered``. Raises ``click.BadParameter`` with the names of several packages, or with similar names."""
    if (op := registered(name)) is not None:
        return op
    shared = [op.name for op in operation.all_ops() if op.spec.name == name]
    if shared:
        raise click.BadParameter(f"several operations {name!r}: expected {' or '.join(shared)}", param_hint=hint)
    raise click.BadParameter(f"no operation {name!r}{near(name, known_ops())}", param_hint=hint)


def find_op(text: str, hint: str = "OP", advice: str = KERNELS_APART) -> Op:
    """As ``find_ops``, for exactly one operation."""
    found = find_ops(text, hint, advice)
    if len(found) > 1:
        ways = ", ".join(f"{text}:{op.spec.name}" for op in found)
        raise click.BadParameter(f"{text} defines {len(found)} operations: choose one of {ways}", param_hint=hint)
    return found[0]


def find_target(text: str, hint: str = "OP:RUNG", advice: str = "") -> tuple[Op, str]:
    """The operation and the rung's name, "" if there is none: ``softmax:k03``, ``own.py``, ``own.py:softplus:k02``."""
    if not is_file(text):
        name, rung = split_rung(text)
        return find_op(name, hint), rung
    file, _, rest = text.removesuffix(".py").partition(".py:")
    found = load_file(Path(f"{file}.py"), hint, advice)
    first, _, rung = rest.partition(":")
    for op in found:
        if op.spec.name == first:
            return op, rung
    if len(found) > 1:
        names = ", ".join(f"{file}.py:{op.spec.name}" for op in found)
        raise click.BadParameter(f"{text}: expected one of {names}, optionally followed by :RUNG", param_hint=hint)
    return found[0], rest


def find_rung(op: Op, name: str, hint: str = "--rung") -> Rung:
    """The rung of ``op`` called ``name``. Raises ``click.BadParameter`` with similar names."""
    try:
        return op.rung(name)
    except operation.UnknownRung as error:
        names = [rung.name for rung in op.rungs]
        raise click.BadParameter(f"{op.name}: no rung {name!r}{near(name, names)}", param_hint=hint) from error


def run_file(path: Path, hint: str = "FILE", wanted: str = "") -> ModuleType:
    """Run a user's file and return its module. Operations that the file registers are unregistered again.

    An error after the definition of ``wanted``, such as a launch on a GPU that is absent, is a note on standard error.
    Raises ``click.BadParameter`` with the file and the line at which it fails.
    """
    known_ops()
    before = {op.name for op in operation.all_ops()}
    module = _run(path, path.resolve(), hint, wanted)
    for op in list(operation.all_ops()):
        if op.name not in before:
            operation.unregister(op.name)
    return module


def load_file(path: Path, hint: str = "OP", advice: str = "") -> list[Op]:
    """Run a user's file, and register and return its operations, replacing those of an earlier run.

    The file can import modules of its folder. Raises ``click.BadParameter`` with the file and the line at which it
    fails, or for a file without an operation with ``advice``, by default the options for a kernel.
    """
    where = path.resolve()
    if not where.is_file():
        raise click.BadParameter(f"{path}: no such file; `warpwise new {path.stem}` writes one", param_hint=hint)
    known_ops()
    _forget(where)
    before = {op.name for op in operation.all_ops()}
    module = _run(path, where, hint)
    values = [value for value in vars(module).values() if isinstance(value, Op)]
    for value in values:
        if value.name not in {op.name for op in operation.all_ops()}:
            operation.register(value)
    found = [op for op in operation.all_ops() if op.name not in before]
    _OF_FILE[where] = tuple(op.name for op in found)
    if where.name != "__init__.py":  # a module of a package: its own operations, not all that the package registers
        found = [op for op in operation.all_ops() if op in values] or found
    elif not found:  # registered when the package was imported
        folder = where.parent
        found = [op for op in operation.all_ops() if any(folder in rung.source.parents for rung in op.rungs)]
    if not found:
        kernels = ", ".join(kernels_in(module))
        there = f"for one of its kernels ({kernels})" if kernels else "for a kernel"
        raise click.BadParameter(
            f"{path}: no operation in it: expected register(Op(spec, rungs, default)), as `warpwise new` writes it; "
            + (advice or f"{there} give --kernel, --grid and --arg"),
            param_hint=hint,
        )
    return found


def _forget(where: Path) -> None:
    """Undo an earlier load of the file ``where``: its operations, and the modules of its package that it imported."""
    for name in _OF_FILE.pop(where, ()):
        operation.unregister(name)
    for name in _IMPORTED.pop(where, ()):
        sys.modules.pop(name, None)


def _run(path: Path, where: Path, hint: str, wanted: str = "") -> ModuleType:
    """Run the file ``where`` and return its module.

    If its package has imported the file already, or imports it while it runs, that module is returned: its operations
    are registered, and a second run would register them again.
    """
    root, package = _package(where)
    if imported := _imported(where, package):
        return imported
    for folder in (root, where.parent):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))  # last, so that no file of this folder shadows an installed module
    linecache.checkcache(str(where))  # Triton and error messages read the source
    name = f"{package}warpwise_file_{where.stem}_{key(where)}"
    spec = importlib.util.spec_from_file_location(name, where)
    if spec is None or spec.loader is None:
        raise click.BadParameter(f"{path}: expected a Python file", param_hint=hint)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    before, modules = {op.name for op in operation.all_ops()}, set(sys.modules)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if imported := _imported(where, package):
            return imported
        place = f"{path}{_line(error, where)}"
        if wanted and wanted in vars(module):
            click.echo(f"note: {place}: {type(error).__name__}: {error}; {wanted} is defined before it", err=True)
            return module
        del sys.modules[name]
        for op in list(operation.all_ops()):
            if op.name not in before:
                operation.unregister(op.name)
        raise click.BadParameter(f"{place}: {type(error).__name__}: {error}", param_hint=hint) from error
    finally:
        top = package.partition(".")[0]
        added = (added for added in set(sys.modules) - modules if package and added.partition(".")[0] == top)
        _IMPORTED[where] = tuple(added)
    return module


def _imported(where: Path, package: str) -> ModuleType | None:
    """The module of the file ``where`` that its package has imported, or None."""
    name = package.removesuffix(".") if where.name == "__init__.py" else f"{package}{where.stem}"
    module = sys.modules.get(name) if package else None
    same = module is not None and Path(getattr(module, "__file__", None) or "").resolve() == where
    return module if same else None


def _package(where: Path) -> tuple[Path, str]:
    """The folder from which ``where`` is imported, and "package." if it belongs to one, so that ``from .utils import``
    works in it.
    """
    root, names = where.parent, list[str]()
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        names.insert(0, root.name)
        root = root.parent
    return root, "".join(f"{name}." for name in names)


def _line(error: BaseException, where: Path) -> str:
    """``:12``, the line of the user's file that raised ``error``, or nothing."""
    if isinstance(error, SyntaxError) and error.filename == str(where):
        return f":{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(where)]
    return f":{lines[-1]}" if lines else ""
