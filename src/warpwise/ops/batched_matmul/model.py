"""The rungs of batched_matmul as the model of a product's time describes them."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.model import FALLBACK, Model
from warpwise.gemm.time_model import CLUSTER_SPLIT_K, OVERLAPPED, Family, floats_by_word, persistent

FAMILIES = {
    "k05_warp_specialised": Family(persistent, floats_by_word, like="k13_warp_specialised"),
    "k06_overlapped_epilogue": OVERLAPPED,
    "k07_cluster_split_k": CLUSTER_SPLIT_K,
}
MODEL = Model("batched_matmul", Path(__file__).parent / "model", FAMILIES, FALLBACK)
