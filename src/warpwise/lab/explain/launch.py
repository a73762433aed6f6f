"""``explain_launch``: one launch of a CUDA or a Triton kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warpwise.cuda import Launcher
from warpwise.lab.explain.cuda import explain_cuda
from warpwise.lab.explain.model.explanation import Explanation
from warpwise.lab.explain.options import Options


def explain_launch(
    launcher: Any, args: Sequence[Any], meta: Mapping[str, Any] | None = None, options: Options = Options()
) -> Explanation:
    """Explain ``launcher`` called with ``args``; ``meta`` are a Triton kernel's keyword arguments."""
    if isinstance(launcher, Launcher):
        if meta:
            raise TypeError(f"{launcher.kernel.expression}: explain has no option {next(iter(meta))!r}")
        return explain_cuda(launcher, tuple(args), options)
    if hasattr(getattr(launcher, "kernel", None), "jit_function"):
        from warpwise.lab.explain.triton import explain_triton

        return explain_triton(launcher, tuple(args), dict(meta or {}), options)
    raise TypeError(
        f"explain: expected a kernel with its grid, kernel[grid, block] of warpwise.cuda or kernel[grid] of "
        f"warpwise.triton, or 'op:rung'; got {type(launcher).__name__}"
    )
