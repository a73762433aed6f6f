"""Why a kernel is slow: its machine code executed on a CPU and counted, under Nsight Compute's names, with what that means.

>>> print(warpwise.explain(kernel[grid, block], *args))
>>> for launch in lab.explain_rung("softmax", "k03_warp_shuffle", "ragged"): print(launch.prediction.limiter)
"""

from __future__ import annotations

from warpwise.lab.explain.explain import Options, explain, explain_launch
from warpwise.lab.explain.explanation import Access, Agreement, Explanation, Explanations, Line, Resources
from warpwise.lab.explain.rungs import explain_rung

__all__ = [
    "Access", "Agreement", "Explanation", "Explanations", "Line", "Options", "Resources", "explain", "explain_launch",
    "explain_rung",
]  # fmt: skip
