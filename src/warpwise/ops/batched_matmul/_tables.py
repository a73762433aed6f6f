"""The tables of batched_matmul: kinds of operands, and sizes worth measuring."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm import tables
from warpwise.gemm.model import FALLBACK, Model
from warpwise.gemm.time_model import CLUSTER_SPLIT_K, OVERLAPPED, Family, floats_by_word, persistent
from warpwise.operation import Case

FAMILIES = {
    "k02_warp_specialised": Family(persistent, floats_by_word, like="k13_warp_specialised"),
    "k03_overlapped_epilogue": OVERLAPPED,
    "k04_cluster_split_k": CLUSTER_SPLIT_K,
}
MODEL = Model("batched_matmul", Path(__file__).parent / "model", FAMILIES, FALLBACK)


_SHAPES = {  # batch, m, n, k
    "square": (16, 1024, 1024, 1024), "two": (2, 4096, 4096, 4096), "many_512": (64, 512, 512, 512),
    "few_512": (8, 512, 512, 512), "many_256": (256, 256, 256, 256), "few_256": (16, 256, 256, 256),
    "many_128": (512, 128, 128, 128), "many_64": (2048, 64, 64, 64),
    "scores": (64, 2048, 2048, 128), "few_scores": (16, 2048, 2048, 128), "scores_64": (512, 1024, 1024, 64),
    "values": (64, 2048, 128, 2048), "few_values": (16, 2048, 128, 2048), "values_64": (512, 1024, 64, 1024),
    "ragged": (16, 1000, 777, 999), "ragged_512": (64, 511, 513, 515), "ragged_small": (2048, 33, 47, 65),
}  # fmt: skip
SIZES = tuple(Case(name, dict(zip(("batch", "m", "n", "k"), shape, strict=True))) for name, shape in _SHAPES.items())


TABLES = tables.tables("batched_matmul", Path(__file__).parent, MODEL, sizes=SIZES)
