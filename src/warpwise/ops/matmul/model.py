"""How the model of a product's time sees the rungs of matmul."""

from __future__ import annotations

from pathlib import Path

from warpwise.gemm.config import GemmConfig
from warpwise.gemm.model import Family, Geometry, Model, Problem
from warpwise.gemm.tables import FALLBACK


def _of_warps(config: str, problem: Problem) -> Geometry:
    """A block of (m / warp rows) x (n / warp columns) warps."""
    found = GemmConfig.parse(config)
    rows, columns = found.warps
    threads = found.m // rows * (found.n // columns) * 32
    splits = found.cluster_splits * found.splits
    return Geometry(found.m, found.n, found.k, splits, stages=found.stages, threads=threads)


def _persistent(config: str, problem: Problem) -> Geometry:
    found = GemmConfig.parse(config or "128x256x64_s4")
    splits = 0 if found.stream_k_tiles else found.splits
    return Geometry(found.m, found.n, found.k, splits, _two(found.cluster), found.stages, 384, persistent=True)


def _skinny(config: str, problem: Problem) -> Geometry:
    """Columns of B are the m of the configuration."""
    found = GemmConfig.parse(config)
    cluster = _two(found.cluster)
    splits = found.cluster_splits * found.splits
    return Geometry(found.n, found.m, found.k, splits, cluster, found.stages, 2 * found.m + 32)


def _two(cluster: tuple[int, ...]) -> tuple[int, int]:
    return (cluster[0], cluster[1]) if cluster else (1, 1)


def _own_words(problem: Problem, kind: str) -> tuple[int, int]:
    return problem.words


def _floats_by_word(problem: Problem, kind: str) -> tuple[int, int]:
    """K-major floats are copied one by one."""
    a, b = problem.words
    return (4 if kind[0] == "n" else a, 4 if kind[1] == "t" else b) if problem.size == 4 else (a, b)


def _b_transposed(problem: Problem, kind: str) -> int:
    padded = (problem.m + problem.n) * problem.k // 2 if "unaligned" in kind else 0
    return padded + (problem.n * problem.k if kind[1] == "t" else 0)


def _both(problem: Problem, kind: str) -> int:
    return (problem.m + problem.n) * problem.k


_OVERLAPPED = Family(_persistent)
FAMILIES = {
    "k13_warp_specialised": Family(_persistent, _floats_by_word, launches=lambda config: 2 if "_p" in config else 1),
    "k15_mma_sync": Family(_of_warps, _own_words),
    "k16_triton_descriptors": _OVERLAPPED,
    "k19_skinny": Family(_skinny, replayed=lambda kind: kind[0] == "n"),
    "k20_overlapped_epilogue": _OVERLAPPED,
    "k22_warpgroups_int8": Family(_persistent, copied=_b_transposed, launches=lambda config: 2),
    "k23_padded": Family(_persistent, copied=_both, launches=lambda config: 3),
    "k25_pretransposed_b": Family(_persistent, copied=_b_transposed, launches=lambda config: 2 + ("_p" in config)),
    "k26_stream_k_hybrid": _OVERLAPPED,
    "k28_variable_m_tiles": _OVERLAPPED,
    "k29_cluster_split_k": Family(_of_warps, _floats_by_word),
}
MODEL = Model(Path(__file__).parent / "model", FAMILIES, FALLBACK)
