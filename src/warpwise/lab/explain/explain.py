"""``explain``: a launch checked, compiled, its machine code executed on the same arguments, and what that says about time."""

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
    """Why ``launch`` takes the time it takes: ``explain(kernel[grid, block], *args)`` of a CUDA or Triton kernel.

    The launch is emulated and checked first: what is found is raised, and nothing explained. Then it is compiled for
    ``target`` ("sm_90"), and the machine code is executed on copies of the same arguments, so that every width, merged
    access, spill and branch is the one that the GPU sees. The arguments themselves stay as they are; CUDA tensors are
    copied to the CPU. No GPU is needed.

    ``blocks`` is how many of the grid's blocks to execute, or "all"; without it as many as fit into ``budget`` seconds.
    ``checks`` is the checked run's, "none" to leave that run out for launches that are too large for it. ``timeout``
    (s) holds for each run. ``more`` are a Triton kernel's keyword arguments.

    ``explain("softmax:k03")`` explains a rung of a registered operation and returns ``Explanations``, one a launch;
    then ``more`` are ``explain_rung``'s.

    Raises the finding of the checked run, ``CompileError``, ``ArgumentError``, ``LaunchError``, and ``ImportError``
    with what to install where NVRTC or nvdisasm is missing.
    """
    options = Options(target, blocks, budget, checks, timeout)
    if isinstance(launch, str):
        op, rung = named(launch)
        return explain_rung(
            op, rung, *args, target=target, blocks=blocks, budget=budget, checks=checks, timeout=timeout, **more
        )
    return explain_launch(launch, args, more, options)
