"""``warpwise run``: textures and surfaces, cuBLAS, cuRAND, Thrust, CUB, and calls of the runtime API by address."""

from __future__ import annotations

import pytest
from tests.commands import command
from tests.sampled import FULL

TEXTURES = """
#include <cstdio>
#include <cuda_runtime.h>
__global__ void fetch(cudaTextureObject_t t, float* out, int n) {
  if (threadIdx.x < n) out[threadIdx.x] = tex1Dfetch<float>(t, int(threadIdx.x) - 1);
}
__global__ void sample(cudaTextureObject_t t, float* out) {
  out[threadIdx.y * 4 + threadIdx.x] = tex2D<float>(t, (threadIdx.x + 1.0f) / 4, (threadIdx.y + 0.5f) / 3);
}
__global__ void raise(cudaSurfaceObject_t s) {
  surf2Dwrite(surf2Dread<float>(s, threadIdx.x * 4, 1) + 1, s, threadIdx.x * 4, 0);
}
__global__ void colours(cudaTextureObject_t t, float4* out) {
  tex2D(&out[threadIdx.x], t, threadIdx.x - 1.0f, 0.5f);
}
void show(const float* values) {
  for (int i = 0; i < 12; i++) printf("%g ", values[i]);
  printf("\\n");
}
int main() {
  float in[12], r[12], *d, *out;
  for (int i = 0; i < 12; i++) in[i] = i;
  cudaMalloc(&d, sizeof in);
  cudaMalloc(&out, sizeof in);
  cudaMemcpy(d, in, sizeof in, cudaMemcpyHostToDevice);
  cudaResourceDesc from = {};
  from.resType = cudaResourceTypeLinear;
  from.res.linear = {d, cudaCreateChannelDesc<float>(), sizeof in};
  cudaTextureDesc how = {};
  cudaTextureObject_t t;
  if (cudaCreateTextureObject(&t, &from, &how, nullptr)) return 2;
  fetch<<<1, 32>>>(t, out, 12);
  cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost);
  show(r);
  cudaDestroyTextureObject(t);
  cudaArray_t array;
  const cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>(), bytes = cudaCreateChannelDesc<uchar4>();
  cudaMallocArray(&array, &floats, 4, 3, cudaArraySurfaceLoadStore);
  cudaMemcpy2DToArray(array, 0, 0, in, 16, 16, 3, cudaMemcpyHostToDevice);
  from = {};
  from.resType = cudaResourceTypeArray;
  from.res.array.array = array;
  how.filterMode = cudaFilterModeLinear;
  how.normalizedCoords = 1;
  how.addressMode[0] = cudaAddressModeWrap;
  how.addressMode[1] = cudaAddressModeClamp;
  cudaCreateTextureObject(&t, &from, &how, nullptr);
  sample<<<1, dim3(4, 3)>>>(t, out);
  cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost);
  show(r);
  cudaSurfaceObject_t surface;
  cudaCreateSurfaceObject(&surface, &from);
  raise<<<1, 4>>>(surface);
  cudaMemcpy2DFromArray(r, 16, array, 0, 0, 16, 3, cudaMemcpyDeviceToHost);
  show(r);
  cudaFreeArray(array);
  const uchar4 pixels[2] = {{0, 51, 255, 255}, {255, 255, 0, 0}};
  cudaMallocArray(&array, &bytes, 2, 1);
  cudaMemcpy2DToArray(array, 0, 0, pixels, 8, 8, 1, cudaMemcpyHostToDevice);
  from.res.array.array = array;
  how = {};
  how.readMode = cudaReadModeNormalizedFloat;
  how.addressMode[0] = cudaAddressModeBorder;
  how.borderColor[0] = 7;
  cudaCreateTextureObject(&t, &from, &how, nullptr);
  colours<<<1, 3>>>(t, (float4*)out);
  cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost);
  show(r);
  cudaFreeArray(array);
  cudaFree(d);
  cudaFree(out);
}
"""

BY_ADDRESS = """
#include <cstdio>
#include <cuda_runtime.h>
struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float side) : side(side) {}
  __device__ float area() const override { return side * side; }
};
__device__ int counts[4];
template <class T>
__global__ void add(T by) { counts[threadIdx.x] += by; }
__global__ void scale(int* x) { x[threadIdx.x] *= 10; }
__global__ void make(Shape** all) { all[threadIdx.x] = new Square(threadIdx.x); }
__global__ void measure(Shape** all, int* out) { out[threadIdx.x] = all[threadIdx.x]->area(); }
__global__ void __cluster_dims__(sizeof(int) == 4 ? 2 : 1, 1, 1) pairs(int* x) { x[blockIdx.x] = blockIdx.x; }
void show(const void* device) {
  int h[4];
  cudaMemcpy(h, device, sizeof h, cudaMemcpyDeviceToHost);
  for (int v : h) printf("%d ", v);
}
int main() {
  int *address, by = 3, *out;
  Shape** shapes;
  if (cudaGetSymbolAddress((void**)&address, counts)) return 2;
  cudaMemset(address, 0, sizeof counts);
  void* arguments[] = {&by};
  if (cudaLaunchKernel((void*)add<int>, dim3(1), dim3(4), arguments, 0, 0)) return 3;
  scale<<<1, 2>>>(address);
  cudaLaunchKernel(add<int>, dim3(1), dim3(4), arguments);
  show(address);
  cudaMalloc(&shapes, 4 * sizeof(Shape*));
  cudaMalloc(&out, 16);
  make<<<1, 4>>>(shapes);
  measure<<<1, 4>>>(shapes, out);
  show(out);
  pairs<<<4, 1>>>(out);
  show(out);
  cudaGraph_t graph;
  cudaGraphExec_t work;
  cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal);
  pairs<<<4, 1>>>(out);
  cudaMemcpyAsync(out, out + 2, 8, cudaMemcpyDeviceToDevice);
  cudaStreamEndCapture(0, &graph);
  cudaMemset(out, 0, 16);
  show(out);
  if (cudaGraphInstantiate(&work, graph, nullptr, nullptr, 0) || cudaGraphLaunch(work, 0)) return 4;
  show(out);
  cudaFree(shapes);
  cudaFree(out);
}
"""

BLAS = """
#include <cstdio>
#include <cmath>
#include <vector>
#include <cublas_v2.h>
#include <curand.h>
int main() {
  const int m = 3, n = 2, k = 4;
  float a[m * k], b[k * n], c[m * n], *da, *db, *dc;
  for (int i = 0; i < m * k; i++) a[i] = i;
  for (int i = 0; i < k * n; i++) b[i] = i % 3;
  cudaMalloc(&da, sizeof a);
  cudaMalloc(&db, sizeof b);
  cudaMalloc(&dc, sizeof c);
  cublasHandle_t handle;
  cublasCreate(&handle);
  cublasSetMatrix(m, k, 4, a, m, da, m);
  cublasSetMatrix(k, n, 4, b, k, db, k);
  const float one = 1, zero = 0, two = 2;
  float r;
  if (cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, da, m, db, k, &zero, dc, m)) return 2;
  cublasGetMatrix(m, n, 4, dc, m, c, m);
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      float sum = 0;
      for (int p = 0; p < k; p++) sum += a[p * m + i] * b[j * k + p];
      if (sum != c[j * m + i]) return 3;
    }
  // the same product as the transpose of b' a', by batches of one
  cublasSgemmStridedBatched(handle, CUBLAS_OP_T, CUBLAS_OP_T, n, m, k, &one, db, k, 0, da, m, 0, &zero, dc, n, 0, 1);
  cublasGetMatrix(n, m, 4, dc, n, a, n);
  for (int j = 0; j < n; j++) for (int i = 0; i < m; i++) if (a[i * n + j] != c[j * m + i]) return 4;
  cublasSaxpy(handle, 6, &two, da, 1, dc, 1);
  cublasSdot(handle, 6, dc, 1, da, 1, &r);
  printf("%g ", r);
  cublasSgemv(handle, CUBLAS_OP_T, m, k, &one, da, m, dc, 1, &zero, db, 1);
  cublasSnrm2(handle, 4, db, 1, &r);
  int at;
  cublasIsamax(handle, 12, da, 1, &at);
  printf("%g %d\\n", r, at);
  curandGenerator_t g;
  curandCreateGenerator(&g, CURAND_RNG_PSEUDO_DEFAULT);
  curandSetPseudoRandomGeneratorSeed(g, 7);
  const int count = 20000;
  std::vector<float> y(count);
  float* x;
  cudaMalloc(&x, count * 4);
  for (int normal = 0; normal < 2; normal++) {
    if (normal ? curandGenerateNormal(g, x, count, 1, 2) : curandGenerateUniform(g, x, count)) return 5;
    cudaMemcpy(y.data(), x, count * 4, cudaMemcpyDeviceToHost);
    double sum = 0, squares = 0;
    for (float v : y) sum += v, squares += v * v;
    printf("%.1f %.1f ", sum / count, squares / count);
  }
  printf("%d %d\\n", cublasSscal(handle, 7, &two, dc, 1), cublasSscal(handle, 3, &two, c, 1));
}
"""

THRUST = """
#include <iostream>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <cub/cub.cuh>
__device__ float twice(float x) { return 2 * x; }
struct Twice { __device__ float operator()(float x) const { return twice(x); } };
__global__ void add(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }
__global__ void blocks(int* x, int* sorted, int* sum) {
  typedef cub::BlockReduce<int, 64> Reduce;
  typedef cub::BlockScan<int, 64> Scan;
  typedef cub::BlockRadixSort<int, 64, 2> Sort;
  typedef cub::WarpReduce<int> Warp;
  __shared__ typename Reduce::TempStorage reduce;
  __shared__ union { Scan::TempStorage scan; Sort::TempStorage sort; } both;
  __shared__ typename Warp::TempStorage warps[2];
  int items[2], keys[2];
  cub::BlockLoad<int, 64, 2>().Load(x, items);
  for (int i = 0; i < 2; i++) keys[i] = items[i] * 37 % 128;
  const int all = Reduce(reduce).Sum(items), part = Warp(warps[threadIdx.x / 32]).Sum(items[0]);
  if (threadIdx.x == 0) sum[0] = all, sum[1] = part;
  Scan(both.scan).ExclusiveSum(items, items);
  __syncthreads();
  cub::BlockStore<int, 64, 2>().Store(x, items);
  Sort(both.sort).Sort(keys);
  cub::BlockStore<int, 64, 2>().Store(sorted, keys);
}
__global__ void volume(int* out, cudaExtent size) {
  const std::tuple<int, int> both(size.width, size.depth);
  out[4] += std::get<0>(both) * std::get<1>(both);
}
__global__ void scan(int* out) {
  typedef cub::BlockScan<int, 64> Scan;
  typedef cub::WarpScan<int> Warp;
  typedef cub::BlockReduce<cub::KeyValuePair<int, float>, 64> Best;
  __shared__ typename Scan::TempStorage block;
  __shared__ typename Warp::TempStorage warps[2];
  __shared__ typename Best::TempStorage best;
  const int own = threadIdx.x % 5;
  int before, all, within, warp;
  Scan(block).ExclusiveSum(own, before, all);
  Warp(warps[threadIdx.x / 32]).ExclusiveSum(own, within);
  Warp(warps[threadIdx.x / 32]).InclusiveSum(own, warp, warp);
  const auto pair = Best(best).Reduce(cub::KeyValuePair<int, float>(threadIdx.x, own), cub::ArgMax());
  if (threadIdx.x == 0) out[4] = pair.key;
  if (threadIdx.x == 63) out[0] = before, out[1] = all, out[2] = within;
  __syncthreads();
  Scan(block).ExclusiveScan(own, before, 7, cub::Max(), all);
  if (threadIdx.x == 63) out[3] = before;
}
int main() {
  thrust::host_vector<int> h(100);
  for (int i = 0; i < 100; i++) h[i] = i * 37 % 101;
  thrust::device_vector<int> d = h;
  thrust::sort(d.begin(), d.end());
  thrust::copy(d.begin(), d.end(), h.begin());
  std::cout << std::is_sorted(h.begin(), h.end()) << ' ' << thrust::reduce(d.begin(), d.end()) << ' ';
  thrust::device_vector<float> x(5), y(5, 2.0f);
  thrust::sequence(x.begin(), x.end());
  thrust::transform(thrust::device, x.begin(), x.end(), y.begin(), Twice());
  add<<<1, 32>>>(thrust::raw_pointer_cast(y.data()), 5);
  thrust::inclusive_scan(y.begin(), y.end(), y.begin());
  auto both = thrust::make_zip_iterator(thrust::make_tuple(x.begin(), y.begin()));
  thrust::for_each(both, both + 5, [] __device__(auto t) { thrust::get<0>(t) += thrust::get<1>(t); });
  std::cout << y[4] << ' ' << x[4] << ' ' << thrust::max_element(x.begin(), x.end()) - x.begin() << '\\n';
  thrust::device_vector<int> values(128), sorted(128), sums(3);
  thrust::sequence(values.begin(), values.end());
  int *in = thrust::raw_pointer_cast(values.data()), *out = thrust::raw_pointer_cast(sorted.data());
  blocks<<<1, 64>>>(in, out, thrust::raw_pointer_cast(sums.data()));
  std::cout << sums[0] << ' ' << sums[1] << ' ' << values[127] << ' ';
  std::cout << std::is_sorted(sorted.begin(), sorted.end(), [](int a, int b) { return a < b; }) << ' ';
  size_t bytes = 0;
  cub::DeviceReduce::Max(nullptr, bytes, out, &sums[2], 128);
  thrust::device_vector<char> storage(bytes);
  cub::DeviceReduce::Max(thrust::raw_pointer_cast(storage.data()), bytes, out, &sums[2], 128);
  std::cout << sums[2] << '\\n';
  thrust::device_vector<int> scanned(5);
  int* to = thrust::raw_pointer_cast(scanned.data());
  scan<<<1, 64>>>(to);
  volume<<<1, 1>>>(to, make_cudaExtent(2, 1, 3));
  for (int i = 0; i < 5; i++) std::cout << scanned[i] << ' ';
}
"""


@pytest.fixture
def run(tmp_path):
    def run(text, *options):
        path = tmp_path / "program.cu"
        path.write_text(text)
        return command("run", str(path), *options, "--device", "cpu")

    return run


def test_textures_and_surfaces(run):
    done = run(TEXTURES, "--check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "0 0 1 2 3 4 5 6 7 8 9 10 ",
        "0.5 1.5 2.5 1.5 4.5 5.5 6.5 5.5 8.5 9.5 10.5 9.5 ",
        "5 6 7 8 4 5 6 7 8 9 10 11 ",
        "7 0 0 0 0 0.2 1 1 1 1 0 0 ",
    ]


def test_kernels_and_variables_by_address_and_virtual_functions(run):
    done = run(BY_ADDRESS, "--check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "33 33 6 6 0 1 4 9 0 1 2 3 0 0 0 0 2 3 2 3 ", "")


def test_cublas_and_curand(run):
    done = run(BLAS)
    assert done.stdout == "417 707.732 12\n0.5 0.3 1.0 5.0 13 13\n" and done.returncode == 1
    assert "OutOfBounds: cublasSscal: 28 bytes exceed the block (device memory of 24 bytes" in done.stderr
    assert "InvalidCopy: cublasSscal: the address" in done.stderr and "is not in device memory" in done.stderr


def test_thrust_and_cub(run):
    done = run(THRUST, "--check")
    assert (done.returncode, done.stderr) == (0, "")
    values = [i % 5 for i in range(64)]
    scans = f"{sum(values[:63])} {sum(values)} {sum(values[32:63])} 7 10 "  # exclusive, with an aggregate, of a warp
    assert done.stdout == f"1 4986 25 29 4\n8128 992 8001 1 127\n{scans}"


@FULL
def test_headers_of_nvidias_samples_that_a_program_expects(run):
    done = run(
        "#include <cstdio>\n#include <helper_cuda.h>\n#include <helper_functions.h>\n#include <helper_math.h>\n"
        "__global__ void k(float* x) { x[threadIdx.x] = threadIdx.x; }\n"
        "int main(int argc, char** argv) {\n  findCudaDevice(argc, (const char**)argv);\n"
        "  StopWatchInterface* timer;\n  sdkCreateTimer(&timer);\n  sdkStartTimer(&timer);\n"
        "  float *x, h[4], r[4] = {0, 1, 2, 3};\n  checkCudaErrors(cudaMalloc(&x, sizeof h));\n"
        '  k<<<1, 4>>>(x);\n  getLastCudaError("k");\n'
        "  checkCudaErrors(cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost));\n"
        '  printf("%d %d", sdkCompareL2fe(r, h, 4, 1e-6f), sdkGetTimerValue(&timer) > 0);\n'
        '  printf(" %g", dot(make_float3(1, 2, 3), 2 * make_float3(1)));\n'
        "  checkCudaErrors(cudaMemcpy(h, x, 32, cudaMemcpyDeviceToHost));\n}\n"
    )
    assert done.returncode == 1 and done.stdout.endswith("\n\n1 1 12")
    assert "OutOfBounds: cudaMemcpy" in done.stderr and "code=1(cudaErrorInvalidValue)" in done.stderr


@FULL
def test_a_race_on_temporary_storage_is_found(run):
    done = run(THRUST.replace("  __syncthreads();\n", ""))
    assert done.returncode == 1 and "DataRace: blocks: shared both" in done.stderr


@pytest.mark.parametrize(
    "text, part",
    [
        ("#include <cublas_v2.h>\nint main() {\n  cublasStrsm();\n}", "program.cu:3: cublasStrsm has no CPU version"),
        pytest.param(
            "int main() {\n  cudaDeviceSyncronize();\n}",
            "program.cu:2: cudaDeviceSyncronize has no CPU version (docs/programs.md lists the calls that have one): "
            "did you mean cudaDeviceSynchronize?",
            marks=FULL,
        ),
        (
            "#include <cuda/mdspan>\nint main() {}",
            "program.cu:1: #include <cuda/mdspan>: this header of the CUDA toolkit has no CPU version",
        ),
        pytest.param(
            "#include <thrust/sort.h>\nint main() {\n  thrust::shuffle(1);\n}",
            "program.cu:3: thrust::shuffle has no CPU version",
            marks=FULL,
        ),
        pytest.param(
            "#include <cub/cub.cuh>\n__global__ void k() {\n  typedef cub::BlockExchange<int, 32> X;\n}\n"
            "int main() { k<<<1, 32>>>(); }",
            "program.cu:3: kernel k uses BlockExchange",
            marks=FULL,
        ),
        pytest.param("texture<float> t;\nint main() {}", "program.cu:1: texture references", marks=FULL),
    ],
)
def test_a_call_without_a_cpu_version_is_named(run, text, part):
    done = run(text)
    assert done.returncode == 2 and part in done.stderr, done.stderr
