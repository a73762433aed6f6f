"""The targets of ``warpwise profile``: a rung, all rungs, or a function of a module, as a callable."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import click
import torch

from warpwise import operation
from warpwise.cli.cases import cases_named, with_attributes
from warpwise.cli.targets import KERNELS_APART, find_target, known_ops, registered, split_rung
from warpwise.cli.values import parse
from warpwise.operation import Case, Op, Rung

ALL = "all"


@dataclass(frozen=True)
class Target:
    """A callable with its name and notes. ``own`` is timed on this machine: eager mode if ``call`` is emulated."""

    name: str
    call: Callable[[], Any]
    notes: tuple[str, ...] = ()
    own: Callable[[], Any] | None = None


def near(name: str, names: Iterable[str]) -> str:
    """``; did you mean softmax``, or nothing if no name is similar."""
    found = difflib.get_close_matches(name, list(names), n=3)
    return f"; did you mean {' or '.join(found)}" if found else ""


def resolve_target(
    text: str,
    device: torch.device,
    size: str | None,
    dtype: str | None,
    arguments: Sequence[str],
    attributes: Sequence[str] = (),
    seed: int = 0,
) -> Target:
    """The target ``softmax``, ``softmax:k03``, ``softmax:all``, ``own.py:k02`` or ``module:function``.

    Raises ``click.BadParameter`` with similar names, or the line at which a file fails.
    """
    if ".py:" in text:
        op, rung = find_target(text, "TARGET", KERNELS_APART)
        return _of_op(op, rung, device, size, dtype, attributes)
    name, rung = split_rung(text)
    if (found := registered(name)) is not None:
        if arguments:
            raise click.BadParameter(
                f"{text}: --arg applies to module:function; use --size and --attr for a rung", param_hint="--arg"
            )
        return _of_op(found, rung, device, size, dtype, attributes)
    first, colon, rest = text.partition(":")
    ops = known_ops()
    if text.endswith((".cu", ".cuh")):
        raise click.BadParameter(
            f"{text}: expected OP, OP:RUNG, MODULE:FUNCTION or FILE.py; `warpwise explain` takes CUDA files",
            param_hint="TARGET",
        )
    if not colon or not rest:
        raise click.BadParameter(
            f"{text!r}: no operation of that name{near(first, ops) or '; there are ' + ', '.join(ops)}. "
            "Expected OP, OP:RUNG, MODULE:FUNCTION or FILE.py",
            param_hint="TARGET",
        )
    for name, value in (("--size", size), ("--dtype", dtype), ("--attr", attributes or None)):
        if value is not None:
            raise click.BadParameter(f"{text}: applies to rungs; use --arg for a function", param_hint=name)
    return _of_function(text, first, rest, ops, device, arguments, seed)


def _of_op(
    op: Op, name: str, device: torch.device, size: str | None, dtype: str | None, attributes: Sequence[str]
) -> Target:
    kind = _dtype(op, dtype)
    case = _case(op, name, device, size, attributes, kind)
    args = op.spec.arguments(case, kind, device, 0)
    rungs = _rungs(op, name, args)
    notes = [f"{case}, {str(kind).removeprefix('torch.')}"]
    if size is None and device.type == "cpu":
        notes[0] += ": the largest test case, since timing sizes take long on a CPU; --size selects another"
    taken = []
    for rung in rungs:
        if reason := op.refusal(rung, *args):
            if name != ALL:
                raise click.BadParameter(f"{op.name}:{rung.name} {reason}", param_hint="TARGET")
            notes.append(f"{rung.name} omitted: {reason}")
        else:
            taken.append(rung)
    if device.type == "cpu" and any(rung.language in ("cuda", "triton") for rung in taken):
        notes.append("emulated on the CPU: the times are the emulator's, not those of a GPU")
    filled = [(rung, op.allocate(*args)) for rung in taken]

    def call() -> None:
        for rung, outputs in filled:
            op.launch(rung, outputs, *args)

    def eager() -> None:
        op.spec.eager(*args)

    if not rungs:
        notes.append("PyTorch: no rung is the default for these arguments")
        return Target(op.name, eager, tuple(notes), eager)
    native = device.type == "cuda" or all(rung.language in ("c", "python") for rung in taken)
    label = f"{op.name}:{taken[0].name}" if len(taken) == 1 else op.name
    return Target(label, call, tuple(notes), call if native else eager)


def _rungs(op: Op, name: str, args: tuple[Any, ...]) -> list[Rung]:
    if name == ALL:
        return list(op.rungs)
    chosen = name or op.default(*args)
    if not chosen:
        return []
    try:
        return [op.rung(chosen)]
    except operation.UnknownRung as error:
        names = [rung.name for rung in op.rungs]
        like = near(name, [*names, *(rung.partition("_")[2] for rung in names)])
        raise click.BadParameter(f"{error}{like}", param_hint="TARGET") from error


def _case(
    op: Op, name: str, device: torch.device, size: str | None, attributes: Sequence[str], dtype: torch.dtype
) -> Case:
    """The named size. By default the first timing size, or on a CPU the largest test case of its kind that the
    rungs accept: its attributes, contiguous inputs, normal values."""
    if size is not None:
        return cases_named(op, [size], attributes)[0]
    if device.type == "cuda":
        return cases_named(op, [], attributes)[0]
    plain = [case for case in op.spec.cases if case.layout == "contiguous" and case.values == "normal"]
    alike = [case for case in plain if case.attributes == op.spec.sizes[0].attributes]
    plain = sorted(alike or plain or op.spec.cases, key=lambda case: prod(case.sizes.values()), reverse=True)
    plain = with_attributes(op, plain, attributes)
    for case in plain:
        args = op.spec.arguments(case, dtype, device, 0)
        if not any(op.refusal(rung, *args) for rung in _rungs(op, name, args)):
            return case
    return plain[0]


def _dtype(op: Op, name: str | None) -> torch.dtype:
    names = {str(dtype).removeprefix("torch."): dtype for dtype in op.spec.dtypes}
    if name is None:
        return op.spec.dtypes[0]
    if name not in names:
        raise click.BadParameter(
            f"{op.name}: no dtype {name!r}{near(name, names)}; there are {', '.join(names)}", param_hint="--dtype"
        )
    return names[name]


def _of_function(
    text: str, module: str, function: str, ops: Sequence[str], device: torch.device, arguments: Sequence[str], seed: int
) -> Target:
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise click.BadParameter(f"{text}: importing {module}: {error}", param_hint="TARGET") from error
        raise click.BadParameter(
            f"{text!r}: no operation and no module {module!r}{near(module, ops)}", param_hint="TARGET"
        ) from error
    except Exception as error:
        raise click.BadParameter(
            f"{text}: importing {module}: {type(error).__name__}: {error}", param_hint="TARGET"
        ) from error
    finally:
        sys.path.pop(0)
    for part in function.split("."):
        if not hasattr(found, part):
            raise click.BadParameter(f"{text!r}: {module} has no {part!r}{near(part, dir(found))}", param_hint="TARGET")
        found = getattr(found, part)
    if not callable(found):
        raise click.BadParameter(f"{text!r}: expected a function, got {type(found).__name__}", param_hint="TARGET")
    values = [parse(argument, seed + position) for position, argument in enumerate(arguments)]
    given = {
        value.name: value.value.to(device) if isinstance(value.value, torch.Tensor) else value.value for value in values
    }

    def call() -> Any:
        return found(**given)

    return Target(text, call, (), call)
