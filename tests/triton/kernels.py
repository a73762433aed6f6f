"""A kernel, and line numbers of kernels, for tests of findings."""

from __future__ import annotations

import inspect

import triton.language as tl

from warpwise import triton as wt


def line_of(kernel: wt.Kernel, text: str) -> int:
    """Return the line number in its file of the kernel's first line that contains ``text``."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


@wt.jit
def increment(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, x + 1)
