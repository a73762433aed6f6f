"""The rungs of matmul, described for ``gemm.time_model``."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.model import FALLBACK, Model
from warpwise.gemm.time_model import (
    CLUSTER_SPLIT_K,
    MMA,
    OVERLAPPED,
    STREAM_K,
    Family,
    Product,
    floats_by_word,
    partial_wave,
    persistent,
    skinny,
)

LARGE = "128x256x64_s4"  # the tile of a rung without configurations


def _b_transposed(product: Product, kind: str) -> int:
    padded = (product.m + product.n) * product.k // 2 if "unaligned" in kind else 0
    return padded + (product.n * product.k if kind[1] == "t" else 0)


def _of_int8(product: Product, kind: str) -> int:
    return _both(product, kind) if "unaligned" in kind else _b_transposed(product, kind)


def _both(product: Product, kind: str) -> int:
    return (product.m + product.n) * product.k


def _reads_a(config: str, kind: str) -> bool:
    """True if k16 reads a in place: row-major, or column-major in boxes of 64 rows."""
    return kind[0] == "n" or ("unaligned" not in kind and GemmConfig.parse(config).n % 64 == 0)


FAMILIES = {
    "k11_warp_specialised": Family(partial_wave, floats_by_word, launches=lambda config, kind: 1 + ("_p" in config)),
    "k12_cluster_split_k": CLUSTER_SPLIT_K,
    "k13_mma_sync": MMA,
    "k14_triton_descriptors": boxes.FAMILY,
    "k16_skinny": Family(skinny, replayed=_reads_a),
    "k17_overlapped_epilogue": OVERLAPPED,
    "k19_warpgroups_int8": Family(
        persistent, copied=_of_int8, launches=lambda config, kind: 2 + ("unaligned" in kind), config=LARGE
    ),
    "k20_padded": Family(persistent, copied=_both, launches=lambda config, kind: 3, config=LARGE),
    "k22_pretransposed_b": Family(
        partial_wave, copied=_b_transposed, launches=lambda config, kind: 2 + ("_p" in config)
    ),
    "k23_stream_k_hybrid": STREAM_K,
    "k24_variable_m_tiles": OVERLAPPED,
}
MODEL = Model("matmul", Path(__file__).parent / "model", FAMILIES, FALLBACK)
