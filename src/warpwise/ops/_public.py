"""From an ``Op`` to the function that PyTorch users call: a torch.library op with a meta kernel and autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling
from torch.utils._python_dispatch import _get_current_dispatch_mode

from warpwise.ops._gradients import differentiable, transformable, transformed_by_grad
from warpwise.ops._plans import Plans
from warpwise.ops._shortcuts import Shortcuts
from warpwise.registry import Op, Outputs

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_autocasting: Callable[[], bool] = getattr(torch._C, "_is_any_autocast_enabled", None) or (
    lambda: torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")
)


def public(
    op: Op,
    schema: str,
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., None] | None = None,
    autocast: Literal["keep", "low_precision", "float32"] = "keep",
    eager_records: bool = False,
    eager: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """Register ``op`` as ``torch.ops.warpwise.<name>`` and return ``function(*args, rung=None)``.

    ``schema`` lists the operation's own arguments, without defaults: ``"(Tensor input, int dim) -> Tensor"``; a
    keyword-only ``str? rung=None`` is added here. ``setup_context(ctx, inputs, output)`` and ``backward(ctx, *grads)``
    are those of ``torch.library.register_autograd``: one gradient for each argument of ``schema``, none for ``rung``.
    A backward made of differentiable functions (other public functions, say) gives double backward.

    ``autocast`` says what torch.autocast does to floating-point arguments: nothing, its low precision (as for
    ``torch.matmul``), or float32 (as for ``torch.softmax``).

    The function takes the shortest way. Plain tensors go straight to the plan that arguments like them have had
    (``_plans``, ``_shortcuts``), with a gradient by an ``autograd.Function`` of the same backward, since a library boundary
    costs 10-60 µs a call; under torch.compile, autocast and tracing the library op runs, and under torch.func an
    ``autograd.Function`` made for that (``_gradients``). On CPU tensors all compute through PyTorch, unless ``rung`` names
    the rung to be emulated. Where a forward-mode derivative is asked for, ``eager`` computes.

    ``eager_records`` says that the specification's ``eager`` is made of differentiable operators. A dtype that no rung
    takes is then PyTorch's, gradients and all: they record themselves in a third of the time of an ``autograd.Function``.

    ``eager`` stands in for the specification's, and may give None for an output that was not asked for, which the function
    then returns too; the library op gives a tensor of no elements.
    """
    if "rung" in schema:
        raise ValueError(f"{op.name}: expected a schema without rung, which is added to it, got {schema!r}")
    name = f"warpwise::{op.name}"

    plans = Plans(op, eager)

    def compute(*args: Any, rung: str | None = None) -> Outputs:
        made = _without_autocast(plans, args, rung)
        if isinstance(made, torch.Tensor) or all(part is not None for part in made):
            return made
        told = op.spec.outputs(*args)
        return tuple(empty if part is None else part for part, empty in zip(made, told, strict=True))

    def meta(*args: Any, rung: str | None = None) -> Outputs:
        op.spec.check(*args)
        return op.spec.outputs(*args)

    opaque = torch.library.custom_op(name, compute, mutates_args=(), schema=_with_rung(schema))
    opaque.register_fake(meta)
    if backward is not None:

        def save(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Outputs) -> None:
            if setup_context is not None:
                setup_context(ctx, inputs, output)

        opaque.register_autograd(backward, setup_context=save)
    recorded = None if backward is None else differentiable(op.name, backward, setup_context)
    library = getattr(torch.ops.warpwise, op.name).default
    shortcuts = Shortcuts()
    transformed = None if backward is None else transformable(op.name, library, backward, setup_context)

    def way_of(args: tuple[Any, ...], rung: str | None, differentiating: bool) -> Callable[[tuple[Any, ...]], Any]:
        plan = plans.plan(args, rung)
        by_itself = eager_records and plan is plans.eager and _is_pytorchs(op, args)
        return recorded(plan) if differentiating and recorded is not None and not by_itself else plan

    def by_pytorch(args: tuple[Any, ...], rung: str | None) -> Outputs:
        if rung is not None:
            raise NotImplementedError(
                f"{op.name}: expected no rung where a forward-mode derivative is asked for, since PyTorch's operators alone have "
                f"those, got {rung!r}"
            )
        op.spec.check(*args)
        return op.spec.eager(*args)

    def lowered(args: tuple[Any, ...]) -> tuple[Any, ...]:
        return args if autocast == "keep" else _cast(args, autocast)

    def function(*args: Any, rung: str | None = None) -> Any:
        if is_dynamo_compiling():
            return library(*lowered(args), rung=rung)
        if forward_ad._current_level >= 0 and _has_tangent(args):
            return _without_autocast(by_pytorch, lowered(args), rung)
        way = shortcuts.find(args, rung)
        if way is not None:
            return way(*args)
        differentiating = _differentiating(args)
        if differentiating is not None:
            if not _autocasting():
                if not differentiating or recorded is not None:
                    way = way_of(args, rung, differentiating)
                    result = way(*args)
                    shortcuts.keep(args, rung, way)
                    return result
            elif not differentiating:
                return _without_autocast(plans, lowered(args), rung)
        if transformed is not None and transformed_by_grad():
            return transformed(*lowered(args), rung)
        return library(*lowered(args), rung=rung)

    function.__name__ = function.__qualname__ = op.name
    return function


def _with_rung(schema: str) -> str:
    """``schema`` with the keyword-only argument ``rung`` after its last argument."""
    arguments, arrow, returns = schema.partition(") ->")
    if not arrow:
        raise ValueError(f"expected a schema like '(Tensor input) -> Tensor', got {schema!r}")
    return f"{arguments}, *, str? rung=None{arrow}{returns}"


def _differentiating(args: tuple[Any, ...]) -> bool | None:
    """Whether a gradient is asked for; None where tensors are no real ones, or something traces or transforms their use."""
    found, recording = False, torch.is_grad_enabled()
    for value in args:
        if isinstance(value, torch.Tensor):
            if type(value) not in _PLAIN or not (value.is_cuda or value.is_cpu):
                return None
            found = found or (recording and value.requires_grad)
    if _get_current_dispatch_mode() is not None or torch._C._functorch.peek_interpreter_stack() is not None:
        return None
    return None if torch._C._get_tracing_state() is not None else found


def _has_tangent(args: tuple[Any, ...]) -> bool:
    """Whether a forward-mode derivative is asked for, where any is."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    tensors = [value for value in args if isinstance(value, torch.Tensor)]
    return any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)


def _is_pytorchs(op: Op, args: tuple[Any, ...]) -> bool:
    """Whether no rung takes the dtype of these arguments, so that products of the backward would be PyTorch's too."""
    dtype = next((value.dtype for value in args if isinstance(value, torch.Tensor)), None)
    return all(rung.dtypes is not None and dtype not in rung.dtypes for rung in op.rungs)


def _device_type(args: tuple[Any, ...]) -> str:
    return next((value.device.type for value in args if isinstance(value, torch.Tensor)), "cpu")


def _without_autocast(
    run: Callable[[tuple[Any, ...], str | None], Outputs], args: tuple[Any, ...], rung: str | None
) -> Outputs:
    """``run`` with autocast off, so that PyTorch's own operators keep the dtype that the meta kernel promised."""
    kind = _device_type(args)
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return run(args, rung)
    with torch.autocast(kind, enabled=False):
        return run(args, rung)


def _cast(args: tuple[Any, ...], rule: str) -> tuple[Any, ...]:
    """``args`` as torch.autocast would hand them on: float64 and what is not floating point stay as they are."""
    kind = _device_type(args)
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return args
    dtype = torch.get_autocast_dtype(kind) if rule == "low_precision" else torch.float32
    castable = (torch.float16, torch.bfloat16, torch.float32)
    return tuple(
        value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype in castable else value for value in args
    )
