"""Rendering of results, kept apart from the classes that hold them.

A module that renders a class registers its functions here, and the class's ``_repr_html_`` and ``__str__`` call
``render``. Results therefore import no rendering code, and packages import the rendering module in their ``__init__``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Renderer = TypeVar("Renderer", bound=Callable[..., Any])
_RENDERERS: dict[tuple[type, str], Callable[..., Any]] = {}


def renders(kind: type, form: str) -> Callable[[Renderer], Renderer]:
    """Register the decorated function to render objects of class ``kind`` as ``form`` ("html", "text", "rich")."""

    def register(function: Renderer) -> Renderer:
        _RENDERERS[kind, form] = function
        return function

    return register


def render(value: object, form: str, *args: Any, **options: Any) -> Any:
    """``value`` as ``form``, by the function registered for its class or the nearest base class.

    Raises ``LookupError`` if none is registered.
    """
    for kind in type(value).__mro__:
        if (kind, form) in _RENDERERS:
            return _RENDERERS[kind, form](value, *args, **options)
    raise LookupError(f"no function is registered that renders {type(value).__name__} as {form}")
