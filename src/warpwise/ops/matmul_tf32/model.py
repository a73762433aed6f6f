"""The rungs of matmul_tf32, described for ``gemm.time_model``."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.model import Model
from warpwise.gemm.time_model import MMA_TF32, Family, Product, persistent, skinny


def _launches(config: str, kind: str) -> int:
    """A column-major A is transposed, unaligned operands are copied, and splits through global memory are added."""
    return 1 + (kind[0] == "t") + ("unaligned" in kind) + ("_p" in config)


def _copied(product: Product, kind: str) -> int:
    """The elements of operands that TMA cannot load in place."""
    (m, n, k), (a, b) = product[:3], product.words
    return (m * k if a < 16 else 0) + (n * k if b < 16 else 0)


def _of_a(product: Product, kind: str) -> int:
    return product.m * product.k if product.words[0] < 16 else 0


def _shifted(product: Product, kind: str) -> tuple[int, int]:
    """k03 loads rows of B that are not aligned with four tensor maps."""
    return 16, product.words[1]


FAMILIES = {
    "k02_transposed_in_registers": Family(persistent, copied=_copied, launches=_launches, units="tf32"),
    "k03_skinny": Family(skinny, _shifted, copied=_of_a, launches=_launches, units="tf32"),
    "k04_cluster_split_k": MMA_TF32,
}
MODEL = Model("matmul_tf32", Path(__file__).parent / "model", FAMILIES)
