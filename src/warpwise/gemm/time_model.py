"""A model of the time of a GEMM on a GPU, with a few coefficients for each kernel.

A kernel computes C in waves of block tiles. The time of a k-tile is the longest of the times of its multiply-adds, of
its loads from L2, and of the latency of a load. A GEMM takes at least the time of moving its operands from and to
DRAM. Coefficients that are fitted to measured times choose a kernel (``gemm.model``); nominal coefficients order the
configurations of each kernel.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch

from warpwise.gemm.config import GemmConfig, names
from warpwise.gemm.operands import describe
from warpwise.operation import cdiv, sm_count

TIE = 5e-4  # relative difference below which two times are equal
SMOOTH = 4  # exponent p of the p-norm that approximates a maximum: resources near the bottleneck add to the time
ERROR_CLASSES = (12.0, 40.0)  # µs
THREE_TF32 = 1.5  # the rate of 3xTF32 on tensor cores, relative to multiply-adds in float32 (193 measured times)
FAR = 30e6  # bytes of operands that half of L2 holds
# What the blocks of an SM share, for the estimate of resident blocks. SHARED is a little less than the 228 KB of an SM,
# MOST_BLOCKS half of its 32; the coefficients are fitted with these values.
SHARED, REGISTERS, THREADS, MOST_BLOCKS = 220_000, 65536, 2048, 16
OTHER_REGISTERS = 48  # of a thread, apart from its sums: addresses, fragments


class Product(NamedTuple):
    """A GEMM of a (m, k) and b (k, n): bytes of an element of the operands and of C, and the operands' alignment.

    ``words`` are the bytes, 128, 16, 4, 2 or 1, that divide the address and the length of every line of a and of b.
    """

    m: int
    n: int
    k: int
    size: int
    out_size: int
    words: tuple[int, int] = (16, 16)
    batch: int = 1
    sms: int = 132

    @staticmethod
    def of(kind: str, sizes: Mapping[str, int], dtype: torch.dtype, sms: int) -> Product:
        """The GEMM that ``Tables.describe`` calls ``kind``, with dense operands.

        C has the operands' dtype, but int32 for int8 and bfloat16 for fp8.
        """
        m, n, k = (sizes[name] for name in "mnk")
        size = dtype.itemsize
        out_size = 4 if dtype == torch.int8 else max(2, size)
        a, b = _word((k if kind[0] == "n" else m) * size), _word((n if kind[1] == "n" else k) * size)
        if "unaligned" not in kind:
            a, b = max(16, a), max(16, b)
        elif min(a, b) >= 16:  # the address is not aligned
            a, b = 4, 4
        return Product(m, n, k, size, out_size, (a, b), sizes.get("batch", 1), sms)


def alignment(kind: str, sizes: Mapping[str, int], dtype: torch.dtype, aligned_c: bool = False) -> str:
    """Empty, "unaligned" as in ``kind``, or "odd": lines of a, b or C begin on 2 bytes, for which cuBLAS is slow.

    ``aligned_c``: "unaligned" also if lines of C alone, of the operands' dtype, are not aligned to 16 bytes.
    """
    if "unaligned" not in kind:
        return "unaligned" if aligned_c and sizes["n"] * dtype.itemsize % 16 else ""
    product = Product.of(kind, sizes, dtype, 1)
    return "odd" if min(*product.words, _word(product.n * product.out_size)) < 4 else "unaligned"


def _word(line: int) -> int:
    return next(word for word in (128, 16, 4, 2, 1) if line % word == 0)


class Geometry(NamedTuple):
    """How a kernel divides the work: the block tile, the splits of K, the clusters that multicast.

    A ``persistent`` kernel has one block per SM; other kernels have as many resident blocks as fit. K of every tile is
    divided into ``splits``, or with ``partial`` only K of the tiles of the last, partial wave; if these are more than
    the SMs, the k-tiles of that wave are divided equally between the SMs, by stream-K. Splits are reduced
    ``through_memory``, where the last block of a tile may add them all, ``last_adds`` bytes, or in a cluster. ``speed``
    is the factor of the kernel's rate for configurations with another main loop.
    """

    m: int
    n: int
    k: int
    splits: int = 1
    cluster: tuple[int, int] = (1, 1)
    stages: int = 4
    threads: int = 256
    persistent: bool = False
    partial: bool = False
    through_memory: bool = False
    last_adds: int = 0
    speed: float = 1.0

    def resident(self, size: int) -> int:
        """Resident blocks per SM."""
        if self.persistent:
            return 1
        shared = SHARED // (self.stages * (self.m + self.n) * self.k * size + 1024)
        registers = REGISTERS // (self.m * self.n + OTHER_REGISTERS * self.threads)
        return max(1, min(shared, registers, THREADS // self.threads, MOST_BLOCKS))


def of_warps(config: GemmConfig) -> Geometry:
    """A block of (m / warp rows) x (n / warp columns) warps."""
    splits = config.cluster_splits * config.splits
    speed = THREE_TF32 if config.products > 1 else 1.0
    return Geometry(config.m, config.n, config.k, splits, stages=config.stages, threads=config.threads, speed=speed)


def persistent(config: GemmConfig) -> Geometry:
    """One block for each SM, with producer and consumer warps."""
    return Geometry(config.m, config.n, config.k, config.splits, config.cluster_shape, config.stages, 384, True)


def partial_wave(config: GemmConfig) -> Geometry:
    """``persistent``, with the tiles of the partial wave split, or computed by stream-K."""
    return persistent(config)._replace(partial=True)


def skinny(config: GemmConfig) -> Geometry:
    """The geometry of ``sm90/gemm_skinny.cuh``, whose m counts columns of B."""
    splits, threads, cluster = config.cluster_splits * config.splits, 2 * config.m + 32, config.cluster_shape
    memory = config.splits > 1
    return Geometry(config.n, config.m, config.k, splits, cluster, config.stages, threads, through_memory=memory)


@dataclass(frozen=True)
class Coefficients:
    """The coefficients of one kernel and dtype. Times are in µs, rates in bytes per µs unless said otherwise.

    ``start``: of a launch; ``wave``: of a wave apart from its k-tiles; ``rate``: multiply-adds per µs and SM;
    ``load``: from L2 to an SM; ``latency``: of a load, which the other stages of the pipeline cover; ``store``: of C
    from an SM; ``split``: of the reduction of splits, and ``reduce``, of the GPU; ``dram``: of the GPU; ``copy``: of
    passes over an operand before the GEMM; ``word4``, ``word2``: the factors of loads in 4 and in 2 bytes; ``line``:
    of loads from lines that do not begin on 128 bytes, whose boxes take two cache lines for one;
    ``cluster``: of a wave of clusters that multicast; ``memory``: of splits that are reduced through memory,
    in place of the bytes that the last block adds.
    ``error``: a relative difference of predicted and measured time, which 17 of 20 cases that were not used in the fit
    do not exceed. ``errors``: the same for predicted times up to the first of ``ERROR_CLASSES``, up to the second, and
    longer.
    """

    start: float = 3.5
    wave: float = 1.5
    rate: float = 2e6
    load: float = 60e3
    latency: float = 0.8
    store: float = 80e3
    split: float = 1.0
    reduce: float = 1.5e6
    dram: float = 3.3e6
    copy: float = 2e6
    word4: float = 1.5
    word2: float = 3.0
    line: float = 1.0
    cluster: float = 0.0
    memory: float = 0.0
    error: float = 0.1
    errors: Sequence[float] = ()

    def error_at(self, microseconds: float) -> float:
        return self.errors[bisect.bisect_left(ERROR_CLASSES, microseconds)] if self.errors else self.error

    def word_factor(self, word: int) -> float:
        return 1.0 if word >= 16 else self.word4 if word >= 4 else self.word2


NOMINAL_ALONE = "cluster", "memory"  # only among the nominal coefficients, not fitted
FITTED = tuple(field.name for field in fields(Coefficients) if field.name not in (*NOMINAL_ALONE, "error", "errors"))
# Coefficients that order the configurations of a kernel on any GPU. The key is the size of an operand's element in
# bytes, or TF32. Fitted to measurements on an H200 for the time of the configuration that is ordered first.
NOMINAL: Mapping[int | str, Coefficients] = {
    4: Coefficients(wave=3.0, rate=0.21e6, load=38e3, latency=1.5, store=60e3, split=0.6, reduce=1e6, word4=2.5),
    "tf32": Coefficients(
        wave=1.8, rate=1.35e6, load=76e3, latency=0.5, store=35e3, reduce=2.3e6, dram=2.8e6, cluster=0.55, memory=4.5
    ),
    2: Coefficients(rate=2.8e6, load=75e3, store=95e3, split=0.8, reduce=2e6, dram=3e6, cluster=2.0, memory=7.0),
    1: Coefficients(rate=7e6, load=120e3, latency=1.0, store=800e3, cluster=0.6, memory=1.8),
}


def microseconds(product: Product, geometry: Geometry, by: Coefficients, copied: int = 0) -> float:
    """The predicted GPU time. ``copied``: the elements that passes before the GEMM read and write once."""
    m, n, k, size, out_size, words, batch, sms = product
    down, across = geometry.cluster
    tiles = batch * cdiv(m, geometry.m * down) * down * cdiv(n, geometry.n * across) * across
    splits = geometry.splits
    blocks, k_tiles = tiles * splits, cdiv(cdiv(k, geometry.k), splits)
    resident = geometry.resident(size)
    waves = cdiv(blocks, sms * resident)
    busy = min(resident, cdiv(blocks, sms))  # blocks of the busiest SM at once
    large = batch * (m * k + k * n) * size > FAR
    of_a, of_b = (by.word_factor(word) * (by.line if large and word < 128 else 1.0) for word in words)
    multiply = busy * geometry.m * geometry.n * geometry.k / (by.rate * geometry.speed)
    load = busy * (of_a * geometry.m / across + of_b * geometry.n / down) * geometry.k * size / by.load
    k_tile = _most(multiply, load, by.latency * by.word_factor(min(words)) / max(1, geometry.stages - 1))
    ends = by.wave + (by.cluster if down * across > 1 else 0.0) + busy * geometry.m * geometry.n * out_size / by.store
    tile_loop, reduced = waves * (ends + k_tiles * k_tile), batch * m * n
    if geometry.partial and splits > 1:
        whole, left = divmod(tiles, sms)
        ranges, parts = min(sms, left * splits), 2 if left * splits > sms else 1  # stream-K: ranges of two tiles
        tile_loop = (whole + parts * (left > 0)) * ends + (whole + left / max(1, ranges)) * cdiv(k, geometry.k) * k_tile
        reduced = (ranges + left * (parts - 1)) * geometry.m * geometry.n // splits
    total = by.start + _most(tile_loop, batch * ((m * k + k * n) * size + m * n * out_size) / by.dram)
    if splits > 1:
        total += by.split + splits * reduced * 4 / by.reduce
        total += (by.memory or geometry.last_adds / by.load) if geometry.through_memory else 0.0
    return total + (2 * copied * size / by.copy if copied else 0.0)


def _most(*times: float) -> float:
    return sum(time**SMOOTH for time in times) ** (1 / SMOOTH)


def whole_words(product: Product, kind: str = "") -> tuple[int, int]:
    """The ``words`` of a kernel that loads 16 bytes and more at a time, by TMA or after a copy."""
    a, b = product.words
    return max(16, a), max(16, b)


@dataclass(frozen=True)
class Family:
    """The description of a rung: ``geometry(config)``, and the other work of a call.

    ``words(product, kind)``: bytes of a load of a and of b. ``copied(product, kind)``: elements that passes before the
    product copy. ``launches(config, kind)``: kernels of a call. ``replayed(config, kind)``: False if a call runs
    operators of torch, so that its launches are not replayed. ``like``: the rung of matmul with the same main loop,
    whose coefficients are used until this one is measured. ``units``: the key in ``NOMINAL``, if it is not the dtype's.
    ``config``: the configuration of a rung that has only one.
    """

    geometry: Callable[[GemmConfig], Geometry]
    words: Callable[[Product, str], tuple[int, int]] = whole_words
    copied: Callable[[Product, str], int] = lambda product, kind: 0
    launches: Callable[[str, str], int] = lambda config, kind: 1
    replayed: Callable[[str, str], bool] = lambda config, kind: True
    like: str = ""
    units: str = ""
    config: str = ""

    def microseconds(self, product: Product, config: str, kind: str, by: Coefficients) -> float:
        parsed = GemmConfig.parse(config or self.config)
        return microseconds(self._loaded(product, kind, parsed), self.geometry(parsed), by, self.copied(product, kind))

    def _loaded(self, product: Product, kind: str, config: GemmConfig) -> Product:
        """``product`` with the words of the kernel's loads; tiles with K groups load 16 bytes."""
        return product._replace(words=(whole_words if config.k_groups > 1 else self.words)(product, kind))

    def ordered(self, configs: Iterable[GemmConfig], product: Product, kind: str = "nn") -> list[GemmConfig]:
        """``configs``, the fastest by nominal coefficients first; ties keep their order."""
        return sorted(
            configs, key=lambda one: round(math.log(self.nominal(self._loaded(product, kind, one), one)) / TIE)
        )

    def nominal(self, product: Product, config: GemmConfig) -> float:
        """The time by nominal coefficients. ``product.words``: bytes of a load."""
        geometry = self.geometry(config)
        if not geometry.persistent:  # stages hold the k-tiles of one tile
            k_tiles = cdiv(cdiv(product.k, geometry.k), geometry.splits)
            geometry = geometry._replace(stages=min(geometry.stages, max(2, k_tiles)))
        return microseconds(product, geometry, NOMINAL[self.units or product.size])

    def configs(
        self, candidates: Callable[[Product], Iterable[GemmConfig]], most: int | None = None
    ) -> Callable[..., tuple[str, ...]]:
        """``configs(a, b, ...)`` of a rung: the names of the ``most`` fastest of ``candidates``, in order."""

        @functools.lru_cache(maxsize=1024)
        def ordered(product: Product, kind: str) -> tuple[str, ...]:
            return names(self.ordered(dict.fromkeys(candidates(product)), product, kind)[:most])

        def configs(a: torch.Tensor, b: torch.Tensor, *rest: object) -> tuple[str, ...]:
            kind, sizes = describe(a, b)
            return ordered(Product.of(kind, sizes, a.dtype, sm_count(a)), kind)

        return configs


def own_words(product: Product, kind: str) -> tuple[int, int]:
    return product.words


def floats_by_word(product: Product, kind: str) -> tuple[int, int]:
    """The ``words`` of a kernel that copies K-major operands 4 bytes at a time."""
    a, b = product.words
    return (4 if kind[0] == "n" else a, 4 if kind[1] == "t" else b) if product.size == 4 else (a, b)


def reads_in_place(config: str, kind: str) -> bool:
    """``replayed`` of a kernel for which operators of torch copy unaligned operands."""
    return "unaligned" not in kind


OVERLAPPED = Family(persistent, replayed=reads_in_place, like="k12_overlapped_epilogue")
MMA, MMA_TF32 = Family(of_warps, own_words), Family(of_warps, own_words, units="tf32")
CLUSTER_SPLIT_K = Family(of_warps, floats_by_word, like="k14_cluster_split_k")
