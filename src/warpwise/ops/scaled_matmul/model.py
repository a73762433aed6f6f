"""The rungs of scaled_matmul as the model of a product's time describes them."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.model import Model
from warpwise.gemm.time_model import Family, persistent, skinny

FAMILIES = {"k05_two_k_tile_promotion": Family(persistent), "k07_skinny": Family(skinny)}
MODEL = Model("scaled_matmul", Path(__file__).parent / "model", FAMILIES)
