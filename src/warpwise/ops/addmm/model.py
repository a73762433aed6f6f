"""The rungs of addmm as the model of a product's time describes them."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.model import FALLBACK, Model
from warpwise.gemm.time_model import CLUSTER_SPLIT_K, OVERLAPPED

FAMILIES = {"k05_warpgroups": OVERLAPPED, "k06_cluster_split_k": CLUSTER_SPLIT_K}
MODEL = Model("addmm", Path(__file__).parent / "model", FAMILIES, FALLBACK)
