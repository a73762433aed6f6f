"""The kernels that operations share as the model of a product's time describes them."""

from __future__ import annotations

from warpwise.gemm.config import GemmConfig
from warpwise.gemm.model import Family, Geometry, Product


def _two(cluster: tuple[int, ...]) -> tuple[int, int]:
    down, across = (*cluster, 1, 1)[:2]
    return down, across


def of_warps(config: str, product: Product) -> Geometry:
    """A block of (m / warp rows) x (n / warp columns) warps."""
    found = GemmConfig.parse(config)
    splits = found.cluster_splits * found.splits
    return Geometry(found.m, found.n, found.k, splits, stages=found.stages, threads=found.threads)


def persistent(config: str, product: Product) -> Geometry:
    """One block for each SM, with producer and consumer warps."""
    found = GemmConfig.parse(config or "128x256x64_s4")
    tail = (found.stream_k_tiles, found.splits, found.edge) if found.stream_k_tiles else (0, 0, 0)
    splits = 1 if found.stream_k_tiles else found.splits
    return Geometry(found.m, found.n, found.k, splits, _two(found.cluster), found.stages, 384, True, tail)


def skinny(config: str, product: Product) -> Geometry:
    """Columns of B are the m of the configuration."""
    found = GemmConfig.parse(config)
    splits = found.cluster_splits * found.splits
    return Geometry(found.n, found.m, found.k, splits, _two(found.cluster), found.stages, 2 * found.m + 32)


def own_words(product: Product, kind: str) -> tuple[int, int]:
    return product.words


def floats_by_word(product: Product, kind: str) -> tuple[int, int]:
    """K-major floats are copied one by one."""
    a, b = product.words
    return (4 if kind[0] == "n" else a, 4 if kind[1] == "t" else b) if product.size == 4 else (a, b)


OVERLAPPED = Family(persistent, like="k20_overlapped_epilogue")
CLUSTER_SPLIT_K = Family(of_warps, floats_by_word, like="k29_cluster_split_k")
