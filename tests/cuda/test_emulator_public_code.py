"""Forms of public CUDA code: names that hide built-in variables, groups without a scan, a buffer copied too early."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import CompileError, DataRace
from warpwise.cuda.gpu import nvcc

HIDDEN = cuda.load("""
struct Config { dim3 gridDim; int threads; };
__device__ int cell(float x, float size, int gridDim) { return static_cast<int>(x / size) % gridDim; }
__device__ int width(const Config& config) { return config.gridDim.x * config.threads; }
__global__ void cells(const float* x, int* y, int blockDim, int n) {
  const int i = blockIdx.x * 32 + threadIdx.x;
  if (i < n) y[i] = cell(x[i], 0.5f, blockDim) + 100 * gridDim.x;
}
__global__ void blocks(int* y) {
  y[threadIdx.x] = blockDim.x;
  const Config config{dim3(3), 4};
  const int* threadIdx = y;
  if (blockIdx.x == 0 && threadIdx == y) y[32] = width(config);
}
""")


def test_names_that_hide_built_in_variables() -> None:
    x, y = np.arange(60, dtype="f4"), np.zeros(60, "i4")
    assert HIDDEN["cells"][2, 32].check(x, y, 7, 60) == []
    assert (y == np.arange(60) * 2 % 7 + 200).all()
    assert HIDDEN["blocks"][1, 32].check(y) == []
    assert y[32] == 12 and y[31] == 32


def test_a_scan_over_a_block_is_an_error_that_names_tiles() -> None:
    kernel = cuda.load("""#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>
__global__ void k(int* x) {
  const auto block = cooperative_groups::this_thread_block();
  x[threadIdx.x] = cooperative_groups::inclusive_scan(block, x[threadIdx.x]);
}
""")["k"]
    with pytest.raises(CompileError, match="take a tile or coalesced threads: use tiled_partition"):
        kernel[1, 32].check(np.zeros(32, "i4"))


BUFFERS = """#include <cuda_pipeline.h>
__global__ void k(const float* x, float* y) {
  __shared__ float s[64];
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < 4; i++) {
    __pipeline_memcpy_async(&s[t], x + 64 * i + t, 4);
    __pipeline_commit();
    WAIT;
    BEFORE;
    sum += s[63 - t];
    AFTER;
  }
  y[t] = sum;
}
"""
WAIT, SYNC = "__pipeline_wait_prior(0)", "__syncthreads()"


@pytest.mark.parametrize(
    "wait, before, after, hint",
    [
        (WAIT, SYNC, SYNC, ""),
        ("", SYNC, SYNC, "the copy has not been waited for"),
        (WAIT, SYNC, "", "no __syncthreads() separates the two"),
        (WAIT, "", SYNC, "no __syncthreads()"),
    ],
)
def test_what_an_asynchronous_copy_lacks(wait: str, before: str, after: str, hint: str) -> None:
    text = BUFFERS.replace("WAIT", wait).replace("BEFORE", before).replace("AFTER", after)
    found = []
    for order in ("forward", "reverse"):
        found += cuda.load(text)["k"][1, 64].check(np.zeros(256, "f4"), np.zeros(64, "f4"), order=order)
    assert bool(found) is bool(hint)
    assert all(hint in str(finding) for finding in found if finding.kind is DataRace), [*map(str, found)]


NAMES = """
template <class T> struct Base { __device__ T twice(T v) const { return 2 * v; } };
template <class T> struct List : Base<T> { __device__ T get(T v) const { return twice(v); } };
template <class T> struct Box { T x; };
template <class T> struct Tree { Box<T> first; using Box = ::Box<T>; Box second; };
template <class T> __device__ T late(T v) { return later(v); }
__device__ int later(int v) { return v + 1; }
__global__ void k(int* x) { x[0] = List<int>{}.get(3) + sizeof(Tree<int>); }
__global__ void undeclared(int* x) { x[0] = List<int>{}.get(3) + late(x[0]); }
"""


def test_names_that_cuda_s_compiler_finds_and_g_plus_plus_does_not() -> None:
    module, x = cuda.load(NAMES), np.zeros(1, "i4")
    assert module["k"][1, 1].check(x) == []
    assert x[0] == 14
    with pytest.raises(CompileError, match="later"):
        module["undeclared"][1, 1].check(x)


COPIED = """
struct View {
  int* data;
  int n;
  __host__ __device__ View(int* data, int n) : data(data), n(n) {}
  __host__ __device__ View(const View& other) : data(other.data), n(other.n + 1) {}
  __host__ __device__ ~View() { n = BAD; }
};
struct Assigned {
  int value;
  __device__ Assigned& operator=(const Assigned& other) { value = other.value; return *this; }
};
__global__ void k(View view, Assigned five, int* counts) {
  view.n += five.value;
  atomicAdd(counts, view.n);
}
"""


def test_a_parameter_is_copied_bytewise() -> None:
    kernel = cuda.load(COPIED.replace("BAD", "*data"))["k"]
    view = np.array([(0, 7)], dtype=np.dtype([("data", "u8"), ("n", "i4")], align=True))[0]
    five, counts = np.array([(5,)], dtype=[("value", "i4")])[0], np.zeros(1, "i4")
    assert kernel[2, 32].check(view, five, counts) == []
    assert counts[0] == 64 * 12


def test_a_class_may_declare_host_functions_that_take_a_stream() -> None:
    kernel = cuda.load("""#include <cuda_runtime.h>
struct Table {
  int* data;
  void insert(const int* keys, int count, cudaStream_t stream = 0, cudaEvent_t done = nullptr);
  __device__ void put(int i) { data[i] = i; }
};
__global__ void k(int* x) { Table{x}.put(threadIdx.x); }
""")["k"]
    x = np.zeros(8, "i4")
    assert kernel[1, 8].check(x) == []
    assert (x == np.arange(8)).all()


def test_a_header_that_defines_qualifiers_for_other_compilers(tmp_path: Path) -> None:
    (tmp_path / "both.h").write_text("""#ifndef __host__
#define __host__
#define __device__
#define __global__
#define __align__(n)
#endif
struct __align__(8) Pair { int x; };
""")
    source = tmp_path / "k.cu"
    source.write_text("""#include "both.h"
__device__ int size() { return sizeof(Pair); }
__global__ void k(int* x) { __shared__ int s; s = size(); x[0] = s; }
""")
    kernel, x = cuda.load(source)["k"], np.zeros(1, "i4")
    assert kernel[1, 1].check(x) == []
    assert x[0] == 8
    assert kernel.compile("sm_90").registers > 0


SCANS = """
#include <cub/cub.cuh>
static_assert(CUB_VERSION >= 101700, "");
struct Running {
  int sum;
  __device__ int operator()(int block) { const int before = sum; sum += block; return before; }
};
__global__ void k(const int* x, int* y, int n) {
  using Scan = cub::BlockScan<int, 64>;
  __shared__ Scan::TempStorage storage;
  Running a{0}, b{100}, c{0}, d{100};
  for (int start = 0; start < n; start += 64) {
    const int i = start + threadIdx.x;
    int one[1], both[1];
    Scan(storage).InclusiveSum(x[i], y[i], a);
    __syncthreads();
    Scan(storage).ExclusiveScan(x[i], y[n + i], cub::Sum(), b);
    __syncthreads();
    one[0] = x[i];
    Scan(storage).InclusiveSum(one, both, c);
    y[2 * n + i] = both[0];
    __syncthreads();
    Scan(storage).ExclusiveSum(one, both, d);
    y[3 * n + i] = both[0];
    SYNC
  }
}
"""


def test_block_scans_with_a_prefix_callback() -> None:
    x, y = np.arange(192, dtype="i4"), np.zeros((4, 192), "i4")
    assert cuda.load(SCANS.replace("SYNC", "__syncthreads();"))["k"][1, 64].check(x, y, 192) == []
    inclusive = np.cumsum(x)
    np.testing.assert_array_equal(y, [inclusive, inclusive - x + 100, inclusive, inclusive - x + 100])
    found = cuda.load(SCANS.replace("SYNC", ""))["k"][1, 64].check(x, y, 192)
    assert found and all("not ordered" in each.message for each in found)


def test_min_of_half_is_not_declared_as_in_cuda() -> None:
    text = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
static __device__ half min(half a, half b) { return __hlt(a, b) ? a : b; }
static __device__ __nv_bfloat16 max(__nv_bfloat16 a, __nv_bfloat16 b) { return __hgt(a, b) ? a : b; }
__global__ void k(half* x, __nv_bfloat16* y) { x[0] = min(x[0], x[1]); y[0] = max(y[0], y[1]); }
"""
    assert cuda.load(text)["k"].build().sizes == (8, 8)


PASSED_ON = """#if CUDART_VERSION < 11050
#define CUB_NS_PREFIX namespace old {
#define CUB_NS_POSTFIX }
#else
#define NDEBUG
#endif
#define SHARED __shared__
/*
#define CUB_UNUSED
*/
#include <cub/cub.cuh>
#include <cassert>
__global__ void k(int* x) {
  using Reduce = cub::BlockReduce<int, 32>;
  SHARED typename Reduce::TempStorage storage;
  assert(x[0] == 77);
  const int sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) x[32] = sum;
}
"""


def test_only_active_macros_reach_the_headers_of_libraries() -> None:
    kernel, x = cuda.load(PASSED_ON)["k"], np.ones(33, "i4")
    assert kernel[1, 32].check(x) == []
    assert x[32] == 32
    found = kernel[1, 32].check(x[:32].copy())
    assert found[0].access is not None
    assert found[0].access.line == 18
    if nvcc.find() is not None:
        assert kernel.compile("sm_90").compiler == "nvcc"
