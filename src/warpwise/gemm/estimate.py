"""One estimate of a GEMM kernel's time, which orders the configurations of every kernel where none was measured.

The constants were fitted on an H200 to 320 times of 27 bfloat16 products of matmul's k19; the other kernels use them
too. At the points of the H200's tables the fastest configuration of a rung is among the first 16.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from warpwise.gemm.config import GemmConfig
from warpwise.gemm.limits import HOPPER_SHARED
from warpwise.operation import cdiv

# Bytes per clock of DRAM and of L2; of DRAM to an SM, and its latency in clocks; bytes per clock into an SM; the part
# of the time of all resources but the slowest that is not hidden.
DRAM, L2, DRAM_SM, LATENCY, INGRESS, EXPOSED = 2380, 5570, 64, 2400, 73, 0.14
# The weight in L2 of the operand along n, which neighbouring blocks load at once: in general, and where one tile of it
# meets 32 or more of the other.
AT_ONCE, ALL_AT_ONCE = 0.5, 0.14
RAGGED = 1.8  # times as many lines of L2 where rows do not begin on 128 bytes
IN_FLIGHT = 144 * 1024  # bytes in flight to an SM below which loads of tall tiles are slower
# Clocks: to start a block and a cluster, for an element of C; to reduce in a cluster, and bytes per clock;
# to reduce through global memory, and bytes per clock; of stream-K, whose scattered loads are 1.4 times slower.
START, CLUSTER, ELEMENT = 1500, 1000, 0.09
DSMEM_LATENCY, DSMEM_RATE, SEMAPHORE, REDUCE_RATE, STREAM_K, SCATTERED = 220, 13, 5000, 54, 9500, 1.4


class Kernel(NamedTuple):
    """What the estimate needs of a kernel: the bytes of an operand's element, multiply-adds of an SM and clock, blocks
    per SM (0: as shared memory allows), the weight of an SM's loads that the multiply-adds do not hide; ``tail``: only
    the tiles of the last, partial wave are split; ``transposed``: the kernel computes C^T = B^T A^T; ``stage``: clocks
    of a stage that nothing hides."""

    size: int
    rate: int
    blocks: int = 1
    loads: float = EXPOSED
    tail: bool = False
    transposed: bool = False
    stage: float = 18


HALF, TF32, FP8 = Kernel(2, 2048), Kernel(4, 1024), Kernel(1, 4096)
SIMT_TMA, SIMT_CP_ASYNC = Kernel(4, 128, tail=True, stage=0), Kernel(4, 128, loads=1.7, tail=True)


def resident_clusters(blocks: int, sms: int) -> int:
    """Clusters of ``blocks`` that run at once: 30 of four and 15 of eight on an H200's 132 SMs."""
    return max(1, sms // blocks if blocks <= 2 else sms * 10 // (11 * blocks))


def clocks(config: GemmConfig, kernel: Kernel, m: int, n: int, k: int, sms: int, batch: int = 1) -> float:
    """The estimated SM clocks of C (m, n): waves of blocks, each bound by DRAM, L2, the SM's loads or multiply-adds."""
    if kernel.transposed:
        m, n, config = n, m, config._replace(cluster=config.cluster[::-1])
    down, across = (max(1, count) for count in config.tiles(m, n))
    multicast_a, multicast_b = (*config.cluster, 1, 1)[1::-1]  # blocks side by side share A, one above the other B
    tiles, cluster, k_tiles = batch * down * across, config.blocks * config.cluster_splits, cdiv(k, config.k)
    ring = config.ring_bytes(kernel.size)
    per_sm = kernel.blocks or max(1, HOPPER_SHARED // (ring + 1024))
    slots = resident_clusters(cluster, sms) * per_sm
    split = config.stream_k_tiles or (tiles % slots if kernel.tail and config.splits > 1 else 0)
    units = tiles - split if split else tiles * config.splits
    waves = cdiv(units, slots)
    at_once = cdiv(max(units, split), max(1, waves)) * cluster  # waves end one by one, not together
    at_once = min(at_once, slots * cluster)
    busy, used = cdiv(at_once, sms), min(at_once, sms)
    line = config.k * kernel.size * (RAGGED if n * kernel.size % 128 or k * kernel.size % 128 else 1)
    once = config.m / (across * multicast_a) + config.n / (down * multicast_b)
    slower = max(1.0, IN_FLIGHT / (ring * busy)) if config.n >= 96 else 1.0
    loads = busy * line * (config.m + config.n) / INGRESS * slower
    height = cdiv(config.m, 64) * 64 if kernel.transposed else config.m  # wgmma's m
    products = busy * height * config.n * config.k / kernel.rate
    weight = ALL_AT_ONCE if across * multicast_b == 1 and down >= 32 else AT_ONCE
    others = (
        at_once * config.k * kernel.size * once / min(DRAM, used * min(DRAM_SM, ring * busy / LATENCY)),
        at_once * line * (config.m / multicast_a + weight * config.n / multicast_b) / L2,
    )
    longest = max(*others, loads, products)
    exposed = EXPOSED * (sum(others) + products) + kernel.loads * loads
    k_tile = longest * (1 - (kernel.loads if longest == loads else EXPOSED)) + exposed + kernel.stage
    owners = max(1, min(config.cluster_splits, config.n // 8))
    elements = config.m * config.n / owners
    ends = START + (CLUSTER if cluster > 1 else 0) + loads / busy + elements * ELEMENT
    if config.cluster_splits > 1:
        ends += DSMEM_LATENCY + (config.cluster_splits - 1) * elements * 4 / DSMEM_RATE
    if split:
        return waves * (k_tiles * k_tile + ends) + tail_clocks(config, split, k_tiles, slots, k_tile, ends)
    if config.splits > 1:
        ends += SEMAPHORE + config.splits * elements * 4 / REDUCE_RATE
    return waves * (cdiv(k_tiles, config.cluster_splits * config.splits) * k_tile + ends)


def tail_clocks(config: GemmConfig, tiles: int, k_tiles: int, slots: int, k_tile: float, ends: float) -> float:
    """The clocks of the ``tiles`` that ``slots`` clusters split."""
    elements, splits = config.m * config.n, config.splits
    if not splits:  # linear stream-K: each cluster has an equal number of k-tiles
        return tiles * k_tiles / slots * SCATTERED * k_tile + STREAM_K + elements * 0.22
    if not config.stream_k_tiles:  # each tile in ``splits`` equal parts, added by another launch
        shares = cdiv(tiles * splits, slots)
        return shares * (cdiv(k_tiles, splits) * k_tile + ends) + SEMAPHORE + tiles * splits * elements / 125
    each = cdiv(tiles, max(1, min(slots - tiles, tiles * (splits - 1))))
    contributed = each * (cdiv(k_tiles - config.edge, splits - 1) * k_tile + elements * 0.14)
    return max(config.edge * k_tile + elements * 0.08 * (splits - 1), contributed) + STREAM_K


def ordered(
    configs: Iterable[GemmConfig], kernel: Kernel, m: int, n: int, k: int, sms: int, batch: int = 1
) -> list[GemmConfig]:
    """``configs``, the fastest by ``clocks`` first."""
    return sorted(configs, key=lambda config: clocks(config, kernel, m, n, k, sms, batch))
