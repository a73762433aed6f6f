"""The rungs of matmul_tf32 as the model of a product's time describes them."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.families import of_warps, own_words, persistent, skinny
from warpwise.gemm.model import Family, Model


def _launches(config: str, kind: str) -> int:
    """An A that is column-major is transposed; splits through global memory are added by a launch of their own."""
    return 1 + (kind[0] == "t") + ("_p" in config)


def _aligned(kind: str) -> bool:
    """Unaligned operands are copied by torch, or read through views that a recording does not follow."""
    return "unaligned" not in kind


FAMILIES = {
    "k05_transposed_in_registers": Family(persistent, launches=_launches, replayed=_aligned),
    "k06_skinny": Family(skinny, launches=_launches, replayed=_aligned),
    "k07_cluster_split_k": Family(of_warps, own_words),
}
MODEL = Model("matmul_tf32", Path(__file__).parent / "model", FAMILIES)
