"""``warpwise run``: what public programs need of the CUDA runtime, cuFFT and the headers of host code."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest
from tests.commands import command
from tests.sampled import FULL

TRANSFORMS = """
#include <cstdio>
#include <cufftXt.h>
#include <mma.h>
#include <sm_61_intrinsics.h>
#include <cuda/std/type_traits>
static void show(const float* device, int count) {
  float h[64];
  cudaMemcpy(h, device, count * sizeof(float), cudaMemcpyDeviceToHost);
  for (int i = 0; i < count; i++) printf("%.6g ", h[i]);
  printf("\\n");
}
int main() {
  const int n = 12;
  static_assert(cuda::std::is_same<half, __half>::value);
  float h[2 * n], *d, *spectrum;
  for (int i = 0; i < 2 * n; i++) h[i] = i * i % 7;
  cudaMalloc(&d, sizeof h);
  cudaMalloc(&spectrum, 64 * sizeof(float));
  cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
  cufftHandle complex, plane, back, many;
  cufftPlan1d(&complex, n, CUFFT_C2C, 1);
  cufftExecC2C(complex, (cufftComplex*)d, (cufftComplex*)spectrum, CUFFT_FORWARD);
  show(spectrum, 2 * n);
  cufftPlan2d(&plane, 4, 6, CUFFT_R2C);
  cufftPlan2d(&back, 4, 6, CUFFT_C2R);
  cufftExecR2C(plane, d, (cufftComplex*)spectrum);
  show(spectrum, 32);
  cufftExecC2R(back, (cufftComplex*)spectrum, d);
  show(d, 24);
  int length[1] = {8}, in[1] = {8}, half[1] = {5};
  cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
  cufftPlanMany(&many, 1, length, in, 3, 1, half, 3, 1, CUFFT_R2C, 3);
  cufftExecR2C(many, d, (cufftComplex*)spectrum);
  show(spectrum, 30);
  printf("%d", cufftExecR2C(many, d + 3, (cufftComplex*)spectrum));
}
"""

GRAPHS = """
#include <cstdio>
#include <cuda_runtime.h>
__global__ void scale(int* x, int* scale) { x[threadIdx.x] *= scale[0]; }
void CUDART_CB show(void* data) { for (int i = 0; i < 4; i++) printf("%d ", ((int*)data)[i]); }
int main() {
  int *x, *by, h[4] = {1, 2, 3, 4}, r[4];
  cudaMemPool_t pool;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  cudaMallocFromPoolAsync(&x, sizeof h, pool, 0);
  cudaMallocAsync(&by, sizeof h, 0);
  cudaGraph_t graph;
  cudaGraphNode_t nodes[5];
  cudaGraphExec_t work;
  cudaGraphCreate(&graph, 0);
  cudaMemsetParams fill = {by, 0, 3, 4, 4, 1};
  void* arguments[] = {&x, &by};
  cudaKernelNodeParams kernel = {(void*)scale, dim3(1), dim3(4), 0, arguments, nullptr};
  cudaHostNodeParams host = {show, r};
  cudaGraphAddMemsetNode(&nodes[0], graph, nullptr, 0, &fill);
  cudaGraphAddMemcpyNode1D(&nodes[1], graph, nullptr, 0, x, h, sizeof h, cudaMemcpyHostToDevice);
  cudaGraphAddKernelNode(&nodes[2], graph, nodes, 2, &kernel);
  cudaGraphAddMemcpyNode1D(&nodes[3], graph, nodes + 2, 1, r, x, sizeof r, cudaMemcpyDeviceToHost);
  cudaGraphAddHostNode(&nodes[4], graph, nodes + 3, 1, &host);
  cudaGraphInstantiateWithFlags(&work, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
  cudaGraphLaunch(work, 0);
  cudaFreeAsync(x, 0);
  cudaFreeAsync(by, 0);
}
"""


MANAGED = """
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class T>
__host__ __device__ T lanes(T x, int width = warpSize) { return x + threadIdx.x + width; }
__global__ void scale(int* x) { x[0] *= lanes(3, 0); }
#define LAUNCH(x)   \\
  scale             \\
      <<<1, 1, 0, stream>>>(x)
int main() {
  assert(__hgt(__hadd(__half(1.5f), __half(2)), __half(3)));
  const __half2 h = __hfma2(__float2half2_rn(2), __floats2half2_rn(1, 3), __float22half2_rn(make_float2(0.5f, 1)));
  __half sum = 1;
  sum *= __half(3);
  assert(float(sum) == 3 && float((h + h).x) == 5);
  const __nv_bfloat162 b = __hmul2(__float2bfloat162_rn(1.5f), __floats2bfloat162_rn(1, 2));
  printf("%g %g %g %g ", __half22float2(h).x, __high2float(h), __low2float(b), float(hexp(__nv_bfloat16(0.0f))));
  int *own, *all;
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaMallocManaged(&own, 4);
  cudaMallocManaged(&all, 4);
  *own = *all = 5;
  cudaStreamAttachMemAsync(stream, own, 0, cudaMemAttachHost);
  LAUNCH(all);
  printf("%d ", ++*own);
  fflush(stdout);
  printf("%d", *all);
}
"""


def run(folder: Path, text: str, *options: str) -> CompletedProcess[str]:
    path = folder / "program.cu"
    path.write_text(text)
    return command("run", str(path), *options, "--device", "cpu")


def test_cufft_computes_numpys_transforms(tmp_path):
    done = run(tmp_path, TRANSFORMS)
    printed = done.stdout.splitlines()
    lines = [np.array([float(word) for word in line.split()]) for line in printed[:4]]
    given = np.arange(24.0) ** 2 % 7
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(lines[0].view(complex), np.fft.fft(given.view(complex)), **close)
    np.testing.assert_allclose(lines[1].view(complex).reshape(4, 4), np.fft.rfft2(given.reshape(4, 6)), **close)
    np.testing.assert_allclose(lines[2], 24 * given, **close)
    np.testing.assert_allclose(lines[3].view(complex).reshape(5, 3), np.fft.rfft(given.reshape(8, 3), axis=0), **close)
    assert printed[4] == "6" and done.returncode == 1
    assert "OutOfBounds: cufftExecR2C: 96 bytes from byte 12 exceed the block (device memory of 96 bytes" in done.stderr


def test_graph_nodes_and_memory_pools(tmp_path):
    done = run(tmp_path, GRAPHS, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 6 9 12 ", "")


def test_new_memory_of_the_host_holds_zeros(tmp_path):
    done = run(
        tmp_path,
        "#include <cstdio>\n#include <cstdlib>\nint main() {\n  int found = 0;\n  for (int n = 1; n < 2000; n++) {\n"
        "    volatile char* p = (char*)malloc(n);\n    for (int i = 0; i < n; i++) found |= p[i];\n"
        "    if (posix_memalign((void**)&p, 64, n)) return 2;\n    for (int i = 0; i < n; i++) found |= p[i];\n  }\n"
        '  printf("%d", found);\n}\n',
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0", "")


def test_arithmetic_of_half_on_the_host_and_attached_managed_memory(tmp_path):
    done = run(tmp_path, MANAGED)
    assert (done.returncode, done.stdout) == (1, "2.5 7 1.5 1 6 15")
    assert done.stderr.count("MissingSynchronization") == 1 and '  printf("%d", *all);' in done.stderr


VARIABLES = """
#include <cstdio>
#include "cub/device/device_scan.cuh"
__device__ __managed__ int sum, table[4] = {1, 2, 3, 4};
__managed__ double large;
__global__ void named() { atomicAdd(&sum, 1); }
__global__ void pointed(int* to, const int* from) { atomicAdd(to, from[threadIdx.x]); }
__global__ void both(int& by, int* x) { x[0] += sum; if (by == 100) large = 2.5; }
int main() {
  sum = 5;
  named<<<1, 8>>>();
  pointed<<<1, 3>>>(&sum, table + 1);
  cudaDeviceSynchronize();
  printf("%d ", sum);
  sum = 100;
  both<<<1, 1>>>(sum, table);
  cudaDeviceSynchronize();
  printf("%d %d %g ", sum, table[0], large);
  table[0] = 7;
  named<<<1, 1>>>();
  pointed<<<1, 1>>>(&sum, table);
  cudaDeviceSynchronize();
  printf("%d", sum);
  int h[4] = {1, 2, 3, 4}, *x;
  void* storage = nullptr;
  size_t bytes;
  cudaMalloc(&x, sizeof h);
  cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
  cub::DeviceScan::InclusiveSum(storage, bytes, x, 4);
  cudaMalloc(&storage, bytes);
  cub::DeviceScan::InclusiveSum(storage, bytes, x, 4);
  cub::DeviceScan::ExclusiveScan(storage, bytes, x, cub::Max(), 2, 4);
  cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
  for (int each : h) printf(" %d", each);
}
"""


def test_addresses_of_managed_variables_and_scans_in_place(tmp_path):
    done = run(tmp_path, VARIABLES)
    assert (done.returncode, done.stdout, done.stderr) == (0, "22 100 101 2.5 108 2 2 3 6", "")


LIBCU = """
#include <cstdio>
#include <cuda/cmath>
#include <cuda/functional>
#include <cuda/std/numeric>
__global__ void k(int* y, int n) {
  y[0] = cuda::ceil_div(n, 4) + cuda::round_up(n, 4) + cuda::round_down(n, 4) + cuda::ilog2(n);
  y[1] = cuda::maximum<>{}(cuda::minimum<int>{}(n, 7), cuda::std::numeric_limits<int>::min());
}
int main() {
  int *y, h[2], n = 9;
  cudaMalloc(&y, sizeof h);
  k<<<cuda::ceil_div(n, 32), 1>>>(y, n);
  cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
  printf("%d %d %d", h[0], h[1], cuda::maximum<int>{}(1, 2));
}
"""


def test_functions_of_libcu(tmp_path):
    done = run(tmp_path, LIBCU)
    assert (done.returncode, done.stdout, done.stderr) == (0, "26 7 2", "")


ATOMICS = """
#include <cstdio>
#include <cuda/annotated_ptr>
#include <cuda/atomic>
#include <cuda/latch>
#include <cuda/semaphore>
#include <cuda/std/bit>
#include <cuda/std/functional>
#include <cuda/std/span>
#include <nv/target>
struct View {
  int* data;
  __host__ __device__ View(int* data) : data(data) {}
  __host__ __device__ View(const View& other) : data(other.data) {}
  __host__ __device__ ~View() {}
};
__host__ __device__ int where() { NV_IF_TARGET(NV_IS_HOST, (return 1;), (return 2;)) }
__global__ void k(cuda::atomic<int, cuda::thread_scope_system>* x, cuda::std::span<int> y, View view) {
  x->fetch_add(1);
  y[threadIdx.x] = where();
  if (threadIdx.x == 0) *view.data = 7;
}
int main() {
  cuda::atomic<int, cuda::thread_scope_system>* x;
  int *y, grid, block;
  cudaMallocManaged(&x, sizeof *x);
  cudaMallocManaged(&y, 33 * sizeof *y);
  x->store(5, cuda::memory_order_relaxed);
  k<<<1, 32>>>(x, cuda::std::span<int>(y, 32), View(y + 32));
  cudaDeviceSynchronize();
  cuda::atomic_ref<int, cuda::thread_scope_system>(y[0]).fetch_max(3);
  cuda::binary_semaphore<cuda::thread_scope_system> free(1);
  free.acquire();
  const auto bytes = [](int) { return 0; };
  const bool known = !cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(&grid, &block, k, bytes, 0, 0);
  printf("%d %d %d %d %d %d %d %d", x->load(), y[0], y[1], y[32], where(), cuda::std::popcount(7u),
         cuda::std::identity{}(4), known && !free.try_acquire());
}
"""


def test_atomics_and_parameters_with_constructors(tmp_path):
    done = run(tmp_path, ATOMICS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "37 3 2 7 1 3 4 1", "")


FRAGMENTS = """
#include <cooperative_groups.h>
#include <cstdio>
#include <mma.h>
using namespace nvcuda;
typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> Sum;
__device__ void store(float* to, Sum (&sums)[2], cooperative_groups::__v1::thread_block block) {
  wmma::fill_fragment(sums[1], 3.0f);
  wmma::store_matrix_sync(to, sums[1], 16, wmma::mem_row_major);
  block.sync();
}
__global__ __maxnreg__(64) void k(float* y) {
  Sum sums[2];
  store(y, sums, cooperative_groups::this_thread_block());
}
int main() {
  float h, *y;
  cudaMalloc(&y, 256 * sizeof h);
  k<<<1, 32>>>(y);
  cudaMemcpy(&h, y + 255, sizeof h, cudaMemcpyDeviceToHost);
  printf("%g", h);
}
"""


def test_fragments_and_groups_as_parameters_of_device_functions(tmp_path):
    done = run(tmp_path, FRAGMENTS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3", "")


@FULL
def test_a_kernel_with_a_parameter_of_its_own_name(tmp_path):
    done = run(
        tmp_path,
        "#include <cstdio>\nnamespace n { __global__ void sum(int* sum) { *sum += 1; } }\n"
        "int main() { int *x, h = 1; cudaMalloc(&x, 4); cudaMemcpy(x, &h, 4, cudaMemcpyDefault); n::sum<<<1, 1>>>(x);\n"
        '  cudaMemcpy(&h, x, 4, cudaMemcpyDefault); printf("%d", h); }\n',
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2", "")


def test_kernels_of_one_name(tmp_path):
    done = run(
        tmp_path,
        """
#include <cstdio>
namespace n {
__global__ void scale(float* x, float by, int count) { x[threadIdx.x] *= by; }
static __global__ void scale(int* x, int by, int count) { x[threadIdx.x] *= by; }
template <class T> __global__ void scale(T* x, int count) { x[threadIdx.x] += 1; }
}
int main() {
  float* f;
  int* i;
  cudaMallocManaged(&f, 4), cudaMallocManaged(&i, 4);
  *f = 3, *i = 3;
  n::scale<<<1, 1>>>(f, 2.5f, 1);
  n::scale<<<1, 1>>>(i, 3, 1);
  n::scale<float><<<1, 1>>>(f, 1);
  cudaDeviceSynchronize();
  printf("%g %d", *f, *i);
}
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "8.5 9", "")


@pytest.mark.parametrize(
    "text, part",
    [
        pytest.param(
            "template <class T> __constant__ T taps[4];\nint main() {}",
            "program.cu:1: a template of __constant__ variables has no CPU version",
            marks=FULL,
        ),
        pytest.param(
            "template <class F> __global__ void k(F f) { f(); }\nint main() {\n  k<<<1, 1>>>([] __device__() {});\n}",
            "program.cu:3: kernel k has a lambda of host code as template argument",
            marks=FULL,
        ),
        ('extern "C" void dgesv_();\nint main() { dgesv_(); }', "undefined symbol: dgesv_ in the host code"),
        (
            "void other(int);\nint main() { other(1); }",
            "undefined symbol: other(int) in the host code; name the other .cu",
        ),
    ],
)
def test_what_a_program_lacks_is_named(tmp_path, text, part):
    done = run(tmp_path, text)
    assert done.returncode == 2 and part in done.stderr, done.stderr


def test_error_codes_that_copies_of_nvidias_headers_name(tmp_path):
    text = """
        #include <cstdio>
        #include <cuda.h>
        int main() {
          const char* name;
          cuGetErrorName(CUDA_ERROR_PROFILER_DISABLED, &name);
          printf("%s %s %d\\n", name, cudaGetErrorName(cudaErrorPriorLaunchFailure), cudaErrorApiFailureBase);
        }
    """
    done = run(tmp_path, text)
    assert done.stdout == "CUDA_ERROR_PROFILER_DISABLED cudaErrorPriorLaunchFailure 10000\n"
