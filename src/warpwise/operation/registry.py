"""The registered operations, by name; the lab and the command use them."""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Sequence

from warpwise.operation import autograd
from warpwise.operation.op import Op

ENTRY_POINTS = "warpwise.ops"
_OPS: dict[str, Op] = {}
_FAILED: set[importlib.metadata.EntryPoint] = set()


def register(op: Op) -> Op:
    """Make ``op`` known to the lab and, as ``torch.ops.<namespace>.<name>``, to torch.library.

    Raises ``ValueError`` if its qualified name is taken.
    """
    name = op.spec.parsed.qualified
    if (first := _OPS.setdefault(name, op)) is not op:
        where = getattr(getattr(first.spec.reference, "__code__", None), "co_filename", "another file")
        raise ValueError(f"an operation called {name!r} is registered already, by {where}")
    _ = op.call  # registers the library operator: torch.compile cannot do that while it traces a call
    autograd.TAKEN.add(name)
    return op


def unregister(name: str) -> None:
    """Remove the operation whose ``Op.name`` is ``name``, if there is one, so that its file can be executed again."""
    for qualified in [key for key, op in _OPS.items() if op.name == name]:
        del _OPS[qualified]
        autograd.TAKEN.discard(qualified)


def load_entry_points() -> None:
    """Import the modules in the entry point group ``warpwise.ops`` of other packages, which register operations.

    A module that raises an error is not imported again; a warning names its package and the error.
    """
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if entry in _FAILED:
            continue
        try:
            entry.load()
        except Exception as error:  # noqa: BLE001 - a package may raise anything
            _FAILED.add(entry)
            package = f"the package {entry.dist.name}" if entry.dist else "a package"
            warnings.warn(
                f"{entry.value} of {package} failed, so its operations are missing: {type(error).__name__}: {error}",
                stacklevel=2,
            )


def get(name: str) -> Op:
    """The operation called ``name``: Warpwise's own, else that of another package, also as ``namespace::name``.

    Raises ``LookupError`` if there is none, or if packages share the name.
    """
    exact = [op for key, op in _OPS.items() if name in (key, op.name)]
    found = exact or [op for op in _OPS.values() if op.spec.name == name]
    if len(found) == 1:
        return found[0]
    if found:
        there = ", ".join(sorted(op.spec.parsed.qualified for op in found))
        raise LookupError(f"{name!r} is the name of several operations; expected one of {there}")
    none = "none: `import warpwise.ops` registers the package's own"
    raise LookupError(f"no operation {name!r}; there are {', '.join(op.name for op in all_ops()) or none}")


def op_of(caller: str, op: Op | str) -> Op:
    """``op``, or the operation of that name. Raises ``LookupError``, and ``TypeError`` with ``caller``."""
    if isinstance(op, str):
        return get(op)
    if isinstance(op, Op):
        return op
    raise TypeError(f"{caller}: expected op to be an Op or the name of a registered one, got {type(op).__name__}")


def all_ops() -> Sequence[Op]:
    """Every registered operation, by name."""
    return sorted(_OPS.values(), key=lambda op: op.name)
