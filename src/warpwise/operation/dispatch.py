"""A call of an operation: one key, one cache of plans.

The key holds the properties on which a launcher may depend: shapes, strides, dtypes, devices and alignment of tensors,
static attributes, and the gradient mode. A plan is PyTorch's computation, a rung, or a replay of its recorded launches.
Under torch.compile, autocast, dispatch modes, tracing and function transforms, the library operator is called.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import is_autocast_enabled, is_grad_enabled
from torch.compiler import is_dynamo_compiling
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from warpwise import ranges, tuned
from warpwise.arguments import keys
from warpwise.arguments.schema import Schema
from warpwise.arguments.values import (
    as_tuple,
    autocast_arguments,
    count_changes,
    counting,
    first_tensor,
    has_tangent,
    in_forward_mode,
    is_marked,
    map_tensors,
    single,
    tensors,
    without_autocast,
)
from warpwise.cuda.gpu.recording import have_own_memory, native_library, record, replayer, with_own_memory
from warpwise.cuda.launch import intercept
from warpwise.cuda.launch.varying import VaryingScalar
from warpwise.operation import autograd
from warpwise.operation.choice import GPU_TIME, wanted
from warpwise.operation.rung import Rung, Unsized, finished
from warpwise.operation.vmap import is_batched

if TYPE_CHECKING:
    from warpwise.operation.op import Op

MAX_PLANS = 1024  # plans of one operation; when it is reached, all are dropped
PLAIN = (torch.Tensor, torch.nn.Parameter)
_NO_KEY = (RuntimeError, TypeError, AttributeError)  # tensors without memory (torch.func's, sparse ones), wrong types
GENERATED = "<warpwise dispatch>"  # the file name of generated code in tracebacks

Plan = Callable[..., Any]
_AUTOCAST = {"cuda": is_autocast_enabled, "cpu": functools.partial(is_autocast_enabled, "cpu")}  # by type of device


def dispatcher(op: Op) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Rung | None]]:
    """Register the library operator of ``op`` and return ``call(*args, rung=None)``, ``every`` and ``planned(*args)``.

    All take all arguments of the schema by position. ``every`` is ``call``, but also returns the saved outputs;
    ``planned`` returns the chosen rung; None is PyTorch. ``call`` raises the errors of ``spec.check``,
    ``UnknownRung``, and ``ValueError`` if ``rung`` does not take the arguments.
    """
    spec = op.spec
    plans = Plans()
    backward = autograd.Backward(spec, spec.gradient) if spec.gradient is not None else None
    listed = any(argument.is_list and argument.is_tensor for argument in spec.parsed.arguments)

    def plan_of(args: tuple[Any, ...], rung: str | None) -> Plan:
        """The plan without gradients: PyTorch, or a rung."""
        spec.parsed.check_kinds(args)
        spec.check(*args)
        chosen = op.chosen(*args, rung=rung)
        return spec.eager if chosen is None else KernelPlan(op, chosen, args, rung)

    def lowered(args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args if spec.autocast == "keep" else autocast_arguments(args, spec.autocast)

    def by_pytorch(args: tuple[Any, ...], rung: str | None) -> Any:
        return without_autocast(lambda *values: forward_derivative(op, values, rung), lowered(args))

    def compute(*args: Any, rung: str | None = None, **named: Any) -> Any:
        """The kernel of the library operator. For an output that is not present it returns an empty tensor."""
        args = spec.parsed.bind(args, named)  # torch.library omits arguments that equal their default
        args = tuple(tuple(value) if type(value) is list and not list(tensors(value)) else value for value in args)
        made = as_tuple(without_autocast(lambda *values: plan_of(values, rung)(*values), args))
        made = tuple(first_tensor(args).new_empty(0) if part is None else part for part in made)
        return single(_with_own_storage(made, args))

    def fake(*args: Any, rung: str | None = None, **named: Any) -> Any:
        args = spec.parsed.bind(args, named)
        spec.check(*args)
        return single([_fake(out, first_tensor(args)) for out in op.allocate(*args)])

    library = autograd.register(spec, compute, fake, backward)
    transformed = autograd.transformed(spec.name, library, backward) if backward is not None else None
    shown = [position for position, name in enumerate(spec.parsed.outputs) if not spec.outputs[name].saved]
    everything = len(shown) == len(spec.parsed.outputs)

    def public(made: Any) -> Any:
        """The outputs that the call returns: all but the saved ones."""
        return made if everything else single([as_tuple(made)[position] for position in shown])

    def by_library(args: tuple[Any, ...], rung: str | None) -> Any:
        if spec.parsed.mutated and is_grad_enabled():
            refuse_gradients(spec.parsed, args)
        made = library(lowered(args), rung)
        return spec.without_absent(args, made)

    def without_key(args: tuple[Any, ...], rung: str | None) -> Any:
        """Run a call without a key: with tensors of a torch.func transform, sparse tensors, or wrong types."""
        spec.parsed.check_kinds(args)
        spec.check(*args)
        if in_forward_mode():
            return by_pytorch(args, rung)
        if transformed is None:
            return by_library(args, rung)
        if rung in (None, GPU_TIME) and any(map(is_batched, tensors(args))):
            with contextlib.suppress(RuntimeError):  # of vmap, for example if the control flow depends on values
                return by_pytorch(args, rung)
        try:
            return spec.without_absent(args, transformed(rung, *lowered(args)))
        except RuntimeError as error:
            if "unctionalize" not in str(error):  # torch.func.functionalize has no rule for an autograd.Function
                raise
            return by_library(args, rung)

    def first(key: tuple[Any, ...] | None, args: tuple[Any, ...], rung: str | None) -> Any:
        """Run a call whose key has no plan yet, and cache its plan."""
        if key is None:
            return without_key(args, rung)
        given = list(tensors(args))
        if in_forward_mode() or any(is_autocast_enabled(kind) for kind in ("cuda", "cpu")) or torch.jit.is_tracing():
            return slow(args, rung)
        if any(value.is_nested for value in given):  # the library operator has no error for them
            spec.check(*args)
        if not all(type(value) in PLAIN and value.device.type in ("cpu", "cuda") for value in given):
            return by_library(args, rung)
        differentiating = is_grad_enabled() and any(value.requires_grad for value in given)
        if differentiating and (backward is None or listed):
            return by_library(args, rung)
        plan = plan_of(args, rung)
        of_pytorch = plan is spec.eager
        if of_pytorch and spec.eager_plan is not None:
            plan = spec.eager_plan(*args)
        run = differentiable(plan, args, of_pytorch) if differentiating else plan
        result = run(*args)
        if of_pytorch:
            spec.check_eager(as_tuple(result))
        if isinstance(plan, KernelPlan) and plan.replay is not None:
            run = differentiable(plan.replay, args) if differentiating else plan.replay
        if spec.parsed.mutated:
            run = counting(run, spec.parsed)
            count_changes(args, spec.parsed)
        if len(plans) >= MAX_PLANS:
            plans.clear()
        plans[key] = run, _AUTOCAST[given[0].device.type if given else "cpu"]
        plans.use_native()
        return result

    def differentiable(plan: Plan, args: tuple[Any, ...], of_pytorch: bool = False) -> Plan:
        """The plan with gradients: PyTorch's autograd if ``Gradient.eager_records`` allows it, else our backward."""
        assert backward is not None and spec.gradient is not None
        records = spec.gradient.eager_records(*args) if of_pytorch else False
        if records is True:
            return plan
        ours = autograd.recorded(spec.name, backward, without_views(plan) if of_pytorch else plan, args)
        if not callable(records):
            return ours
        return lambda *values: plan(*values) if records() else ours(*values)

    def slow(args: tuple[Any, ...], rung: str | None) -> Any:
        """Run a call under tracing, autocast, a dispatch mode or a function transform."""
        if not is_dynamo_compiling() and not torch.jit.is_tracing():  # in a trace, integers are tensors
            spec.parsed.check_kinds(args)
        if not is_dynamo_compiling() and in_forward_mode() and has_tangent(args):
            return by_pytorch(args, rung)
        return by_library(args, rung)

    plans.generate(spec.parsed, spec.varying, first, slow, public)
    chosen = tuned.Cache()  # from a key to a rung, or None for PyTorch

    def planned(*args: Any) -> Rung | None:
        key = wanted[0], plans.key(*args)
        if key not in chosen:
            spec.check(*args)
            if len(chosen) >= MAX_PLANS:
                chosen.clear()
            chosen[key] = op.chosen(*args)
        return chosen[key]

    call = plans.call if everything else plans.shown
    call.__name__ = call.__qualname__ = spec.name
    return call, plans.call, planned


def refuse_gradients(parsed: Schema, args: tuple[Any, ...]) -> None:
    """Raise ``RuntimeError`` if a tensor requires a gradient: a call that writes to its arguments records none."""
    for argument, value in zip(parsed.arguments, args, strict=True):
        if argument.is_tensor and any(tensor.requires_grad for tensor in tensors([value])):
            raise RuntimeError(
                f"{parsed.name} writes to {', '.join(parsed.mutated)} and records no gradient, but {argument.name} "
                "requires one: call it under torch.no_grad(), or detach the argument"
            )


def _with_own_storage(made: tuple[torch.Tensor, ...], args: tuple[Any, ...]) -> list[torch.Tensor]:
    """``made``, with copies of results that share memory with an argument or an earlier result.

    torch.library forbids results that share memory. PyTorch's own computation returns some: the two gradients of x + y
    are one tensor.
    """
    storages = {tensor.untyped_storage()._cdata for tensor in tensors(args)}
    separate = []
    for tensor in made:
        tensor = tensor.clone() if tensor.untyped_storage()._cdata in storages else tensor
        storages.add(tensor.untyped_storage()._cdata)
        separate.append(tensor)
    return separate


def without_views(plan: Plan) -> Plan:
    """``plan`` with results that may be modified in place, unlike views that an ``autograd.Function`` returns."""

    def base(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach() if tensor._is_view() else tensor

    return lambda *args: map_tensors(base, plan(*args))


class KernelPlan:
    """A rung for arguments of one key. ``replay`` repeats the launches recorded in its first run on a GPU."""

    def __init__(self, op: Op, rung: Rung, args: Sequence[Any], name: str | None) -> None:
        self.op, self.rung, self.name = op, rung, name
        self.replay: Plan | None = None
        self._tensors = [at for at, value in enumerate(args) if isinstance(value, torch.Tensor)]
        self._varying = [op.spec.parsed.index(name) for name in op.spec.varying]
        self._recorded = any(isinstance(value, (list, tuple)) and list(tensors(value)) for value in args)

    def __call__(self, *args: Any) -> Any:
        """Launch the rung. Record the launches at the first call that allows it."""
        if in_forward_mode() and has_tangent(args):
            return forward_derivative(self.op, args, self.name)
        op, outputs = self.op, self.op.allocate(*args)
        inputs = [args[at] for at in self._tensors]
        if (
            self._recorded
            or intercept.INTERCEPTORS
            or ranges.profiling_active()
            or not self._recordable(outputs, inputs)
        ):
            op.launch(self.rung, outputs, *args)
            return single(finished(outputs))
        self._recorded = True
        copied = set() if self.rung.strided else {at for at in self._tensors if not args[at].is_contiguous()}
        marked = [value.contiguous() if at in copied else value for at, value in enumerate(args)]
        inputs = [marked[at] for at in self._tensors]
        if not have_own_memory(inputs):
            inputs = [with_own_memory(tensor) for tensor in inputs]
            for at, tensor in zip(self._tensors, inputs, strict=True):
                marked[at] = tensor
        for index, at in enumerate(self._varying):
            marked[at] = VaryingScalar(index, args[at])
        scalars = [marked[at] for at in self._varying]
        made: list[Any] = list(outputs)
        filled = [output for output in made if output is not None and output.numel()]
        recording = record(lambda: op.launch(self.rung, outputs, *marked), [*filled, *inputs], scalars)
        if recording is not None:
            places = [(at, at in copied) for at in self._tensors]
            self.replay = replayer(recording, made, places, self._varying, self)
        return single(outputs)

    def _recordable(self, outputs: Sequence[Any], inputs: Sequence[torch.Tensor]) -> bool:
        """True on a GPU, if the rung writes to these tensors without copies, and mutated ones do not share memory.

        The rung may read contiguous copies.
        """
        if self.rung.language not in ("cuda", "triton") or any(isinstance(output, Unsized) for output in outputs):
            return False
        filled = [output for output in outputs if output is not None and output.numel()]
        given, mutates = [*filled, *inputs], bool(self.op.spec.parsed.mutated)
        return (
            all(tensor.is_cuda and tensor.numel() and not is_marked(tensor) for tensor in given)
            and (self.rung.strided or all(tensor.is_contiguous() for tensor in (given if mutates else filled)))
            and (not mutates or have_own_memory(given))
        )


_CALL = """
def key({names}):
    return recording(), {key}

def call({names}, rung=None):
    if compiling():
        return slow(({names},), rung)
    return entry[0]({names}, wanted[0] if rung is None else rung)

def shown({names}, rung=None):
    return public(call({names}, rung))

def general({names}, rung):
    if in_dispatch_mode():
        return slow(({names},), rung)
    key = found = None
    try:
        key = rung, recording(), {key}
        found = plans.get(key)
    except NO_KEY:
        pass
    if found is None:
        return first(key, ({names},), rung)
    plan, autocast = found
    if autocast():
        return slow(({names},), rung)
    try:
        return plan({names})
    except NotImplementedError:  # an autograd.Function has no forward-mode derivative
        if not in_forward_mode():
            raise
    return slow(({names},), rung)

def find({names}, rung):
    found = plans.get((rung, recording(), {key}))
    return found and found[0]
"""


class Plans(tuned.Cache):
    """The plans of an operation by key, each with a function that returns true if autocast is enabled.

    ``entry[0](*args, rung)`` runs the call; once ``fastcall`` is built it is a C++ object that caches plans by C++
    keys. CPython specialises the item of a list, and a default that is not keyword-only; attributes and keywords would
    take 0.2 µs.
    """

    _native: Any = None

    def generate(self, schema: Schema, varying: Sequence[str], first: Plan, slow: Plan, public: Plan) -> None:
        """Set ``call(*args, rung=None)``, ``shown``, which returns ``public`` of it, and ``key(*args)`` to generated
        code: loops would take twice as long.
        """
        self._kinds = keys.native_kinds(schema, varying)
        names = [f"a{number}" for number in range(len(schema.arguments))]
        key = keys.expression(schema, varying, names)
        scope: dict[str, Any] = {
            "compiling": is_dynamo_compiling, "in_dispatch_mode": is_in_torch_dispatch_mode,
            "recording": is_grad_enabled, "in_forward_mode": in_forward_mode,
            "NO_KEY": _NO_KEY, "one": keys.one, "plans": self, "first": first, "slow": slow, "public": public,
            "wanted": wanted,
            "entry": (entry := list[Plan]()),
        }  # fmt: skip
        exec(compile(_CALL.format(names=", ".join(names), key=key), GENERATED, "exec"), scope)  # noqa: S102
        self.call, self.shown, self.key, self._find = (scope[name] for name in ("call", "shown", "key", "find"))
        entry.append(scope["general"])
        self.entry = entry

    def use_native(self) -> None:
        """Use ``fastcall`` for the next calls if its library is built."""
        if self._native is None and self._kinds and (library := native_library()) is not None:
            self.entry[0] = self._native = library.Call(self._kinds, self.entry[0], self._find)

    def clear(self) -> None:
        super().clear()
        if self._native is not None:
            self._native.forget()


def _fake(output: torch.Tensor | Unsized | None, like: torch.Tensor) -> torch.Tensor:
    if isinstance(output, Unsized):
        context = torch.library.get_ctx()
        return output.empty([context.new_dynamic_size() if size is None else size for size in output.shape])
    return like.new_empty(0) if output is None else output


def forward_derivative(op: Op, args: Sequence[Any], rung: str | None) -> Any:
    """PyTorch's result with its forward-mode derivative. Raises ``NotImplementedError`` if ``rung`` is given."""
    if rung not in (None, GPU_TIME):
        raise NotImplementedError(
            f"{op.name}: expected no rung where a forward-mode derivative is computed, since only PyTorch's operators "
            f"have one, got {rung!r}"
        )
    op.spec.check(*args)
    return op.spec.eager(*args)
