"""Backwards as autograd takes them: of a plan, in eager mode, and of the library's operator under torch.func.

torch.func asks for an ``autograd.Function`` whose context is set up apart from its forward, and refuses those that
torch.library makes of a backward; without it the older kind, set up by its forward, is the faster one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from warpwise.ops._plans import Plan
from warpwise.registry import Outputs


def differentiable(
    name: str, backward: Callable[..., Any], setup_context: Callable[..., None] | None
) -> Callable[[Plan], Callable[..., Any]]:
    """Makes plans such that autograd records them, as ``torch.library.register_autograd`` does it."""

    def forward(ctx: Any, plan: Plan, *args: Any) -> Outputs:
        output = plan(*args)
        if setup_context is not None:
            setup_context(ctx, args, output)
        return output

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        all_needed = ctx.needs_input_grad
        ctx.needs_input_grad = all_needed[1:]
        try:
            found = backward(ctx, *grads)
        finally:
            ctx.needs_input_grad = all_needed
        return (None, *found) if isinstance(found, tuple) else (None, found)

    made = type(
        name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(gradients)}
    )
    # The base class's apply: Function's own asks first whether a function transform is active, which is known here.
    apply = super(torch.autograd.Function, made).apply  # type: ignore[misc]
    return lambda plan: functools.partial(apply, plan)


def transformed_by_grad() -> bool:
    """Whether torch.func's grad, vmap and the like are at work in this thread, and its functionalize is not."""
    functorch = torch._C._functorch
    levels = functorch.get_interpreter_stack() or ()
    return bool(levels) and all(level.key() != functorch.TransformType.Functionalize for level in levels)


def transformable(
    name: str, library: Callable[..., Any], backward: Callable[..., Any], setup_context: Callable[..., None] | None
) -> Callable[..., Any]:
    """``function(*args, rung)`` runs the library's operator and has ``backward`` for its gradient, also in torch.func."""

    def forward(*args: Any) -> Any:
        return library(*args[:-1], rung=args[-1])

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if setup_context is not None:
            setup_context(ctx, inputs[:-1], output)

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        found = backward(ctx, *grads)
        return (*found, None) if isinstance(found, tuple) else (found, None)

    members = {"forward": forward, "setup_context": setup, "backward": gradients}
    made = type(
        name,
        (torch.autograd.Function,),
        {"generate_vmap_rule": True} | {key: staticmethod(value) for key, value in members.items()},
    )
    return made.apply  # type: ignore[attr-defined]
