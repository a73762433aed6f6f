"""From an ``Op`` to the function that PyTorch users call: a torch.library op with a meta kernel and autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from warpwise.ops._plans import Plans
from warpwise.registry import Op, Outputs

_PLAIN = (torch.Tensor, torch.nn.Parameter)


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

    The function takes the shortest way. Plain tensors that need no gradient go straight to the plan that arguments like
    them have had (``_plans``), since a library boundary costs 10-60 µs a call; with a gradient, under torch.compile or
    under tracing the library op runs. On CPU tensors both compute through PyTorch, unless ``rung`` names the rung to be
    emulated.
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
    library = getattr(torch.ops.warpwise, op.name).default

    def function(*args: Any, rung: str | None = None) -> Any:
        if torch.compiler.is_compiling() or not _may_bypass(args):
            return library(*(args if autocast == "keep" else _cast(args, autocast)), rung=rung)
        if not (torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu")):
            return plans(args, rung)
        return _without_autocast(plans, args if autocast == "keep" else _cast(args, autocast), rung)

    function.__name__ = function.__qualname__ = op.name
    return function


def _with_rung(schema: str) -> str:
    """``schema`` with the keyword-only argument ``rung`` after its last argument."""
    arguments, arrow, returns = schema.partition(") ->")
    if not arrow:
        raise ValueError(f"expected a schema like '(Tensor input) -> Tensor', got {schema!r}")
    return f"{arguments}, *, str? rung=None{arrow}{returns}"


def _may_bypass(args: tuple[Any, ...]) -> bool:
    """Whether the library boundary has nothing to do: real tensors, no gradient, no tracing or function transform."""
    differentiating = torch.is_grad_enabled()
    for value in args:
        if not isinstance(value, torch.Tensor):
            continue
        if (
            type(value) not in _PLAIN
            or not (value.is_cuda or value.is_cpu)
            or (differentiating and value.requires_grad)
        ):
            return False
    return _get_current_dispatch_mode() is None and torch._C._functorch.peek_interpreter_stack() is None


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
