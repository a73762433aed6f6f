"""The keys of calls: the properties of an operation's arguments on which a launcher may depend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from warpwise.arguments.schema import Argument, Schema

_TENSOR = "{0}.__class__, {0}.shape, {0}.stride(), {0}.dtype, {0}.device, {0}.data_ptr() & 255, {0}.requires_grad"
# Kind of argument: its key as a Python expression, and its letter in ``fastcall.Call``.
_KEYS = {
    "tensor": (_TENSOR, "t"),
    "optional": (f"None if {{0}} is None else ({_TENSOR})", "t"),
    "tensors": ("None if {0} is None else tuple([one(value) for value in {0}])", ""),
    "static": ("{0}.__class__, {0}", "f"),
    "statics": ("None if {0} is None else (*{0}, *map(type, {0}))", "f"),  # 1, 1.0 and True are equal, but not one key
    "varying int": ("{0}.bit_length() >> 5", "v"),  # kernels take 32 or 64 bits
    "varying": ("{0}.__class__", "v"),
}


def expression(schema: Schema, varying: Sequence[str], names: Sequence[str]) -> str:
    """The key of arguments with these names as a Python expression, in which ``one`` is the key of a list's tensor."""
    kinds = [_kind(argument, varying) for argument in schema.arguments]
    return ", ".join(_KEYS[kind][0].format(name) for kind, name in zip(kinds, names, strict=True))


def native_kinds(schema: Schema, varying: Sequence[str]) -> str:
    """The kinds of the arguments for ``fastcall.Call``, one letter each; "" if it does not support one of them."""
    letters = [_KEYS[_kind(argument, varying)][1] for argument in schema.arguments]
    return "".join(letters) if all(letters) else ""


def _kind(argument: Argument, varying: Sequence[str]) -> str:
    if argument.is_tensor:
        return "tensors" if argument.is_list else "optional" if argument.optional else "tensor"
    if argument.name in varying:
        return "varying int" if argument.type in ("int", "SymInt") else "varying"
    return "statics" if argument.is_list else "static"


one: Callable[[Any], Any] = eval(f"lambda value: {_KEYS['optional'][0].format('value')}")
"""The key of an element of a list: a tensor or None."""
