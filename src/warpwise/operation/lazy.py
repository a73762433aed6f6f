"""Launchers in modules that import Triton, which takes long to import and may not be installed."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any


def lazy_launch(module: str) -> Callable[..., None]:
    """Return a function that imports ``module`` at its first call and calls the module's ``launch``."""

    @functools.cache
    def imported() -> Callable[..., None]:
        return getattr(importlib.import_module(module), "launch")  # noqa: B009

    def launch(*args: Any, **options: Any) -> None:
        imported()(*args, **options)

    return launch
