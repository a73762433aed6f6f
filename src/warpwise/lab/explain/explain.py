"""``explain``: check a launch, compile it, execute its machine code on the same arguments, and predict its time."""

from __future__ import annotations

from typing import Any

from warpwise.lab.explain.launch import explain_launch
from warpwise.lab.explain.options import BUDGET, Blocks, Options
from warpwise.lab.explain.rungs import explain_rung, named


def explain(
    launch: Any,
    *args: Any,
    target: str | None = None,
    blocks: Blocks = None,
    budget: float = BUDGET,
    checks: str = "all",
    timeout: float = 60.0,
    **more: Any,
) -> Any:
    """Explain the time of a launch of a CUDA or Triton kernel: ``explain(kernel[grid, block], *args)``.

    The launch is first emulated and checked; a finding is raised as an exception. Then the kernel is compiled for
    ``target`` ("sm_90") and its machine code is executed on copies of the arguments, so access widths, spills and
    branches are those of the GPU. The arguments are not modified; CUDA tensors are copied to the CPU. No GPU is needed.

    ``blocks`` is about the number of blocks to execute, or "all"; by default as many as fit into ``budget`` seconds.
    ``checks`` selects the checks of the first run; "none" skips that run, for launches that are too large for it.
    ``timeout`` is the limit of each run in seconds. ``more`` are a Triton kernel's keyword arguments.

    ``explain("softmax:k03")`` explains a rung of a registered operation and returns ``Explanations``, one per launch;
    ``more`` are then the options of ``explain_rung``.

    Raises the finding of the checked run, ``CompileError``, ``ArgumentError``, ``LaunchError``, and ``ImportError`` if
    NVRTC or nvdisasm is not installed.
    """
    options = Options(target, blocks, budget, checks, timeout)
    if isinstance(launch, str):
        op, rung = named(launch)
        return explain_rung(
            op, rung, *args, target=target, blocks=blocks, budget=budget, checks=checks, timeout=timeout, **more
        )
    return explain_launch(launch, args, more, options)
