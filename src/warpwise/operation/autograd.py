"""The backward of an operation, and how PyTorch's autograd, torch.library and torch.func call it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from warpwise.arguments.values import as_tuple
from warpwise.operation.spec import Spec

GRAD, NEEDS, SHAPE = "grad_", "needs_", "shape_"


class Saved:
    """What the forward kept: its arguments and outputs as attributes, and which gradients are wanted."""

    def __init__(self, values: Mapping[str, Any], wanted: Sequence[str]) -> None:
        self.__dict__.update(values)
        self._wanted = frozenset(wanted)

    def wants(self, *names: str) -> bool:
        """Whether the gradient of any of these arguments is wanted."""
        return not self._wanted.isdisjoint(names)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} is not saved; name it in Gradient(saves=...)")


@dataclass(frozen=True)
class Gradient:
    """The backward of an operation: another operation, linked by names, or a function of differentiable operations.

    An operation's arguments are matched by name: ``grad_<output>`` is the gradient of that output, ``needs_<argument>``
    a bool, whether that argument's gradient is wanted, ``shape_<argument>`` the shape of that tensor, which is not kept
    then, and any other name is an argument or output of the forward. Its output ``grad_<argument>`` is the gradient of
    that argument.

    A function is called as ``backward(saved, *grads)`` with a ``Saved`` of what ``saves`` names in the same way and one
    gradient for each output; it returns a mapping from arguments to gradients. ``saves(*args)`` may give the names for
    these arguments instead, so that no tensor is kept that they do not need. Gradients of outputs that were not used
    are zeros, or None unless ``materialize``.

    ``eager_records(*args)`` says that where PyTorch computes the forward, PyTorch's own autograd serves as well:
    ``eager`` is differentiable and its backward no slower than this one. It may return a function without arguments,
    which is called at every call and says whether that holds now.
    """

    backward: Any
    saves: tuple[str, ...] | Callable[..., tuple[str, ...]] = ()
    materialize: bool = True
    eager_records: Callable[..., bool | Callable[[], bool]] = lambda *args: False

    @property
    def op(self) -> Any:
        """The linked operation, or None."""
        return self.backward if hasattr(self.backward, "spec") else None


class Saving(NamedTuple):
    """What a forward saves: names, and indices among the arguments and outputs, of tensors first."""

    names: tuple[str, ...]
    tensors: list[int]
    others: list[tuple[int, bool]]  # index, and whether the shape alone is saved
    reads_outputs: bool


class Backward:
    """The gradient of one specification, resolved: what the forward saves, and how gradients follow from it."""

    def __init__(self, spec: Spec, gradient: Gradient) -> None:
        self.spec, self.gradient = spec, gradient
        self.arguments = [argument.name for argument in spec.parsed.arguments]
        self._sources = [*self.arguments, *spec.parsed.outputs]
        single = [argument.is_tensor and not argument.is_list for argument in spec.parsed.arguments]
        self._is_tensor = [*single, *(True for _ in spec.parsed.outputs)]
        self._saving: dict[tuple[str, ...], Saving] = {}
        self._saves = gradient.saves if callable(gradient.saves) else None
        self._names: tuple[str, ...] = () if callable(gradient.saves) else gradient.saves
        self._linked_names: tuple[str, ...] = ()
        if gradient.op is not None:
            self._linked_names = tuple(argument.name for argument in gradient.op.spec.parsed.arguments)
            self._names = tuple(name for name in self._linked_names if not name.startswith((GRAD, NEEDS)))
            self._check_names()
        self._hidden = any(output.saved for output in spec.outputs.values())
        self._resolve(self._names)

    def _check_names(self) -> None:
        """Raise ``ValueError`` if a name of the linked operation is not that of a gradient, or of the forward."""
        backward, outputs = self.gradient.op.spec, self.spec.parsed.outputs
        where = f"{self.spec.name}: its backward {backward.name}"
        for name in self._linked_names:
            known = outputs if name.startswith(GRAD) else self.arguments if name.startswith(NEEDS) else None
            if known is not None and name not in self._sources and name.partition("_")[2] not in known:
                raise ValueError(f"{where} takes {name!r}, but {', '.join(known)} has no {name.partition('_')[2]!r}")
        expected = [GRAD + name for name in self.arguments]
        if wrong := [name for name in backward.returned if name not in expected]:
            raise ValueError(f"{where} returns {wrong[0]!r}, expected some of {', '.join(expected)}")

    def _resolve(self, names: tuple[str, ...]) -> Saving:
        """Where the values of these names are among the arguments and outputs."""
        if names not in self._saving:
            found = [self._place(name) for name in names]
            kept = [(name, at) for name, at, shape in found if self._is_tensor[at] and not shape]
            rest = [(name, at, shape) for name, at, shape in found if not self._is_tensor[at] or shape]
            self._saving[names] = Saving(
                (*(name for name, _ in kept), *(name for name, _, _ in rest)),
                [at for _, at in kept],
                [(at, shape) for _, at, shape in rest],
                any(at >= len(self.arguments) for _, at, _ in found),
            )
        return self._saving[names]

    def _place(self, name: str) -> tuple[str, int, bool]:
        """(name, index among arguments and outputs, whether its shape alone is saved)."""
        shape = name not in self._sources and name.startswith(SHAPE)
        if (source := name[len(SHAPE) :] if shape else name) not in self._sources:
            raise ValueError(
                f"{self.spec.name}: its backward needs {name!r}, expected names of {', '.join(self._sources)}"
            )
        return name, self._sources.index(source), shape

    def saved(self, args: Sequence[Any]) -> Saving:
        """What a forward with arguments like ``args`` saves."""
        return self._saving[self._names] if self._saves is None else self._resolve(self._saves(*args))

    def save(self, ctx: Any, saving: Saving, args: Sequence[Any], outputs: Any) -> None:
        """Keep tensors by ``save_for_backward``, everything else on ``ctx``."""
        values = args
        if saving.reads_outputs or self.spec.optional:
            made = as_tuple(self.spec.without_absent(args, outputs))
            self.spec.check_eager(made)
            ctx.absent = [output is None for output in made]
            values = (*args, *made)
        ctx.save_for_backward(*[values[place] for place in saving.tensors])
        if self._hidden:
            ctx.outputs = [None if one is None else (one.shape, one.dtype, one.device) for one in as_tuple(outputs)]
        if saving.others:
            ctx.others = [values[place].shape if shape else values[place] for place, shape in saving.others]
        if not self.gradient.materialize or self._hidden:
            ctx.set_materialize_grads(False)

    def __call__(self, ctx: Any, saving: Saving, grads: Sequence[Any], needed: Sequence[bool]) -> tuple[Any, ...]:
        """One gradient for each argument of the schema, None where there is none."""
        if self.spec.optional:  # torch.library gives an empty gradient for an output that is not present
            grads = [None if absent else grad for absent, grad in zip(ctx.absent, grads, strict=True)]
        if self._hidden:
            grads = self._with_zeros(ctx.outputs, grads)
        values = dict(zip(saving.names, (*ctx.saved_tensors, *(ctx.others if saving.others else ())), strict=True))
        wanted = [name for name, need in zip(self.arguments, needed, strict=True) if need]
        if self.gradient.op is None:
            found = self.gradient.backward(Saved(values, wanted), *grads)
        else:
            found = self._linked(values, grads, wanted)
        return tuple([found.get(name) if need else None for name, need in zip(self.arguments, needed, strict=True)])

    def _with_zeros(self, outputs: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
        """``grads`` with zeros for outputs that were not used. Raises ``RuntimeError`` if one would be ignored.

        A saved output has a gradient where the backward itself is differentiated: it is an argument of the backward.
        """
        for name, grad in zip(self.spec.parsed.outputs, grads, strict=True):
            if grad is not None and self._linked_names and GRAD + name not in self._linked_names:
                backward = self.gradient.op.name
                raise RuntimeError(
                    f"{self.spec.name}: a derivative flows through the output {name!r}, whose gradient "
                    f"{backward} does not take: add the argument {GRAD + name!r} to {backward}"
                )
        if not self.gradient.materialize:
            return list(grads)
        return [
            torch.zeros(given[0], dtype=given[1], device=given[2]) if grad is None and given is not None else grad
            for grad, given in zip(grads, outputs, strict=True)
        ]

    def _linked(self, values: dict[str, Any], grads: Sequence[Any], wanted: Sequence[str]) -> dict[str, Any]:
        op = self.gradient.op
        given = dict(zip((GRAD + name for name in self.spec.parsed.outputs), grads, strict=True)) | values
        given |= {NEEDS + name: name in wanted for name in self.arguments}
        made = op.call(*(given[argument.name] for argument in op.spec.parsed.arguments))
        return {name.removeprefix(GRAD): value for name, value in zip(op.spec.returned, as_tuple(made), strict=True)}


Plan = Callable[..., Any]


def recorded(name: str, backward: Backward, plan: Plan, args: Sequence[Any]) -> Plan:
    """``plan`` for arguments like ``args``, recorded by autograd in eager mode.

    The context is set up in ``forward``, which costs the host less than a separate ``setup_context``.
    """
    saving = backward.saved(args)

    def forward(ctx: Any, *args: Any) -> Any:
        outputs = plan(*args)
        backward.save(ctx, saving, args, outputs)
        return outputs

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return backward(ctx, saving, grads, ctx.needs_input_grad)

    members = {"forward": staticmethod(forward), "backward": staticmethod(gradients)}
    made = type(name, (torch.autograd.Function,), members)
    # Function.apply handles function transforms first, and these take another path here; its base class records at
    # once.
    return super(torch.autograd.Function, made).apply  # type: ignore[misc]


def transformed(name: str, library: Plan, backward: Backward) -> Plan:
    """``function(rung, *args)`` runs the library's operator and can be differentiated by torch.func's transforms.

    torch.func needs a ``setup_context`` apart from the forward, which torch.library's own registration does not have.
    """

    def forward(rung: str | None, *args: Any) -> Any:
        return library(args, rung)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.saving = backward.saved(inputs[1:])
        backward.save(ctx, ctx.saving, inputs[1:], output)

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (None, *backward(ctx, ctx.saving, grads, ctx.needs_input_grad[1:]))

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(gradients),
        "generate_vmap_rule": True,
    }
    return type(name, (torch.autograd.Function,), members).apply  # type: ignore[attr-defined]


TAKEN: set[str] = set()  # qualified names of the operators of registered operations
_COPIES = itertools.count(1)


def register(spec: Spec, compute: Plan, fake: Plan, backward: Backward | None) -> Plan:
    """Register ``compute`` as ``torch.ops.<namespace>.<name>`` and return ``library(args, rung)``, which calls it.

    torch.library destroys an operator whose name is defined again, and a call of it then reads freed memory. A copy of
    a registered operation, as ``dataclasses.replace`` makes it, therefore becomes ``<name>_copy<number>``.
    """
    parsed = spec.parsed
    name = f"{parsed.name}_copy{next(_COPIES)}" if parsed.qualified in TAKEN else parsed.name
    qualified = f"{parsed.namespace}::{name}"
    opaque = torch.library.custom_op(qualified, compute, mutates_args=parsed.mutated, schema=parsed.library())
    opaque.register_fake(fake)
    if backward is not None:

        def setup_context(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any) -> None:
            named = {name: value for name, value in keyword_only_inputs.items() if name != "rung"}
            args = parsed.bind(inputs, named)
            ctx.saving = backward.saved(args)
            backward.save(ctx, ctx.saving, args, output)

        def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            given = ctx.needs_input_grad  # of positional arguments, without those at the end that have their default
            needed = (*given, *[False] * (len(parsed.arguments) - len(given)))
            return backward(ctx, ctx.saving, grads, needed)[: len(given)]

        opaque.register_autograd(gradients, setup_context=setup_context)
    keyword_only = [argument.name for argument in parsed.arguments if argument.keyword_only]
    positional = len(parsed.arguments) - len(keyword_only)
    operator = getattr(getattr(torch.ops, parsed.namespace), name).default
    if not keyword_only:
        return lambda args, rung: operator(*args, rung=rung)
    return lambda args, rung: operator(
        *args[:positional], **dict(zip(keyword_only, args[positional:], strict=True)), rung=rung
    )
