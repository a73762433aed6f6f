"""The rungs of linear as the model of a product's time describes them."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.model import FALLBACK, Model
from warpwise.gemm.time_model import CLUSTER_SPLIT_K, OVERLAPPED

PASSES = ("gelu", "residual", "row_scale")  # of PyTorch; cuBLASLt fuses a bias, relu and gelu_tanh


def _passes(kind: str) -> int:
    words = kind.split()
    return sum(word in words for word in PASSES) + ("kept" in words and "gelu_tanh" in words)


FAMILIES = {"k05_warpgroups": OVERLAPPED, "k06_cluster_split_k": CLUSTER_SPLIT_K}
MODEL = Model("linear", Path(__file__).parent / "model", FAMILIES, FALLBACK, _passes)
