"""The rungs of matmul_tf32 as the model of a product's time describes them."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.model import Model
from warpwise.gemm.time_model import MMA_TF32, Family, persistent, skinny


def _launches(config: str, kind: str) -> int:
    """An A that is column-major is transposed; splits through global memory are added by a launch of their own."""
    return 1 + (kind[0] == "t") + ("_p" in config)


def _aligned(kind: str) -> bool:
    """Unaligned operands are copied by torch, or read through views that a recording does not follow."""
    return "unaligned" not in kind


FAMILIES = {
    "k05_transposed_in_registers": Family(persistent, launches=_launches, replayed=_aligned, units="tf32"),
    "k06_skinny": Family(skinny, launches=_launches, replayed=_aligned, units="tf32"),
    "k07_cluster_split_k": MMA_TF32,
}
MODEL = Model("matmul_tf32", Path(__file__).parent / "model", FAMILIES)
