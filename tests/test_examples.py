"""The examples that run without a GPU do what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import torch

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_an_epilogue_of_ones_own():
    clamped = runpy.run_path(str(EXAMPLES / "gemm_epilogue.py"))["clamped_matmul"]
    for m, n, k in ((50, 70, 90), (1, 1, 1), (33, 130, 31)):
        generator = torch.Generator().manual_seed(m)
        a, b = torch.randn(m, k, generator=generator), torch.randn(k, n, generator=generator)
        torch.testing.assert_close(clamped(a, b, -1.0, 2.0), (a @ b).clamp(-1.0, 2.0))
