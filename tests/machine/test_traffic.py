"""Counters of single memory instructions, against values computed by hand and measured with ncu on an H200."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.machine.raw_launch import launch

from warpwise.machine.counts import Counts

LANES = np.arange(32)
FAR = 4096  # bytes: the same bank in another line

SHARED = r"""
extern "C" __global__ void k(const int* offsets, unsigned* out) {
  __shared__ __align__(128) unsigned char tile[32 * 1024];
  int i = threadIdx.x;
  unsigned at = (unsigned)__cvta_generic_to_shared(tile) + offsets[i], x = i, y = 0, z = 0, w = 0;
  @
  out[i] = x + y + z + w;
}
"""
LOADS = {
    1: 'asm volatile("ld.shared.u8 %0, [%1];" : "=r"(x) : "r"(at) : "memory");',
    4: 'asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");',
    8: 'asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(at) : "memory");',
    16: 'asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) '
    ': "r"(at) : "memory");',
}
STORES = {
    4: 'asm volatile("st.shared.u32 [%1], %0;" :: "r"(x), "r"(at) : "memory");',
    8: 'asm volatile("st.shared.v2.u32 [%1], {%0, %0};" :: "r"(x), "r"(at) : "memory");',
    16: 'asm volatile("st.shared.v4.u32 [%1], {%0, %0, %0, %0};" :: "r"(x), "r"(at) : "memory");',
}
ATOMICS = {
    "ADD": 'asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(y) : "r"(at), "r"(x) : "memory");',
    "POPC": 'asm volatile("red.shared.inc.u32 [%0], 0xffffffff;" :: "r"(at) : "memory");',
    "CAS": 'asm volatile("atom.shared.cas.b32 %0, [%1], %2, 7;" : "=r"(y) : "r"(at), "r"(x) : "memory");',
}


@functools.cache
def _source(statement: str) -> str:
    return SHARED.replace("@", statement)


def _shared(statement: str, opcode: str, offsets: np.ndarray) -> tuple[int, int, int]:
    """Return wavefronts, ideal wavefronts and bank conflicts."""
    counts = launch(_source(statement), "sm_90", 1, 32, offsets.astype(np.int32), np.zeros(32, np.uint32))
    found = [counts.total(name, opcode) for name in ("requests", "wavefronts", "ideal_wavefronts", "conflicts")]
    assert found[0] == 1
    return found[1], found[2], found[3]


@pytest.mark.parametrize(
    "width, offsets, expected",
    [
        (1, LANES, (1, 1, 0)),
        (4, LANES * 4, (1, 1, 0)),
        (4, LANES * 0, (1, 1, 0)),
        (4, LANES * 8, (2, 1, 1)),
        (4, LANES * 12, (1, 1, 0)),
        (4, LANES * 128, (32, 1, 31)),
        (4, LANES % 4 * FAR, (4, 1, 3)),
        (8, LANES * 8, (2, 2, 0)),
        (8, LANES * 0, (1, 1, 0)),
        (8, LANES // 2 * 8, (1, 1, 0)),  # lane pairs with equal addresses: one group for the whole warp
        (8, np.where(LANES == 13, 40, 0), (2, 2, 0)),
        (8, LANES * 16, (4, 2, 2)),
        (16, LANES * 16, (4, 4, 0)),
        (16, LANES * 0, (2, 2, 0)),
        (16, np.where(LANES == 13, 80, 0), (4, 4, 0)),
        (16, LANES // 4 * 16, (2, 2, 0)),
        (16, LANES * 64, (16, 4, 12)),
    ],
)
def test_wavefronts_of_shared_loads(width: int, offsets: np.ndarray, expected: tuple[int, int, int]) -> None:
    assert _shared(LOADS[width], "LDS", offsets) == expected


@pytest.mark.parametrize(
    "width, offsets, expected",
    [
        (4, LANES * 0, (1, 1, 0)),  # same word: one wavefront
        (4, LANES * 8, (2, 1, 1)),
        (8, LANES * 0, (2, 2, 0)),
        (8, LANES // 2 * 8, (2, 2, 0)),
        (16, LANES * 0, (4, 4, 0)),
        (16, LANES * 32, (8, 4, 4)),
    ],
)
def test_wavefronts_of_shared_stores(width: int, offsets: np.ndarray, expected: tuple[int, int, int]) -> None:
    assert _shared(STORES[width], "STS", offsets) == expected


@pytest.mark.parametrize(
    "kind, offsets, expected",
    [
        ("ADD", LANES * 4, (1, 1, 0)),
        ("ADD", LANES * 0, (32, 1, 31)),  # lanes on the same word are serialised
        ("ADD", LANES * 8, (2, 1, 1)),
        ("POPC", LANES * 0, (1, 1, 0)),  # lanes on the same word are combined
        ("POPC", LANES * 16, (4, 1, 3)),
        ("CAS", LANES * 4, (2, 2, 0)),
        ("CAS", LANES * 8, (4, 2, 1)),
    ],
)
def test_wavefronts_of_shared_atomics(kind: str, offsets: np.ndarray, expected: tuple[int, int, int]) -> None:
    assert _shared(ATOMICS[kind], "ATOMS", offsets) == expected


def test_shared_float_atomic_add_retries_once_per_lane_of_a_bank() -> None:
    body = "atomicAdd((float*)(tile + offsets[i]), 1.f); __syncthreads(); x = (unsigned)((float*)tile)[i];"
    for offsets, rounds in ((LANES * 4, 1), (LANES * 0, 32), (LANES * 8, 2), (LANES // 2 * 4, 2)):
        source = _source("((float*)tile)[i] = 0; ((float*)tile)[i + 32] = 0; __syncthreads();" + body)
        out = np.zeros(32, np.uint32)
        counts = launch(source, "sm_90", 1, 32, offsets.astype(np.int32), out)
        np.testing.assert_array_equal(out, np.bincount(offsets // 4, minlength=64)[:32])
        assert counts.total("requests", "ATOMS") == rounds
        assert counts.total("wavefronts", "ATOMS") == 2 * rounds
        assert counts.total("conflicts", "ATOMS") == 0


LDMATRIX = (
    'asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" '
    ': "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(at));'
)


@pytest.mark.parametrize("pitch, wavefronts", [(16, 4), (80, 4), (64, 16), (128, 32)])
def test_wavefronts_of_matrix_loads(pitch: int, wavefronts: int) -> None:
    rows = pitch * (LANES % 8) + (16 if pitch > 16 else 128) * (LANES // 8)
    assert _shared(LDMATRIX, "LDSM", rows) == (wavefronts, 4, wavefronts - 4)


GLOBAL = r"""
extern "C" __global__ void k(const int* offsets, unsigned* out, unsigned char* data) {
  int i = threadIdx.x;
  unsigned char* at = data + offsets[i];
  unsigned x = i;
  @
  out[i] = x;
}
"""
VECTORS = {1: "unsigned char", 4: "unsigned", 8: "uint2", 16: "uint4"}


def _global(statement: str, offsets: np.ndarray, target: str = "sm_90") -> Counts:
    source = GLOBAL.replace("@", statement)
    return launch(source, target, 1, 32, offsets.astype(np.int32), np.zeros(32, np.uint32), np.zeros(65536, np.uint8))


@pytest.mark.parametrize(
    "width, offsets, tags, sectors, ideal",
    [
        (1, LANES, 1, 1, 1),
        (4, LANES * 4, 1, 4, 4),
        (4, LANES * 4 + 4, 2, 5, 4),
        (4, LANES * 0, 1, 1, 1),
        (4, LANES * 16, 4, 16, 4),
        (4, LANES * 128, 32, 32, 4),
        (4, (31 - LANES) * 4, 1, 4, 4),
        (4, LANES % 2 * FAR, 2, 2, 1),
        (8, LANES * 8, 2, 8, 8),
        (16, LANES * 16, 4, 16, 16),
        (16, LANES * 64, 16, 32, 16),
        (16, LANES // 8 * 16, 1, 2, 2),
    ],
)
def test_sectors_of_global_loads_and_stores(
    width: int, offsets: np.ndarray, tags: int, sectors: int, ideal: int
) -> None:
    kind = VECTORS[width]
    use = "*(unsigned char*)&" if width > 4 else ""
    statement = f"{kind} v = *({kind}*)at; __syncwarp(); *({kind}*)(at + 32768) = v; x += {use}v;"
    counts = _global(statement, offsets)
    for opcode in ("LDG", "STG"):
        other = {"LDG": (1, 4), "STG": (1, 4)}[
            opcode
        ]  # requests and sectors of loading the offsets and storing the result
        assert counts.total("requests", opcode) == 1 + other[0]
        assert counts.total("sectors", opcode) == sectors + other[1]
        assert counts.total("tags", opcode) == tags + 1
        assert counts.total("ideal_sectors", opcode) == ideal + other[1]
        assert counts.total("bytes", opcode) == 32 * width + 128


@pytest.mark.parametrize(
    "offsets, sectors", [(LANES * 4, 4), (LANES * 0, 32), (LANES // 2 * 4, 4), (LANES % 2 * FAR, 32), (LANES * 32, 32)]
)
def test_sectors_of_global_atomics(offsets: np.ndarray, sectors: int) -> None:
    counts = _global('asm volatile("red.global.max.u32 [%0], %1;" :: "l"(at), "r"(x) : "memory");', offsets)
    assert counts.total("requests", "REDG") == 1
    assert counts.total("sectors", "REDG") == sectors


def test_inactive_lanes_request_nothing() -> None:
    counts = _global("if (i % 8 == 0) x += *(volatile unsigned*)at;", LANES * 4)
    assert counts.total("requests", "LDG") == 2
    assert counts.total("sectors", "LDG") == 4 + 4
    assert counts.total("bytes", "LDG") == 4 * 4 * 2  # only the active lanes load their offsets
    counts = _global("if (offsets[0] == 1) x += *(volatile unsigned*)at;", LANES * 4)
    assert counts.total("requests", "LDG") == 1  # the load of offsets[0]


def test_l1_hits_and_l2_sectors() -> None:
    first = "unsigned char* again = at + ((unsigned)offsets[i] >> 24);"  # equals `at`, unknown to the compiler
    read = "x += *(unsigned*)at; __syncwarp();"
    for statement, hits, beyond in (
        (read + "x += *(unsigned*)again;", 16, 16),
        ("*(unsigned*)at = x; __syncwarp(); x += *(unsigned*)again;", 16, 0),
        (read + "x += *(volatile unsigned*)again;", 0, 32),
        (read + "atomicMax((unsigned*)at, i); __syncwarp(); x += *(unsigned*)again;", 0, 32),
    ):
        counts = _global(first + statement, LANES * 16)
        assert counts.total("l1_hits", "LDG") == hits
        assert counts.total("l2_sectors", "LDG") == beyond + 4  # plus the load of the offsets


def test_dram_fetch_granularity() -> None:
    statement = "x += *(volatile unsigned*)at; x += *(volatile unsigned*)at;"
    for offsets, fetched in ((LANES * 4, 4), (LANES * 64, 64), (LANES * 0, 2), (LANES * 4 + 4, 6)):
        counts = _global(statement, offsets)
        assert counts.l2_misses == fetched + 4
        assert counts.total("dram_sectors") == fetched + 4
        assert counts.total("l2_hits", "LDG") == counts.total("sectors", "LDG") // 2 - 2
    assert counts.sectors_read == 5 + 4
    assert counts.sectors_written == 4


LOCAL = r"""
extern "C" __global__ void k(const int* in, int* out, int n) {
  __align__(16) volatile int own[16];
  int i = threadIdx.x;
  unsigned at = (unsigned)__cvta_generic_to_local((int*)own);
#pragma unroll
  for (int t = 0; t < 4; t++)
    asm volatile("st.local.v4.u32 [%0], {%1, %2, %3, %4};" :: "r"(at + 16 * t), "r"(in[i + 128 * t]),
                 "r"(in[i + 128 * t + 32]), "r"(in[i + 128 * t + 64]), "r"(in[i + 128 * t + 96]) : "memory");
  own[n] = 5;
  out[i] = own[(n + 1) & 15];
  out[32 + i] = own[(n + i) & 15];
}
"""


def test_sectors_of_interleaved_local_memory() -> None:
    given, out = np.arange(512, dtype=np.int32), np.zeros(64, np.int32)
    counts = launch(LOCAL, "sm_90", 1, 32, given, out, 3)
    np.testing.assert_array_equal(out[:32], given[4 * 32 : 5 * 32])
    np.testing.assert_array_equal(out[32:], np.where(LANES % 16 == 0, 5, (3 + LANES) % 16 * 32 + LANES))
    assert counts.total("executed", "STL") == 5
    words = 4 * 4 + 1
    assert counts.total("requests", "STL") == words
    assert counts.total("sectors", "STL") == 4 * words
    assert (
        counts.total("l1_hits", "STL") == 4 * words
    )  # ncu counts local stores as hits; they are written through to L2
    assert counts.total("l2_sectors", "STL") == 4 * words
    # The same word in all lanes: one line of 4 sectors. 16 different words, each in two lanes: 32 sectors.
    assert counts.total("sectors", "LDL") == 4 + 32
    assert counts.total("l1_hits", "LDL") == 36


def test_first_and_worst_request_are_sampled() -> None:
    source = r"""
extern "C" __global__ void k(const int* offsets, unsigned* out, const unsigned* data) {
  unsigned x = 0;
#pragma unroll 1
  for (int t = 0; t < 4; t++) x += data[threadIdx.x * offsets[t]];
  out[threadIdx.x] = x;
}
"""
    offsets = np.array([1, 2, 8, 3], np.int32)
    counts = launch(source, "sm_90", 1, 32, offsets, np.zeros(32, np.uint32), np.zeros(512, np.uint32))
    kept = [samples for samples in counts.samples.values() if samples[-1].sectors == 32]
    assert len(kept) == 1
    first, worst = kept[0]
    assert first.sectors == 4
    assert first.lanes == worst.lanes == 0xFFFFFFFF
    assert np.diff(first.addresses).tolist() == [4] * 31
    assert np.diff(worst.addresses).tolist() == [32] * 31
    assert worst.bytes == 4


REREAD = r"""
extern "C" __global__ void k(const float4* in, float* sums, int perBlock, int passes) {
  const float4* mine = in + (long long)blockIdx.x * perBlock;
  float sum = 0;
  for (int pass = 0; pass < passes; pass++, __syncthreads())
    for (int i = threadIdx.x; i < perBlock; i += blockDim.x) {
      float4 v;
      asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                   : "l"(mine + i));
      sum += v.x + v.y + v.z + v.w;
    }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


@pytest.mark.parametrize("kilobytes, blocks, again", [(48, 1056, False), (96, 1056, True), (96, 132, False)])
def test_l2_rereads_beyond_the_share_of_a_block(kilobytes: int, blocks: int, again: bool) -> None:
    per_block = kilobytes * 1024 // 16
    data = np.zeros(1056 * per_block * 4, np.float32)
    counts = launch(REREAD, "sm_90", blocks, 256, data, np.zeros(1056 * 256, np.float32), per_block, 2, blocks=8)
    if again:  # a few lines stay in cache sets to which fewer lines map
        assert 0.8 * per_block // 2 * blocks < counts.l2_rereads <= per_block // 2 * blocks
    else:
        assert counts.l2_rereads == 0
    assert counts.total("l2_sectors", "LDG") == per_block // 2 * blocks * 2


def test_stores_to_the_same_sectors_are_merged() -> None:
    def sent(statement: str, offsets: np.ndarray) -> int:
        return _global(statement, offsets).total("l2_sectors", "STG") - 4  # without the stores of the results

    four = "".join(f"*(volatile unsigned*)(at + {4 * i}) = i;" for i in range(4))
    assert sent(four, LANES * 16) == 4 * 16 - 35  # 48 stores find their sector in the buffer, 7 of 10 are merged
    assert sent(four, LANES * 32) == 4 * 32


def test_bank_conflicts_of_cp_async() -> None:
    copies, expected = "", []
    for to, source, conflicts in (
        ("i", "i", 0),
        ("i * 2", "i", 1),
        ("i", "i / 16 * 32 + i % 16", 1),
        # A transposing copy with a pitch of 68 elements. ncu counts three wavefronts on an H200.
        ("i % 16 * 68 + i / 16", "i / 16 * 256 + i % 16", 2),
    ):
        copies += f"__pipeline_memcpy_async(tile + ({to}), (const float*)data + ({source}), 4); __syncwarp();\n"
        expected.append(conflicts)
    source_text = COPY.replace("@", copies)
    counts = launch(source_text, "sm_90", 1, 32, np.arange(1024, dtype=np.float32), np.zeros(2048, np.float32))
    of_copies = [i for i, one in enumerate(counts.program.instructions) if one.opcode == "LDGSTS"]
    assert counts.column("conflicts")[of_copies].tolist() == expected
    assert counts.column("wavefronts")[of_copies].tolist() == [1 + conflicts for conflicts in expected]


COPY = r"""
#include <cuda_pipeline.h>
extern "C" __global__ void k(const float* data, float* out) {
  __shared__ __align__(128) float tile[2048];
  int i = threadIdx.x;
  @
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  for (int n = i; n < 2048; n += 32) out[n] = tile[n];
}
"""
