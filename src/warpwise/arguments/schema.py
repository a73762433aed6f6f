"""The schema string of an operation, parsed: argument names, types, defaults, mutated arguments and outputs.

The grammar is that of ``torch.library``::

    layer_norm(Tensor input, Tensor? weight, float eps=1e-5) -> (Tensor output, Tensor mean)
    mypackage::sgd(Tensor(a!)[] params, Tensor[] grads, *, float lr) -> ()
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from warpwise.arguments.checks import check_bool, check_integer, check_integers, check_real, check_reals

NAMESPACE = "warpwise"
REQUIRED: Any = object()
"""The default of an argument without one."""

_CHECKS = {"int": check_integer, "SymInt": check_integer, "float": check_real, "bool": check_bool}
_CHECKS_OF_LISTS = {"int": check_integers, "SymInt": check_integers, "float": check_reals}
_SIGNATURE = re.compile(r"\s*(?:(\w+)::)?(\w+)\s*\((.*)\)\s*->\s*(.*?)\s*$", re.DOTALL)
_ARGUMENT = re.compile(r"(\w+)(?:\((\w+)(!?)\))?(\?)?(\[(\d*)\])?(\?)?\s+(\w+)(?:\s*=\s*(.+))?$", re.DOTALL)
_PART = re.compile(r"""(?:[^,"'(\[]|"[^"]*"|'[^']*'|\([^)]*\)|\[[^\]]*\])+""")
_TYPES = frozenset(
    ["Tensor", "int", "SymInt", "float", "bool", "str", "ScalarType", "Device", "MemoryFormat", "Layout", "Scalar"]
)


@dataclass(frozen=True)
class Argument:
    """One argument: ``Tensor(a!)[] params`` is a mutated list of tensors; ``int[2] stride=1`` a tuple of two ints."""

    name: str
    type: str
    optional: bool = False
    is_list: bool = False
    length: int | None = None
    default: Any = REQUIRED
    mutated: bool = False
    keyword_only: bool = False
    optional_items: bool = False
    """True for ``Tensor?[]``, a list whose items may be None."""

    @property
    def is_tensor(self) -> bool:
        return self.type == "Tensor"


@dataclass(frozen=True)
class Schema:
    """A parsed schema; ``text`` is the string that it was parsed from."""

    text: str
    namespace: str
    name: str
    arguments: tuple[Argument, ...]
    outputs: tuple[str, ...]
    mutated: tuple[str, ...]
    """The names of the arguments that the operation writes to."""

    @property
    def qualified(self) -> str:
        """The name in ``torch.ops``: ``namespace::name``."""
        return f"{self.namespace}::{self.name}"

    def index(self, name: str) -> int:
        """The position of the argument ``name``. Raises ``ValueError`` if there is none."""
        for position, argument in enumerate(self.arguments):
            if argument.name == name:
                return position
        there = ", ".join(argument.name for argument in self.arguments)
        raise ValueError(f"{self.name}: no argument {name!r} in its schema; there are {there}")

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The arguments as those of a Python function."""
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [
                inspect.Parameter(
                    argument.name,
                    kinds[argument.keyword_only],
                    default=inspect.Parameter.empty if argument.default is REQUIRED else argument.default,
                )
                for argument in self.arguments
            ]
        )

    def bind(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """All arguments in the schema's order, with defaults. Raises ``TypeError`` as a Python call does."""
        try:
            bound = self.signature.bind(*args, **named)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}; expected {self.name}{self.signature}") from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def check_kinds(self, args: Sequence[Any]) -> None:
        """Raise for the first argument that is not of the type that the schema states.

        Raises ``TypeError`` for another kind, and ``ValueError`` for an integer beyond 64 bits. A text and a
        ``ScalarType`` are not checked.
        """
        for argument, value in zip(self.arguments, args, strict=True):
            if value is None and argument.optional:
                continue
            if argument.is_tensor:
                self._check_tensors(argument, value)
            elif argument.is_list and argument.type in _CHECKS_OF_LISTS:
                _CHECKS_OF_LISTS[argument.type](self.name, argument.name, value, argument.length)
            elif not argument.is_list and argument.type in _CHECKS:
                _CHECKS[argument.type](self.name, argument.name, value)

    def _check_tensors(self, argument: Argument, value: Any) -> None:
        """Raise ``TypeError`` unless ``value`` is a tensor, or a list of tensors."""
        wanted, name = "a list of tensors" if argument.is_list else "a torch.Tensor", argument.name
        if not isinstance(value, (list, tuple) if argument.is_list else torch.Tensor):
            raise TypeError(f"{self.name}: expected {name} to be {wanted}, got {type(value).__name__}")
        for number, item in enumerate(value if argument.is_list else ()):
            if not (isinstance(item, torch.Tensor) or (item is None and argument.optional_items)):
                kind = type(item).__name__
                raise TypeError(f"{self.name}: expected {name}[{number}] to be a torch.Tensor, got {kind}")

    def library(self, varying: Sequence[str] = ()) -> str:
        """The arguments and outputs for ``torch.library``, with the keyword-only ``str? rung=None`` added.

        A ``varying`` integer is a ``SymInt``: torch.compile compiles a call anew for each value of an ``int``.
        """
        head, _, returns = self.text.rpartition("->")
        inside = head[head.index("(") + 1 : head.rindex(")")].strip()
        for name in varying:
            inside = re.sub(rf"(?<!\w)int(\??\s+{name}\b)", r"SymInt\1", inside)
        keyword = any(argument.keyword_only for argument in self.arguments)
        separator = ", " if inside else ""
        added = f"{separator}str? rung=None" if keyword else f"{separator}*, str? rung=None"
        return f"({inside}{added}) -> {_unnamed(returns)}"


def parse(text: str) -> Schema:
    """Parse ``text``. Raises ``ValueError`` that quotes the part that does not follow the grammar."""
    match = _SIGNATURE.match(text)
    if not match:
        overload = " without an overload's name" if re.match(r"\s*(\w+::)?\w+\.\w+\s*\(", text) else ""
        raise ValueError(f"expected a schema like 'name(Tensor input, int dim=-1) -> Tensor'{overload}, got {text!r}")
    namespace, name, inside, returns = match[1] or NAMESPACE, match[2], match[3], match[4]
    arguments: list[Argument] = []
    keyword_only = False
    for part in _split(inside):
        if part == "*":
            keyword_only = True
            continue
        arguments.append(_argument(name, part, keyword_only))
    names = [argument.name for argument in arguments]
    if "rung" in names:
        raise ValueError(f"{name}: expected a schema without rung, which is added to it, got {text!r}")
    late = [argument.name for argument in arguments if argument.is_tensor and argument.keyword_only]
    if late:
        raise ValueError(
            f"{name}: expected tensors before the '*', since torch.library takes them by position, got {late[0]!r}"
        )
    outputs = tuple(_outputs(name, returns))
    if foreign := [one for one in (namespace, name, *names, *outputs) if not one.isascii()]:
        raise ValueError(f"{name}: expected names of ASCII characters, as torch.library needs them, got {foreign[0]!r}")
    repeated = sorted({one for one in (*names, *outputs) if (*names, *outputs).count(one) > 1})
    if repeated:
        raise ValueError(f"{name}: expected different names in the schema, got {', '.join(repeated)} twice")
    mutated = tuple(argument.name for argument in arguments if argument.mutated)
    schema = Schema(text, namespace, name, tuple(arguments), outputs, mutated)
    try:
        _ = schema.signature
    except ValueError as error:  # an argument without a default after one with a default
        raise ValueError(
            f"{name}: expected a schema like 'name(Tensor input, int dim=-1) -> Tensor': {error}"
        ) from None
    return schema


def _argument(op: str, text: str, keyword_only: bool) -> Argument:
    match = _ARGUMENT.match(text)
    if not match or match[1] not in _TYPES:
        raise ValueError(f"{op}: expected an argument like 'Tensor? bias' or 'int[2] stride=1', got {text!r}")
    kind, _, writes, inner, is_list, length, outer, name, default = match.groups()
    count = int(length) if length else None
    value = REQUIRED if default is None else _default(op, text, default.strip(), count)
    optional = bool(outer) or (bool(inner) and not is_list)
    items = bool(inner) and bool(is_list)
    return Argument(name, kind, optional, bool(is_list), count, value, writes == "!", keyword_only, items)


def _default(op: str, text: str, default: str, length: int | None) -> Any:
    try:
        value = ast.literal_eval(default)
    except (ValueError, SyntaxError):
        raise ValueError(f"{op}: expected a Python literal as the default in {text!r}") from None
    if isinstance(value, list):
        return tuple(value)
    return (value,) * length if length and value is not None else value


def _outputs(op: str, returns: str) -> Iterator[str]:
    """The names of the outputs: ``-> Tensor`` is called "output", several are named in the schema."""
    parts = _split(returns[1:-1]) if returns.startswith("(") else [returns]
    for part in parts:
        kind, _, name = part.partition(" ")
        if kind != "Tensor" or (len(parts) > 1 and not name.strip().isidentifier()):
            wanted = "'(Tensor output, Tensor mean)'"
            if "!" in kind:
                wanted += " or '()': a mutated argument is not returned"
            raise ValueError(f"{op}: expected outputs like {wanted}, got {returns!r}")
        yield name.strip() or "output"


def _unnamed(returns: str) -> str:
    """``returns`` as ``torch.library`` takes it: a single output without a name."""
    parts = _split(returns.strip()[1:-1]) if returns.strip().startswith("(") else [returns.strip()]
    if len(parts) == 1:
        return parts[0].split()[0]
    return f"({', '.join(parts)})"


def _split(text: str) -> list[str]:
    """The parts of ``text`` between commas that are outside of brackets and quotes."""
    return [part.strip() for part in _PART.findall(text) if part.strip()]
