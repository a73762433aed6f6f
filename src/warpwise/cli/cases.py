"""The cases that ``--size`` and ``--attr`` select: a timing size or ``rows=1000,columns=77``, and ``bias=true``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
import torch

from warpwise.arguments.schema import Argument
from warpwise.operation import Case, Op

ALL = "all"
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "SymInt": (int,), "float": (float, int), "bool": (bool,), "str": (str,), "Scalar": (int, float),
}  # fmt: skip
_BOOLS = {"true": True, "false": False}


def cases_named(op: Op, names: Sequence[str], attributes: Sequence[str] = (), more: Sequence[Case] = ()) -> list[Case]:
    """The cases that ``--size`` and ``--attr`` select; the operation's first timing size if no size is given.

    A size is the name of a timing size, a name in ``more``, ``all``, or every dimension: ``rows=1000,columns=77``.
    Raises ``click.BadParameter`` that lists the valid names.
    """
    known = {case.name: case for case in (*op.spec.sizes, *more)}
    found = list(op.spec.sizes[:1]) if not names else list(op.spec.sizes) if ALL in names else []
    for name in names if ALL not in names else ():
        if name in known:
            found.append(known[name])
        elif "=" in name:
            found.append(_spelled_out(op, name, more))
        else:
            raise click.BadParameter(f"{op.name}: no size {name!r}; there are {', '.join(known)}", param_hint="--size")
    return with_attributes(op, found, attributes)


def _spelled_out(op: Op, text: str, more: Sequence[Case]) -> Case:
    """The case of ``rows=1000,columns=77``, with the attributes of the first timing size that has these dimensions."""
    cases = (*op.spec.sizes, *more, *op.spec.cases)
    shapes = list(dict.fromkeys(tuple(case.sizes) for case in cases))
    expected = " or ".join(",".join(f"{name}=N" for name in shape) for shape in shapes)
    sizes: dict[str, int] = {}
    for part in text.split(","):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if not any(key in shape for shape in shapes) or not value.isdigit():
            raise click.BadParameter(f"{op.name}: {part!r}: expected {expected}", param_hint="--size")
        sizes[key] = int(value)
    if not any(set(shape) == set(sizes) for shape in shapes):
        near = min(shapes, key=lambda shape: len(set(shape) ^ set(sizes)))
        missing = ", ".join(name for name in near if name not in sizes)
        reason = f"lacks {missing}" if missing else "has dimensions of different sizes"
        raise click.BadParameter(f"{op.name}: {text!r} {reason}: expected {expected}", param_hint="--size")
    like = next((case for case in (*op.spec.sizes, *more) if set(case.sizes) == set(sizes)), None)
    return Case(text, sizes, like.attributes if like else {})


def with_attributes(op: Op, cases: Sequence[Case], texts: Sequence[str]) -> list[Case]:
    """``cases`` with the attributes that ``texts`` (``NAME=VALUE``) describe, which become part of their names.

    Values are Python literals, ``true`` or ``false``, else text. Raises ``click.BadParameter`` that lists the valid
    attributes.
    """
    if not texts:
        return list(cases)
    attributes = dict(_attribute(op, text) for text in texts)
    _require_used(op, attributes)
    ending = ",".join(texts)
    return [replace(case, name=f"{case.name},{ending}", attributes={**case.attributes, **attributes}) for case in cases]


def attributes_of(op: Op) -> dict[str, tuple[Any, ...]]:
    """Each attribute with its values in the operation's cases.

    Attributes are those of the cases, and the scalar arguments that the sizes do not determine.
    """
    cases = (*op.spec.cases, *op.spec.sizes)
    derived = {name for case in cases for name in case.sizes}
    for case in op.spec.cases[:1]:
        derived |= set(op.spec.inputs(case, op.spec.dtypes[0], torch.device("cpu"), 0))
    scalars = [one.name for one in op.spec.parsed.arguments if not one.is_tensor and one.name not in derived]
    names = dict.fromkeys([*scalars, *(name for case in cases for name in case.attributes)])
    return {
        name: tuple(
            {repr(one.attributes[name]): one.attributes[name] for one in cases if name in one.attributes}.values()
        )
        for name in names
    }


def _attribute(op: Op, text: str) -> tuple[str, Any]:
    name, equals, written = (part.strip() for part in text.partition("="))
    if not equals or not name or not written:
        raise click.BadParameter(f"{text!r}: expected NAME=VALUE, such as bias=true", param_hint="--attr")
    known = attributes_of(op)
    if name not in known:
        there = f"there are {', '.join(known)}" if known else "it has none"
        raise click.BadParameter(f"{op.name}: no attribute {name!r}; {there}", param_hint="--attr")
    argument = next((one for one in op.spec.parsed.arguments if one.name == name and not one.is_tensor), None)
    return name, _typed(op, argument, written) if argument else _value(written)


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _BOOLS.get(text, text)


def _typed(op: Op, argument: Argument, text: str) -> Any:
    """The value of an argument of the schema. Raises ``click.BadParameter`` if it has another type."""
    value = _value(text)
    if value is None and argument.optional:
        return None
    if argument.type == "str" and not argument.is_list:
        return value if isinstance(value, str) else text
    values = tuple(value) if argument.is_list and isinstance(value, (list, tuple)) else (value,)
    wanted = _TYPES.get(argument.type)
    for one in values if wanted else ():
        if not isinstance(one, wanted or ()) or (isinstance(one, bool) and bool not in (wanted or ())):
            kind = f"{argument.type}{'[]' if argument.is_list else ''}"
            raise click.BadParameter(
                f"{op.name}: expected {argument.name} to be {kind}, got {text!r}", param_hint="--attr"
            )
    return values if argument.is_list else value


def _require_used(op: Op, attributes: dict[str, Any]) -> None:
    """Raise ``click.BadParameter`` if ``Spec.inputs`` overrides an attribute, or fails with its value."""
    scalars = {one.name for one in op.spec.parsed.arguments if not one.is_tensor}
    for case in op.spec.cases[:1]:
        tried = replace(case, attributes={**case.attributes, **attributes})
        try:
            given = op.spec.inputs(tried, op.spec.dtypes[0], torch.device("cpu"), 0)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise click.BadParameter(f"{op.name}: cannot make inputs: {reason}", param_hint="--attr") from error
        for name, value in attributes.items():
            if name in scalars and name in given and given[name] != value:
                raise click.BadParameter(f"{op.name}: {name} follows from the sizes and inputs", param_hint="--attr")
