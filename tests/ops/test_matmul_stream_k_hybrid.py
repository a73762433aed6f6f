"""k23_stream_k_hybrid: the k-tiles of each cluster, and exact results, in graphs and on two streams too."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda
from warpwise.gemm import persistent as gemm_config
from warpwise.gemm.time_model import Product
from warpwise.ops.matmul import k23_stream_k_hybrid as k23

LARGE = gemm_config.CONFIGS[0].name
WALK = """
#include <cuda_bf16.h>
#include <warpwise/sm90/gemm_stream_k.cuh>
using warpwise::sm90::StreamK, warpwise::sm90::WorkUnits;
// Of each cluster the number of its units, and of each its tile, k-tiles and slot; and the slots that it reads.
__global__ void walk(int* out, int k_tiles, int tiles, int sk_tiles, int splits, int edge, int most) {
  const StreamK stream_k{k_tiles, sk_tiles, static_cast<int>(gridDim.x), splits, edge};
  int *const to = out + blockIdx.x * 5 * most, *const peers = to + 4 * most;
  int count = 0, peer_count = 0;
  for (WorkUnits units(stream_k, tiles, blockIdx.x); units.next(); ++count) {
    to[4 * count + 1] = units.tile, to[4 * count + 2] = units.from, to[4 * count + 3] = units.to;
    to[4 * count + 4] = units.slot;
    units.for_each_peer([&](int slot) { peers[++peer_count] = slot; });
  }
  to[0] = count, peers[0] = peer_count;
}
"""


@pytest.mark.parametrize("clusters,tiles,sk_tiles,k_tiles,splits,edge", [
    (66, 100, 34, 128, 2, 64), (16, 3, 3, 2, 2, 1), (3, 200, 2, 3, 2, 1), (66, 1, 1, 13, 2, 6),
    (66, 144, 12, 48, 5, 8), (66, 1024, 34, 128, 2, 85), (66, 58, 58, 224, 2, 200),
    (66, 4, 4, 80, 16, 1), (132, 1, 1, 9, 9, 1), (3, 5, 2, 2, 2, 1), (66, 65, 65, 100, 2, 90),
])  # fmt: skip
def test_every_k_tile_has_one_cluster(clusters, tiles, sk_tiles, k_tiles, splits, edge):
    """And each partial sum, which a cluster computes first, is read by one cluster with a higher index: the tile's
    owner."""
    most = 2 * tiles // clusters + clusters + 70
    out = torch.zeros(clusters, 5 * most, dtype=torch.int32)
    cuda.load(WALK)["walk"][clusters, 1](out, k_tiles, tiles, sk_tiles, splits, edge, most)
    found, stored, read = [], {}, {}
    for cluster, numbers in enumerate(out.tolist()):
        units = [tuple(numbers[4 * i + 1 : 4 * i + 5]) for i in range(numbers[0])]
        found += [(tile, k_tile) for tile, first, last, _ in units for k_tile in range(first, last)]
        later = [unit for unit in units if unit[1] > 0]
        assert later == units[: len(later)] and all(0 <= slot < clusters for *_, slot in later)
        for tile, first, _, slot in later:
            assert slot not in stored
            stored[slot] = cluster, tile, first
        heads = [tile for tile, first, last, _ in units if first == 0 and last < k_tiles]
        peer_slots = numbers[4 * most + 1 : 4 * most + 1 + numbers[4 * most]]
        assert len(heads) <= 1 and bool(heads) == bool(peer_slots)
        read |= {slot: (cluster, heads[0]) for slot in peer_slots}
        assert [stored[slot][2] for slot in peer_slots if slot in stored] == sorted(
            stored[slot][2] for slot in peer_slots if slot in stored
        )
    assert sorted(found) == [(tile, k_tile) for tile in range(tiles) for k_tile in range(k_tiles)]
    assert sorted(stored) == sorted(read)
    for slot, (cluster, tile, _) in stored.items():
        assert read[slot][0] > cluster and read[slot][1] == tile


@pytest.mark.parametrize(
    "m,n,k", [(3072, 3072, 3072), (8192, 8192, 8192), (256, 8192, 8192), (64, 64, 64), (4096, 4096, 8)]
)
def test_configurations(m, n, k):
    names = [config.name for config in k23.candidates(Product(m, n, k, 2, 2))]
    assert len(set(names)) == len(names) and {config.name for config in gemm_config.CONFIGS} <= set(names)
    for name in names:
        if "_t" in name:
            found = k23.parsed(name)
            assert found.name == name and found.stream_k_tiles < 132 // found.blocks
            assert found.splits <= 2 or found.splits * found.stream_k_tiles <= 132 // found.blocks
            assert 1 <= found.edge <= -(-k // 64) - found.splits + 1


def test_an_unknown_configuration():
    with pytest.raises(ValueError, match=r"expected a configuration of the form .* got '7x7'"):
        k23.parsed("7x7")


@pytest.mark.parametrize("split", ["128x128x64_s6_c1x1_t2_p2_e1", "128x128x64_s6_c1x1_t1_p3_e2"])
def test_partial_sums_are_exchanged_on_the_cpu(split, monkeypatch):
    """Six emulated clusters of one block: the exchange of partial sums, with every check."""
    monkeypatch.setattr(k23, "sm_count", lambda a: 6)
    a, b = (torch.randint(-1, 2, shape).bfloat16() for shape in ((256, 520), (520, 136)))
    c = torch.full((256, 136), float("nan"), dtype=a.dtype)
    k23.launch(c, a, b, split)
    assert torch.equal(c, (a.float() @ b.float()).to(a.dtype))


def integers(rows, columns, transposed, seed, dtype):
    generator = torch.Generator("cuda").manual_seed(seed)
    shape = (columns, rows) if transposed else (rows, columns)
    made = torch.randint(-1, 2, shape, generator=generator, device="cuda").to(dtype)
    return made.t() if transposed else made


def product(a, b, config):
    c = torch.full((a.shape[0], b.shape[1]), float("nan"), device="cuda", dtype=a.dtype)
    k23.launch(c, a, b, config)
    return c


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("a_transposed,b_transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_every_shape_exactly(a_transposed, b_transposed, dtype):
    """Splits of one tile and of many, of one k-tile, a ragged K; sums of two, three and many clusters."""
    for m, n, k, split in (
        (256, 256, 1024, "t1_p16_e1"),
        (1000, 3000, 776, "t48_p2_e9"),
        (3072, 3072, 1000, "t12_p2_e8"),
        (3072, 3072, 512, "t12_p5_e2"),
        (2048, 8200, 136, "t64_p2_e1"),
        (4096, 4096, 72, "t58_p2_e1"),
        (1536, 1536, 2048, "t36_p2_e20"),
        (200, 4096, 1544, "t16_p4_e5"),
    ):
        a, b = integers(m, k, a_transposed, 0, dtype), integers(k, n, b_transposed, 1, dtype)
        truth = (a.float() @ b.float()).to(dtype)
        for _ in range(3):
            assert torch.equal(product(a, b, f"{LARGE}_{split}"), truth), (m, n, k, split)


@pytest.mark.gpu
@pytest.mark.parametrize("config", gemm_config.CONFIGS, ids=lambda config: config.name)
def test_every_configuration_exactly(config):
    for m, n, k in ((1024, 1536, 776), (1536, 3080, 328), (128, 512, 1032)):
        a, b = integers(m, k, False, 0, torch.bfloat16), integers(k, n, False, 1, torch.bfloat16)
        truth = (a.float() @ b.float()).to(a.dtype)
        for split in k23.stream_k_configs(config, m, n, k, 132):
            assert torch.equal(product(a, b, split.name), truth), (m, n, k, split.name)


@pytest.mark.gpu
def test_the_same_in_each_run():
    a, b = (torch.randn(3072, 3072, device="cuda").bfloat16() for _ in range(2))
    first = product(a, b, f"{LARGE}_t12_p5_e24")
    assert all(torch.equal(product(a, b, f"{LARGE}_t12_p5_e24"), first) for _ in range(20))


@pytest.mark.gpu
def test_two_streams_at_once():
    pairs = [[integers(1536, 1536, False, 2 * i + j, torch.bfloat16) for j in range(2)] for i in range(2)]
    truths = [(a.float() @ b.float()).to(a.dtype) for a, b in pairs]
    streams = [torch.cuda.Stream() for _ in pairs]
    torch.cuda.synchronize()
    made = [[], []]
    for _ in range(20):
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                made[i].append(product(*pairs[i], f"{LARGE}_t36_p2_e12"))
    torch.cuda.synchronize()
    assert all(torch.equal(each, truths[i]) for i in range(2) for each in made[i])


@pytest.mark.gpu
def test_a_graph_is_replayed():
    a, b = (integers(1536, 1536, False, i, torch.bfloat16) for i in range(2))
    c = torch.empty(1536, 1536, device="cuda", dtype=a.dtype)
    k23.launch(c, a, b, f"{LARGE}_t36_p2_e12")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        k23.launch(c, a, b, f"{LARGE}_t36_p2_e12")
        k23.launch(c, a, b, f"{LARGE}_t36_p2_e12")
    for seed in range(3):
        a.copy_(integers(1536, 1536, False, 7 + seed, a.dtype))
        c.fill_(float("nan"))
        graph.replay()
        assert torch.equal(c, (a.float() @ b.float()).to(a.dtype))
