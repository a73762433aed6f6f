"""Explain why a kernel is slow, without a GPU.

The kernel's machine code is executed on a CPU and counted. The counters have the names of Nsight Compute's metrics; a
predicted time and hints are derived from them.

>>> print(warpwise.explain(kernel[grid, block], *args))
>>> for launch in lab.explain_rung("softmax", "k03_warp_shuffle", "ragged"): print(launch.prediction.limiter)
"""

from __future__ import annotations

from warpwise.lab.explain.explain import explain
from warpwise.lab.explain.launch import explain_launch
from warpwise.lab.explain.model.explanation import Agreement, Explanation, Explanations, Line, Resources, TritonAccess
from warpwise.lab.explain.options import Options
from warpwise.lab.explain.render import html, terminal  # noqa: F401 - registers the rendering of Explanation
from warpwise.lab.explain.rungs import explain_rung

__all__ = [
    "Agreement", "Explanation", "Explanations", "Line", "Options", "Resources", "TritonAccess", "explain",
    "explain_launch", "explain_rung",
]  # fmt: skip
