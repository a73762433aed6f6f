"""Intrinsics of recent CUDA versions: DPX, state spaces, functions of clusters, wide atomics, aligned vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from warpwise import cuda

INT, UNSIGNED = (-(1 << 31), 1 << 32), (0, 1 << 32)
FORMATS = {"s32": (32, True), "u32": (32, False), "s16x2": (16, True), "u16x2": (16, False)}
THREE: dict[str, Callable[[int, int, int], int]] = {
    "vimax3": lambda a, b, c: max(a, b, c),
    "vimin3": lambda a, b, c: min(a, b, c),
    "viaddmax": lambda total, _, c: max(total, c),
    "viaddmin": lambda total, _, c: min(total, c),
}
CALLS = [f"__{name}_{form}" for name in THREE for form in FORMATS]
CALLS += [f"__{name}_{form}_relu" for name in THREE for form in ("s32", "s16x2")]
TWO = [f"__{name}_{form}_relu" for name in ("vimax", "vimin") for form in ("s32", "s16x2")]
DPX = (
    "__global__ void dpx(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* y) {\n"
    "  const int i = threadIdx.x, n = blockDim.x;\n"
    + "".join(f"  y[{k} * n + i] = {name}(a[i], b[i], c[i]);\n" for k, name in enumerate(CALLS))
    + "".join(f"  y[{len(CALLS) + k} * n + i] = {name}(a[i], b[i]);\n" for k, name in enumerate(TWO))
    + "}\n"
)


def _parts(word: int, bits: int, signed: bool) -> list[int]:
    parts = [word >> at & (1 << bits) - 1 for at in range(0, 32, bits)]
    return [part - (1 << bits) if signed and part >> bits - 1 else part for part in parts]


def _expected(call: str, a: int, b: int, c: int) -> int:
    name, form, *relu = call.strip("_").split("_")
    bits, signed = FORMATS[form]
    result = 0
    for k, (x, y, z) in enumerate(zip(*(_parts(word, bits, signed) for word in (a, b, c)), strict=True)):
        total = _parts((x + y) & (1 << bits) - 1, bits, signed)[0]
        if name in THREE:
            value = THREE[name](total if "add" in name else x, y, z)
        else:
            value = max(x, y) if name == "vimax" else min(x, y)
        result |= ((max(value, 0) if relu else value) & (1 << bits) - 1) << bits * k
    return result


def _words() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    edges = np.array([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFF8000, 0x80007FFF, 0x12345678], np.uint32)
    a, b = (each.ravel() for each in np.meshgrid(edges, edges))
    return a, b, np.random.default_rng(0).integers(0, 1 << 32, a.size, dtype=np.uint32)


def test_dpx() -> None:
    a, b, c = _words()
    y = np.empty((len(CALLS) + len(TWO), a.size), np.uint32)
    cuda.load(DPX)["dpx"][1, a.size](a, b, c, cuda.out(y))
    for call, row in zip([*CALLS, *TWO], y.tolist(), strict=True):
        assert row == [_expected(call, *words) for words in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)], call


PREDICATES = """
__global__ void predicates(const unsigned* a, const unsigned* b, unsigned* y) {
  const int i = threadIdx.x, n = blockDim.x;
  bool p, q;
  y[i] = __vibmax_s32(a[i], b[i], &p);
  y[n + i] = p;
  y[2 * n + i] = __vibmin_u32(a[i], b[i], &p);
  y[3 * n + i] = p;
  y[4 * n + i] = __vibmin_s16x2(a[i], b[i], &p, &q);
  y[5 * n + i] = p << 1 | q;
  y[6 * n + i] = __vibmax_u16x2(a[i], b[i], &p, &q);
  y[7 * n + i] = p << 1 | q;
}
"""


def test_minima_and_maxima_with_the_result_of_the_comparison() -> None:
    a, b, _ = _words()
    y = np.empty((8, a.size), np.uint32)
    cuda.load(PREDICATES)["predicates"][1, a.size](a, b, cuda.out(y))
    for row, form, least in ((0, "s32", False), (2, "u32", True), (4, "s16x2", True), (6, "u16x2", False)):
        bits, signed = FORMATS[form]
        for x, z, word, bit in zip(a.tolist(), b.tolist(), y[row].tolist(), y[row + 1].tolist(), strict=True):
            pairs = list(zip(_parts(x, bits, signed), _parts(z, bits, signed), strict=True))
            assert _parts(word, bits, signed) == [min(pair) if least else max(pair) for pair in pairs], form
            assert bit == sum((p <= q if least else p >= q) << k for k, (p, q) in enumerate(pairs)), form


SPACES = """
__constant__ float table[4] = {1, 2, 3, 4};
__device__ float variable[4];
__device__ int space(const void* p) {
  int inline_ptx;
  asm("{.reg .pred p, q, r, s;\\n isspacep.global p, %1;\\n isspacep.shared q, %1;\\n isspacep.local r, %1;\\n"
      "isspacep.const s, %1;\\n selp.s32 %0, 1, 0, p;\\n@q mov.s32 %0, 2;\\n@r mov.s32 %0, 4;\\n@s mov.s32 %0, 8;}"
      : "=r"(inline_ptx) : "l"(p));
  return (__isGlobal(p) | __isShared(p) << 1 | __isLocal(p) << 2 | __isConstant(p) << 3) | inline_ptx << 8;
}
__global__ void spaces(int* y) {
  __shared__ float tile[4];
  extern __shared__ float more[];
  float local[4] = {y[0] + 1.0f};
  float* heap = new float[4];
  y[0] = space(y);
  y[1] = space(variable + 1);
  y[2] = space(heap);
  y[3] = space(tile + 3);
  y[4] = space(more);
  y[5] = space(local);
  y[6] = space(table + 2);
  y[7] = __isCtaShared(tile) | __isClusterShared(more) << 1 | __isClusterShared(y) << 2;
  delete[] heap;
}
"""


def test_state_spaces() -> None:
    y = torch.zeros(8, dtype=torch.int32)
    cuda.load(SPACES)["spaces"][1, 1, 64](y)
    assert y.tolist() == [each | each << 8 for each in (1, 1, 1, 2, 2, 4, 8)] + [3]


CLUSTERS = """
__cluster_dims__(2, 1, 1) __global__ void exchange(int* y) {
  __shared__ int value, spaces;
  if (threadIdx.x == 0) value = blockIdx.x;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  const unsigned peer = __clusterRelativeBlockRank() ^ 1;
  int* const remote = static_cast<int*>(__cluster_map_shared_rank(&value, peer));
  if (threadIdx.x == 0) {
    int* const out = y + 6 * blockIdx.x;
    out[0] = *remote;
    out[1] = __cluster_query_shared_rank(remote);
    out[2] = __isShared(remote) | __isClusterShared(remote) << 1 | __isGlobal(remote) << 2;
    out[3] = __clusterIdx().x;
    out[4] = __clusterSizeInBlocks() * 10 + __clusterGridDimInClusters().x;
    out[5] = __clusterRelativeBlockIdx().x;
  }
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
}
"""


def test_functions_of_clusters() -> None:
    y = torch.zeros(4, 6, dtype=torch.int32)
    cuda.load(CLUSTERS)["exchange"][4, 32](y)
    assert y.tolist() == [[block ^ 1, block % 2 ^ 1, 2, block // 2, 22, block % 2] for block in range(4)]


WIDE = """
struct __align__(16) Wide { unsigned long long x, y; };
__global__ void wide(Wide* p, double4_32a* v, float2* f) {
  const Wide mine = {threadIdx.x, threadIdx.x};
  const Wide before = atomicExch(p, mine);
  if (before.x != before.y) v->x = -1;
  if (threadIdx.x == 0) {
    *v = make_double4_32a(alignof(double4_32a), alignof(longlong4_16a), alignof(ulonglong4_32a), sizeof(double4_32a));
    *f = __ffma2_rn(make_float2(2, 3), make_float2(4, 5), __fadd2_rz(make_float2(1, 1), make_float2(0, 1)));
  }
}
"""


def test_wide_exchanges_and_aligned_vectors() -> None:
    memory = np.zeros(2, np.uint64)
    vector, pair = np.zeros(4), torch.zeros(2)
    cuda.load(WIDE)["wide"][1, 32](memory.view(np.uint8), vector.view(np.uint8), pair)
    assert memory[0] == memory[1] and vector.tolist() == [32, 16, 32, 32] and pair.tolist() == [9, 17]
