"""Capture the launches of a piece of code, to profile, time or repeat them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from warpwise.cuda.launch.intercept import intercepting
from warpwise.cuda.launch.launcher import Launcher

Around = Callable[[], contextlib.AbstractContextManager[object]]


@dataclass(frozen=True)
class CapturedLaunch:
    """A launch of a kernel of ``warpwise.cuda``: ``kernel[grid, block, shared_bytes]`` and its arguments."""

    launcher: Launcher
    args: tuple[Any, ...]

    def __call__(self) -> None:
        """Repeat the launch with the current contents of its arguments."""
        self.launcher(*self.args)

    @property
    def expression(self) -> str:
        """The kernel's C++ name expression."""
        return self.launcher.kernel.expression


@contextlib.contextmanager
def captured(around: Around = contextlib.nullcontext) -> Iterator[list[CapturedLaunch]]:
    """Capture every launch of a CUDA kernel in this thread inside the context; each runs within ``around()``.

    >>> with captured() as launches:
    ...     op.launch(rung, outputs, *args)
    """
    launches: list[CapturedLaunch] = []

    def made(launcher: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        if not isinstance(launcher, Launcher):
            launcher(*args, **options)
            return
        launches.append(CapturedLaunch(launcher, args))
        with around():
            launcher(*args, **options)

    with intercepting(made):
        yield launches


@contextlib.contextmanager
def profiled() -> Iterator[None]:
    """The range that ``ncu --profile-from-start off`` measures; previous launches have finished when it starts."""
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    try:
        yield
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()
