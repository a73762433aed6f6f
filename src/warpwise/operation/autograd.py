"""The backward of an operation, and how PyTorch's autograd, torch.library and torch.func call it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from warpwise.operation.spec import Spec, as_tuple

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

    An operation's arguments are matched by name: ``grad_<output>`` is the gradient of that output, ``needs_<argument>`` a
    bool, whether that argument's gradient is wanted, ``shape_<argument>`` the shape of that tensor, which is not kept then,
    and any other name is an argument or output of the forward. Its output ``grad_<argument>`` is the gradient of that
    argument.

    A function is called as ``backward(saved, *grads)`` with a ``Saved`` of what ``saves`` names in the same way
    and one gradient for each output; it returns a mapping from arguments to gradients. ``saves(*args)`` may give the names
    for these arguments instead, so that no tensor is kept that they do not need. Gradients of outputs that were not used
    are zeros, or None unless ``materialize``.

    ``eager_records(*args)`` says that where PyTorch computes the forward, PyTorch's own autograd serves as well: ``eager``
    is differentiable and its backward no slower than this one. It may return a function without arguments, which is called
    at every call and says whether that holds now.
    """

    backward: Any
    saves: tuple[str, ...] | Callable[..., tuple[str, ...]] = ()
    materialize: bool = True
    eager_records: Callable[..., bool | Callable[[], bool]] = lambda *args: False

    @property
    def op(self) -> Any:
        """The linked operation, or None."""
        return self.backward if hasattr(self.backward, "spec") else None


_Places = tuple[list[tuple[str, int]], list[tuple[str, int, bool]]]
"""(name, index) of tensors; (name, index, whether it is a shape) of other values."""


class Backward:
    """The gradient of one specification, resolved: what the forward saves, and how gradients follow from it."""

    def __init__(self, spec: Spec, gradient: Gradient) -> None:
        self.spec, self.gradient = spec, gradient
        self.arguments = [argument.name for argument in spec.parsed.arguments]
        self._sources = [*self.arguments, *spec.parsed.outputs]
        single = [argument.is_tensor and not argument.is_list for argument in spec.parsed.arguments]
        self._is_tensor = [*single, *(True for _ in spec.parsed.outputs)]
        self._places: dict[tuple[str, ...], _Places] = {}
        self._saves = gradient.saves if callable(gradient.saves) else None
        self._names: tuple[str, ...] = () if callable(gradient.saves) else gradient.saves
        if gradient.op is not None:
            linked = [argument.name for argument in gradient.op.spec.parsed.arguments]
            self._names = tuple(name for name in linked if not name.startswith((GRAD, NEEDS)))
        self._resolve(self._names)

    def _resolve(self, names: tuple[str, ...]) -> _Places:
        """Where the tensors and the other values of these names are among the arguments and outputs."""
        if names not in self._places:
            shapes = [name not in self._sources and name.startswith(SHAPE) for name in names]
            needed = [name[len(SHAPE) :] if shape else name for name, shape in zip(names, shapes, strict=True)]
            unknown = [name for name in needed if name not in self._sources]
            if unknown:
                raise ValueError(
                    f"{self.spec.name}: its backward needs {', '.join(map(repr, unknown))}, "
                    f"expected names of {', '.join(self._sources)}"
                )
            found = [
                (name, self._sources.index(one), shape) for name, one, shape in zip(names, needed, shapes, strict=True)
            ]
            kept = [(name, at) for name, at, shape in found if self._is_tensor[at] and not shape]
            self._places[names] = kept, [one for one in found if (one[0], one[1]) not in kept]
        return self._places[names]

    def saved(self, args: Sequence[Any]) -> _Places:
        """What a forward with arguments like ``args`` saves."""
        return self._places[self._names] if self._saves is None else self._resolve(self._saves(*args))

    def save(self, ctx: Any, saved: _Places, args: Sequence[Any], outputs: Any) -> None:
        """Keep tensors by ``save_for_backward``, everything else on ``ctx``."""
        if self.spec.optional:
            outputs = self.spec.without_absent(args, outputs)
        values = (*args, *outputs) if outputs.__class__ is tuple else (*args, *as_tuple(outputs))
        ctx.save_for_backward(*[values[place] for _, place in saved[0]])
        ctx.places = saved
        if saved[1]:
            ctx.others = [values[place].shape if shape else values[place] for _, place, shape in saved[1]]
        if not self.gradient.materialize:
            ctx.set_materialize_grads(False)

    def __call__(self, ctx: Any, grads: Sequence[Any], needed: Sequence[bool]) -> tuple[Any, ...]:
        """One gradient for each argument of the schema, None where there is none."""
        tensors, others = ctx.places
        values = dict(zip([name for name, _ in tensors], ctx.saved_tensors, strict=True))
        if others:
            values |= zip([name for name, _, _ in others], ctx.others, strict=True)
        wanted = [name for name, need in zip(self.arguments, needed, strict=True) if need]
        if self.gradient.op is None:
            found = self.gradient.backward(Saved(values, wanted), *grads)
        else:
            found = self._linked(values, grads, wanted)
        return tuple([found.get(name) if need else None for name, need in zip(self.arguments, needed, strict=True)])

    def _linked(self, values: dict[str, Any], grads: Sequence[Any], wanted: Sequence[str]) -> dict[str, Any]:
        op = self.gradient.op
        given = dict(zip((GRAD + name for name in self.spec.parsed.outputs), grads, strict=True)) | values
        given |= {NEEDS + name: name in wanted for name in self.arguments}
        made = op.call(*(given[argument.name] for argument in op.spec.parsed.arguments))
        return {name.removeprefix(GRAD): value for name, value in zip(op.spec.returned, as_tuple(made), strict=True)}


Plan = Callable[..., Any]


def function(name: str, backward: Backward) -> Any:
    """The ``autograd.Function`` that records a plan in eager mode, called with a plan, what it saves, and the arguments.

    The context is set up in ``forward``, which costs the host less than a separate ``setup_context``.
    """

    def forward(ctx: Any, plan: Plan, saved: _Places, *args: Any) -> Any:
        outputs = plan(*args)
        backward.save(ctx, saved, args, outputs)
        return outputs

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (None, None, *backward(ctx, grads, ctx.needs_input_grad[2:]))

    members = {"forward": staticmethod(forward), "backward": staticmethod(gradients)}
    return type(name, (torch.autograd.Function,), members)


def recorded(function: Any, backward: Backward, plan: Plan, args: Sequence[Any]) -> Plan:
    """``plan`` for arguments like ``args``, recorded by autograd."""
    # Function.apply handles function transforms first, and these take another path here; its base class records at once.
    apply = super(torch.autograd.Function, function).apply
    return functools.partial(apply, plan, backward.saved(args))


def transformed(name: str, library: Plan, backward: Backward) -> Plan:
    """``function(rung, *args)`` runs the library's operator and can be differentiated by torch.func's transforms.

    torch.func needs a ``setup_context`` apart from the forward, which torch.library's own registration does not have.
    """

    def forward(rung: str | None, *args: Any) -> Any:
        return library(args, rung)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        backward.save(ctx, backward.saved(inputs[1:]), inputs[1:], output)

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (None, *backward(ctx, grads, ctx.needs_input_grad[1:]))

    members = {
        "forward": staticmethod(forward), "setup_context": staticmethod(setup_context),
        "backward": staticmethod(gradients), "generate_vmap_rule": True,
    }  # fmt: skip
    return type(name, (torch.autograd.Function,), members).apply  # type: ignore[attr-defined]


def register(spec: Spec, compute: Plan, fake: Plan, backward: Backward | None) -> Plan:
    """Register ``compute`` as ``torch.ops.<namespace>.<name>`` and return ``library(args, rung)``, which calls it."""
    parsed = spec.parsed
    opaque = torch.library.custom_op(parsed.qualified, compute, mutates_args=parsed.mutated, schema=parsed.library())
    opaque.register_fake(fake)
    if backward is not None:

        def setup_context(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any) -> None:
            named = {name: value for name, value in keyword_only_inputs.items() if name != "rung"}
            args = parsed.bind(inputs, named)
            backward.save(ctx, backward.saved(args), args, output)

        def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            given = ctx.needs_input_grad  # of positional arguments, without those at the end that have their default
            needed = (*given, *[False] * (len(parsed.arguments) - len(given)))
            return backward(ctx, grads, needed)[: len(given)]

        opaque.register_autograd(gradients, setup_context=setup_context)
    keyword_only = [argument.name for argument in parsed.arguments if argument.keyword_only]
    positional = len(parsed.arguments) - len(keyword_only)
    operator = getattr(getattr(torch.ops, parsed.namespace), parsed.name).default
    if not keyword_only:
        return lambda args, rung: operator(*args, rung=rung)
    return lambda args, rung: operator(
        *args[:positional], **dict(zip(keyword_only, args[positional:], strict=True)), rung=rung
    )
