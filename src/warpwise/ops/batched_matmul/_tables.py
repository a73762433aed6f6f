"""The tables of batched_matmul: kinds of operands, and sizes worth measuring."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.gemm import tables
from warpwise.operation import Case, Tables
from warpwise.ops.batched_matmul.model import MODEL
from warpwise.ops.batched_matmul.spec import sizes

_SHAPES = {  # batch, m, n, k
    "square": (16, 1024, 1024, 1024), "two": (2, 4096, 4096, 4096), "many_512": (64, 512, 512, 512),
    "few_512": (8, 512, 512, 512), "many_256": (256, 256, 256, 256), "few_256": (16, 256, 256, 256),
    "many_128": (512, 128, 128, 128), "many_64": (2048, 64, 64, 64),
    "scores": (64, 2048, 2048, 128), "few_scores": (16, 2048, 2048, 128), "scores_64": (512, 1024, 1024, 64),
    "values": (64, 2048, 128, 2048), "few_values": (16, 2048, 128, 2048), "values_64": (512, 1024, 64, 1024),
    "ragged": (16, 1000, 777, 999), "ragged_512": (64, 511, 513, 515), "ragged_small": (2048, 33, 47, 65),
}  # fmt: skip
SIZES = tuple(Case(name, dict(zip(("batch", "m", "n", "k"), shape, strict=True))) for name, shape in _SHAPES.items())


def describe(a: torch.Tensor, b: torch.Tensor) -> tuple[str, dict[str, int]]:
    """The layouts of a's and b's matrices, n for row-major and t for column-major, whether rows begin on 16 bytes, and
    the sizes.

    >>> describe(torch.empty(3, 8, 16), torch.empty(3, 24, 16).mT)
    ("nt", {"batch": 3, "m": 8, "n": 24, "k": 16})
    """
    found = dict(zip(("batch", "m", "n", "k"), sizes(a, b), strict=True))
    if not found["batch"]:
        return "nn", found
    kind, _ = tables.describe(*(operand[0] if operand.dim() == 3 else operand for operand in (a, b)))
    if any(_step(operand) % 16 for operand in (a, b)) and not kind.endswith("unaligned"):
        kind += " unaligned"
    return kind, found


def _step(operand: torch.Tensor) -> int:
    """The stride of matrices in bytes; 0 if there is one."""
    return operand.stride(0) * operand.element_size() if operand.dim() == 3 and operand.shape[0] > 1 else 0


TABLES = Tables(
    "batched_matmul", Path(__file__).parent / "tuned", describe, tables.ARRANGEMENTS, SIZES, tables.FALLBACK, MODEL
)
