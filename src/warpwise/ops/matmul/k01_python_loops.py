"""Three loops in Python: the definition, and what the rest of the ladder is measured from.

c[i][j] = sum over p of a[i][p] * b[p][j]. Some 50 ns a multiply-add; a GPU's fp32 units do one in 40 femtoseconds.
"""

from __future__ import annotations

import torch


def multiply(output: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """a: (m, k), b: (k, n), output: (m, n), on the CPU."""
    left, right = a.tolist(), b.tolist()
    depth, columns = len(right), output.shape[1]
    product = []
    for row in left:
        sums = []
        for j in range(columns):
            total = 0.0
            for p in range(depth):
                total += row[p] * right[p][j]
            sums.append(total)
        product.append(sums)
    output.copy_(torch.tensor(product, dtype=torch.float64))
