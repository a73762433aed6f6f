"""The backward of an operation, and how PyTorch's autograd, torch.library and torch.func call it."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from warpwise.arguments.layout import has_nhwc_strides
from warpwise.arguments.values import as_tuple
from warpwise.operation import vmap
from warpwise.operation.spec import Spec

GRAD, NEEDS, SHAPE, NHWC = "grad_", "needs_", "shape_", "nhwc_"
DERIVED: dict[str, Callable[[torch.Tensor], Any]] = {SHAPE: operator.attrgetter("shape"), NHWC: has_nhwc_strides}
"""What is saved in place of a tensor, by the prefix of the name."""


class Saved:
    """The arguments and outputs that the forward saved, as attributes, and the names of the needed gradients."""

    def __init__(self, values: Mapping[str, Any], wanted: Sequence[str]) -> None:
        self.__dict__.update(values)
        self._wanted = frozenset(wanted)

    def wants(self, *names: str) -> bool:
        """True if the gradient of any of these arguments is needed."""
        return not self._wanted.isdisjoint(names)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} is not saved; name it in Gradient(saves=...)")


@dataclass(frozen=True)
class Gradient:
    """The backward of an operation: another operation, linked by names, or a function of differentiable operations.

    The arguments of a linked operation are matched by name: ``grad_<output>`` is the gradient of that output;
    ``needs_<argument>`` is a bool, true if that argument's gradient is needed; ``shape_<argument>`` is the shape of
    that tensor, which is then not saved itself, and ``nhwc_<argument>`` is true if PyTorch returns its gradient in NHWC
    order; any other name is an argument or output of the forward. The output ``grad_<argument>`` is the gradient of
    that argument.

    A function is called as ``backward(saved, *grads)`` and returns a mapping from argument names to gradients.
    ``saved`` holds the arguments, outputs and shapes that ``saves`` names; ``grads`` has one gradient for each output.
    ``saves`` may be a function ``saves(*args)`` that returns the names, so that a call saves only the tensors that its
    backward needs. The gradient of an unused output is zeros, or None if ``materialize`` is false.

    ``eager_records(*args)`` returns true if PyTorch's autograd can record a forward that PyTorch computes: ``eager`` is
    differentiable, and its backward is no slower than this one. If this can change between calls, it returns a function
    without arguments, which is evaluated at every call.
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
    """The names that a forward saves, tensors first, and their indices in (arguments, outputs)."""

    names: tuple[str, ...]
    tensors: list[int]
    others: list[tuple[int, Callable[[torch.Tensor], Any] | None]]  # index, and the function of DERIVED that is saved
    reads_outputs: bool
    linked: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None
    """The arguments of a linked operation, from (gradients of the outputs, saved tensors, other values, needs)."""


class Backward:
    """The ``Gradient`` of a specification with its names resolved: saves values in the forward, computes gradients."""

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
            returned = [name.removeprefix(GRAD) for name in gradient.op.spec.returned]
            # for each argument, the index of its gradient among the results; -1 selects the None appended to them
            self._returned = [returned.index(name) if name in returned else -1 for name in self.arguments]
        self._hidden = any(output.saved for output in spec.outputs.values())
        taken = [not self._linked_names or GRAD + name in self._linked_names for name in spec.parsed.outputs]
        self._taken = taken  # for each output, whether the backward takes its gradient
        self._resolve(self._names)

    def _check_names(self) -> None:
        """Raise ``ValueError`` if the linked operation has an argument or output whose name matches nothing."""
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
        """The indices of these names in (arguments, outputs)."""
        if names not in self._saving:
            found = [self._place(name) for name in names]
            kept = [(name, at) for name, at, derived in found if self._is_tensor[at] and not derived]
            rest = [(name, at, derived) for name, at, derived in found if not self._is_tensor[at] or derived]
            saved = (*(name for name, _ in kept), *(name for name, _, _ in rest))
            self._saving[names] = Saving(
                saved,
                [at for _, at in kept],
                [(at, derived) for _, at, derived in rest],
                any(at >= len(self.arguments) for _, at, _ in found),
                None if self.gradient.op is None else self._linked_arguments(saved),
            )
        return self._saving[names]

    def _linked_arguments(self, saved: tuple[str, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
        given = (
            [GRAD + name for name in self.spec.parsed.outputs] + [*saved] + [NEEDS + name for name in self.arguments]
        )
        last = {name: at for at, name in enumerate(given)}
        first, *rest = [last[name] for name in self._linked_names]
        if not rest:
            return lambda values: (values[first],)
        return operator.itemgetter(first, *rest)

    def _place(self, name: str) -> tuple[str, int, Callable[[torch.Tensor], Any] | None]:
        """(name, index in (arguments, outputs), the function of DERIVED that is saved or None)."""
        prefix, source = "", name
        if name not in self._sources:
            prefix = next((prefix for prefix in DERIVED if name.startswith(prefix)), "")
            source = name.removeprefix(prefix)
        if source not in self._sources:
            raise ValueError(
                f"{self.spec.name}: its backward needs {name!r}, expected names of {', '.join(self._sources)}"
            )
        return name, self._sources.index(source), DERIVED.get(prefix)

    def saved(self, args: Sequence[Any]) -> Saving:
        """The values that a forward with arguments like ``args`` saves."""
        return self._saving[self._names] if self._saves is None else self._resolve(self._saves(*args))

    def save(self, ctx: Any, saving: Saving, args: Sequence[Any], outputs: Any) -> None:
        """Save tensors by ``save_for_backward``, all other values as attributes of ``ctx``.

        An output that is not present is None.
        """
        values = args
        if saving.reads_outputs or self.spec.optional:
            made = as_tuple(outputs)
            self.spec.check_eager(made)
            if self.spec.optional:
                ctx.absent = [output is None for output in made]
            values = (*args, *made)
        ctx.save_for_backward(*[values[place] for place in saving.tensors])
        if self._hidden and self.gradient.materialize:
            ctx.outputs = [None if one is None else (one.shape, one.dtype, one.device) for one in as_tuple(outputs)]
        if saving.others:
            ctx.others = [derived(values[place]) if derived else values[place] for place, derived in saving.others]
        if not self.gradient.materialize or self._hidden:
            ctx.set_materialize_grads(False)

    def __call__(self, ctx: Any, saving: Saving, grads: Sequence[Any], needed: Sequence[bool]) -> tuple[Any, ...]:
        """One gradient for each argument of the schema; None for an argument that needs none."""
        if self.spec.optional:  # torch.library gives an empty gradient for an output that is not present
            grads = [None if absent else grad for absent, grad in zip(ctx.absent, grads, strict=True)]
        if self._hidden and (self.gradient.materialize or not all(self._taken)):
            grads = self._with_zeros(ctx, grads)
        saved = (*ctx.saved_tensors, *(ctx.others if saving.others else ()))
        if saving.linked is not None:
            made = (*as_tuple(self.gradient.op.call(*saving.linked((*grads, *saved, *needed)))), None)
            return tuple([made[at] if need else None for at, need in zip(self._returned, needed, strict=True)])
        wanted = [name for name, need in zip(self.arguments, needed, strict=True) if need]
        found = self.gradient.backward(Saved(dict(zip(saving.names, saved, strict=True)), wanted), *grads)
        if not isinstance(found, Mapping):
            kind = type(found).__name__
            raise TypeError(f"{self.spec.name}: expected backward to return a mapping by argument name, got {kind}")
        return tuple([found.get(name) if need else None for name, need in zip(self.arguments, needed, strict=True)])

    def _with_zeros(self, ctx: Any, grads: Sequence[Any]) -> list[Any]:
        """``grads`` with zeros for unused outputs. Raises ``RuntimeError`` if the backward would ignore a gradient.

        A saved output gets a gradient when the backward itself is differentiated, because it is an argument of it.
        """
        for name, grad, used in zip(self.spec.parsed.outputs, grads, self._taken, strict=True):
            if grad is not None and not used:
                backward = self.gradient.op.name
                raise RuntimeError(
                    f"{self.spec.name}: a derivative flows through the output {name!r}, whose gradient "
                    f"{backward} does not take: add the argument {GRAD + name!r} to {backward}"
                )
        if not self.gradient.materialize:
            return list(grads)
        return [
            torch.zeros(given[0], dtype=given[1], device=given[2]) if grad is None and given and used else grad
            for grad, given, used in zip(grads, ctx.outputs, self._taken, strict=True)
        ]


Plan = Callable[..., Any]


def recorded(name: str, backward: Backward, plan: Plan, args: Sequence[Any]) -> Plan:
    """``plan`` as an ``autograd.Function``, for arguments like ``args`` in eager mode.

    The context is set up in ``forward``, which takes less host time than a separate ``setup_context``.
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
    # Function.apply first checks for function transforms, which ``without_key`` handles; its base class's does not.
    return super(torch.autograd.Function, made).apply  # type: ignore[misc]


def transformed(name: str, library: Plan, backward: Backward) -> Plan:
    """Return ``function(rung, *args)``, which calls the library operator and supports torch.func's transforms.

    torch.func requires an ``autograd.Function`` with a ``setup_context``; torch.library's operators have none.
    """

    def forward(rung: str | None, *args: Any) -> Any:
        return library(args, rung)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.saving = backward.saved(inputs[1:])
        backward.save(ctx, ctx.saving, inputs[1:], backward.spec.without_absent(inputs[1:], output))

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (None, *backward(ctx, ctx.saving, grads, ctx.needs_input_grad[1:]))

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(gradients),
        "generate_vmap_rule": True,
    }
    return type(name, (torch.autograd.Function,), members).apply  # type: ignore[attr-defined]


def _refusal(spec: Spec) -> Plan:
    """The backward of an operation without a gradient: it raises the error, as for such operators of PyTorch."""

    def gradients(ctx: Any, *grads: Any) -> None:
        needed = zip(spec.parsed.arguments, ctx.needs_input_grad, strict=False)
        names = ", ".join(argument.name for argument, need in needed if need)
        raise RuntimeError(
            f"{spec.name} is not differentiable, but a gradient of {names} is required: detach the arguments, or call "
            "it under torch.no_grad()"
        )

    return gradients


TAKEN: set[str] = set()  # qualified names of the operators of registered operations
_COPIES = itertools.count(1)


def register(spec: Spec, compute: Plan, fake: Plan, backward: Backward | None) -> Plan:
    """Register ``compute`` as ``torch.ops.<namespace>.<name>`` and return ``library(args, rung)``, which calls it.

    torch.library destroys an operator when its name is defined again; a call of the old one then reads freed memory. A
    copy of a registered operation, made by ``dataclasses.replace``, is therefore named ``<name>_copy<number>``.
    """
    parsed = spec.parsed
    name = f"{parsed.name}_copy{next(_COPIES)}" if parsed.qualified in TAKEN else parsed.name
    qualified = f"{parsed.namespace}::{name}"
    opaque = torch.library.custom_op(
        qualified, compute, mutates_args=parsed.mutated, schema=parsed.library(spec.varying)
    )
    opaque.register_fake(fake)
    if backward is not None:

        def setup_context(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Any) -> None:
            named = {name: value for name, value in keyword_only_inputs.items() if name != "rung"}
            args = parsed.bind(inputs, named)
            ctx.saving = backward.saved(args)
            backward.save(ctx, ctx.saving, args, spec.without_absent(args, output))

        def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
            given = (
                ctx.needs_input_grad
            )  # only for the positional arguments up to the last whose value is not the default
            needed = (*given, *[False] * (len(parsed.arguments) - len(given)))
            return backward(ctx, ctx.saving, grads, needed)[: len(given)]

        opaque.register_autograd(gradients, setup_context=setup_context)
    elif not parsed.mutated:
        opaque.register_autograd(_refusal(spec))
    keyword_only = [argument.name for argument in parsed.arguments if argument.keyword_only]
    positional = len(parsed.arguments) - len(keyword_only)
    operator = getattr(getattr(torch.ops, parsed.namespace), name).default
    if not parsed.mutated:
        opaque.register_vmap(vmap.rule(operator))
    if not keyword_only:
        return lambda args, rung: operator(*args, rung=rung)
    return lambda args, rung: operator(
        *args[:positional], **dict(zip(keyword_only, args[positional:], strict=True)), rung=rung
    )
