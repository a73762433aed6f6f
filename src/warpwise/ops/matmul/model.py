"""The rungs of matmul as the model of a product's time describes them."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.families import CLUSTER_SPLIT_K, OVERLAPPED, floats_by_word, of_warps, own_words, persistent, skinny
from warpwise.gemm.model import FALLBACK, Family, Model, Product


def _b_transposed(product: Product, kind: str) -> int:
    padded = (product.m + product.n) * product.k // 2 if "unaligned" in kind else 0
    return padded + (product.n * product.k if kind[1] == "t" else 0)


def _both(product: Product, kind: str) -> int:
    return (product.m + product.n) * product.k


FAMILIES = {
    "k13_warp_specialised": Family(
        persistent, floats_by_word, launches=lambda config, kind: 2 if "_p" in config else 1
    ),
    "k15_mma_sync": Family(of_warps, own_words),
    "k16_triton_descriptors": Family(persistent, replayed=lambda kind: False),  # descriptors are encoded anew
    "k19_skinny": Family(skinny, replayed=lambda kind: kind[0] == "n"),
    "k20_overlapped_epilogue": OVERLAPPED,
    "k22_warpgroups_int8": Family(persistent, copied=_b_transposed, launches=lambda config, kind: 2),
    "k23_padded": Family(persistent, copied=_both, launches=lambda config, kind: 3),
    "k25_pretransposed_b": Family(persistent, copied=_b_transposed, launches=lambda config, kind: 2 + ("_p" in config)),
    "k26_stream_k_hybrid": OVERLAPPED,
    "k28_variable_m_tiles": OVERLAPPED,
    "k29_cluster_split_k": CLUSTER_SPLIT_K,
}
MODEL = Model("matmul", Path(__file__).parent / "model", FAMILIES, FALLBACK)
