"""From an ``Op`` to the function that PyTorch users call: a torch.library op with a meta kernel and autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from warpwise.ops._plans import Plans
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
) -> Callable[..., Any]:
    """Register ``op`` as ``torch.ops.warpwise.<name>`` and return ``function(*args, rung=None)``.

    ``schema`` lists the operation's own arguments, without defaults: ``"(Tensor input, int dim) -> Tensor"``; a
    keyword-only ``str? rung=None`` is added here. ``setup_context(ctx, inputs, output)`` and ``backward(ctx, *grads)``
    are those of ``torch.library.register_autograd``: one gradient for each argument of ``schema``, none for ``rung``.
    A backward made of differentiable functions (other public functions, say) gives double backward.

    ``autocast`` says what torch.autocast does to floating-point arguments: nothing, its low precision (as for
    ``torch.matmul``), or float32 (as for ``torch.softmax``).

    The function takes the shortest way. Plain tensors go straight to the plan that arguments like them have had
    (``_plans``), with a gradient by an ``autograd.Function`` of the same backward, since a library boundary costs 10-60 µs
    a call; under torch.compile, autocast, tracing or a function transform the library op runs. On CPU tensors both
    compute through PyTorch, unless ``rung`` names the rung to be emulated.
    """
    if "rung" in schema:
        raise ValueError(f"{op.name}: expected a schema without rung, which is added to it, got {schema!r}")
    name = f"warpwise::{op.name}"

    plans = Plans(op)

    def compute(*args: Any, rung: str | None = None) -> Outputs:
        return _without_autocast(plans, args, rung)

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
    recorded = None if backward is None else _differentiable(op.name, plans, backward, setup_context)
    library = getattr(torch.ops.warpwise, op.name).default

    def function(*args: Any, rung: str | None = None) -> Any:
        differentiating = None if torch.compiler.is_compiling() else _differentiating(args)
        if differentiating is not None:
            if not _autocasting():
                if not differentiating:
                    return plans(args, rung)
                if recorded is not None:
                    return recorded(*args, rung)
            elif not differentiating:
                return _without_autocast(plans, args if autocast == "keep" else _cast(args, autocast), rung)
        return library(*(args if autocast == "keep" else _cast(args, autocast)), rung=rung)

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
    return found


def _differentiable(
    name: str, plans: Plans, backward: Callable[..., Any], setup_context: Callable[..., None] | None
) -> Callable[..., Any]:
    """``function(*args, rung)`` that runs a plan and is recorded by autograd, as ``torch.library.register_autograd`` does it."""

    def forward(ctx: Any, *args: Any) -> Outputs:
        output = plans(args[:-1], args[-1])
        if setup_context is not None:
            setup_context(ctx, args[:-1], output)
        return output

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        all_needed = ctx.needs_input_grad
        ctx.needs_input_grad = all_needed[:-1]
        try:
            found = backward(ctx, *grads)
        finally:
            ctx.needs_input_grad = all_needed
        return (*found, None) if isinstance(found, tuple) else (found, None)

    made = type(
        name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(gradients)}
    )
    # The base class's apply: Function's own asks first whether a function transform is active, which is known here.
    return super(torch.autograd.Function, made).apply  # type: ignore[misc]


def _device_type(args: tuple[Any, ...]) -> str:
    return next((value.device.type for value in args if isinstance(value, torch.Tensor)), "cpu")


def _without_autocast(plans: Plans, args: tuple[Any, ...], rung: str | None) -> Outputs:
    """Run a plan with autocast off, so that PyTorch's own operators keep the dtype that the meta kernel promised."""
    kind = _device_type(args)
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return plans(args, rung)
    with torch.autocast(kind, enabled=False):
        return plans(args, rung)


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
