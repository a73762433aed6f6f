"""Three loops in Python: the definition of the operation, and the baseline of the ladder.

c[i][j] = sum over p of a[i][p] * b[p][j]. One multiply-add takes about 50 ns; all fp32 units of a GPU together compute
one every 40 femtoseconds.
"""

from __future__ import annotations

import torch

from warpwise.gemm.operands import sizes

PYTHON_PRODUCTS = 2**17  # multiply-adds: some 10 ms in Python


def launch(output: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """a: (m, k), b: (k, n), output: (m, n), on the CPU."""
    a_rows, b_rows = a.tolist(), b.tolist()
    k, n = len(b_rows), output.shape[1]
    result = []
    for row in a_rows:
        sums = []
        for j in range(n):
            total = 0.0
            for p in range(k):
                total += row[p] * b_rows[p][j]
            sums.append(total)
        result.append(sums)
    output.copy_(torch.tensor(result, dtype=torch.float64))


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    m, n, k = sizes(a, b)
    if m * n * k > PYTHON_PRODUCTS:
        return f"takes up to {PYTHON_PRODUCTS} multiply-adds, not {m} x {n} x {k} = {m * n * k}"
    return None
