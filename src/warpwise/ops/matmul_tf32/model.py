"""How the model of a product's time sees the rungs of matmul_tf32."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.families import of_warps, own_words, persistent, skinny
from warpwise.gemm.model import Family, Model

FAMILIES = {
    "k05_transposed_in_registers": Family(persistent),
    "k06_skinny": Family(skinny, launches=lambda config: 2 if "_p" in config else 1),
    "k07_cluster_split_k": Family(of_warps, own_words),
}
MODEL = Model("matmul_tf32", Path(__file__).parent / "model", FAMILIES)
