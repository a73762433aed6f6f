"""Thrust's copies to iterators of the C++ library, and pairs of CUB, in host code and in kernels; CUB's allocator."""

from __future__ import annotations

from tests.commands import command

ITERATORS_AND_PAIRS = """
#include <cub/cub.cuh>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <iostream>
#include <iterator>
#include <list>
#include <vector>
struct Closer {
  __host__ __device__ cub::KeyValuePair<int, float> operator()(const cub::KeyValuePair<int, float>& a,
                                                               const cub::KeyValuePair<int, float>& b) const {
    return b.value * b.value < a.value * a.value ? b : a;
  }
};
__global__ void closest(const float* in, int* out) {
  typedef cub::BlockReduce<cub::KeyValuePair<int, float>, 32> Reduce;
  __shared__ typename Reduce::TempStorage storage;
  const auto pair = Reduce(storage).Reduce(cub::KeyValuePair<int, float>(threadIdx.x, in[threadIdx.x]), Closer());
  if (threadIdx.x == 0) *out = pair.key;
}
int main() {
  thrust::device_vector<float> x(32);
  for (int i = 0; i < 32; i++) x[i] = 20.5f - i;
  thrust::copy(x.begin(), x.begin() + 3, std::ostream_iterator<float>(std::cout, ","));
  std::vector<float> kept;
  thrust::copy(x.begin() + 30, x.end(), std::back_inserter(kept));
  const std::list<float> zeros(2, 0.0f);
  thrust::copy(zeros.begin(), zeros.end(), x.begin());
  std::cout << kept.size() << ' ' << kept[1] << ' ' << x[1] << ' ' << x[2] << '\\n';
  thrust::device_vector<int> index(1);
  x[0] = x[1] = 3;
  closest<<<1, 32>>>(thrust::raw_pointer_cast(x.data()), thrust::raw_pointer_cast(index.data()));
  size_t bytes = 0;
  const float* in = thrust::raw_pointer_cast(x.data());
  cub::KeyValuePair<int, float>*best, host;
  cudaMalloc(&best, sizeof host);
  cub::DeviceReduce::ArgMin(nullptr, bytes, in, best, 32);
  thrust::device_vector<char> storage(bytes);
  cub::DeviceReduce::ArgMin(thrust::raw_pointer_cast(storage.data()), bytes, in, best, 32);
  cudaMemcpy(&host, best, sizeof host, cudaMemcpyDeviceToHost);
  cudaFree(best);
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  std::cout << index[0] << ' ' << host.key << ' ' << host.value << ' ' << device.memoryPoolsSupported << '\\n';
}
"""


def test_iterators_that_print_and_append_and_pairs_of_cub(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text(ITERATORS_AND_PAIRS)
    done = command("run", str(path), "--check", "--device", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "20.5,19.5,18.5,2 -10.5 0 18.5\n20 31 -10.5 1\n"


UNIQUE = """
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/unique.h>
#include <cstdio>
struct SameTens {
  __host__ __device__ bool operator()(int a, int b) const { return a / 10 == b / 10; }
};
int main() {
  const int keys[] = {11, 11, 12, 30, 30, 11}, values[] = {1, 2, 3, 4, 5, 6};
  thrust::device_vector<int> k(keys, keys + 6), v(values, values + 6), ko(6), vo(6);
  auto ends = thrust::unique_by_key_copy(k.begin(), k.end(), v.begin(), ko.begin(), vo.begin());
  for (int i = 0; i < ends.first - ko.begin(); i++) printf("%d:%d ", int(ko[i]), int(vo[i]));
  ends = thrust::unique_by_key_copy(thrust::device, k.begin(), k.end(), v.begin(), ko.begin(), vo.begin(), SameTens());
  for (int i = 0; i < ends.second - vo.begin(); i++) printf("%d:%d ", int(ko[i]), int(vo[i]));
  printf("%d\\n", int(thrust::unique(k.begin(), k.end(), SameTens()) - k.begin()));
}
"""


def test_unique_keys_with_and_without_a_predicate(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text(UNIQUE)
    done = command("run", str(path), "--device", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "11:1 12:3 30:4 11:6 11:1 30:4 11:6 3\n"


ALLOCATOR = """
#include <cub/util_allocator.cuh>
#include <cub/cub.cuh>
#include <cstdio>
cub::CachingDeviceAllocator pool(true);
__global__ void descend(int* x) { x[threadIdx.x] = (31 - threadIdx.x) / 2; }
int main() {
  int *x, *y, host[32];
  void* storage = nullptr;
  size_t bytes = 0;
  std::map<int, int> counts;  // cub/cub.cuh includes <map> and <set>
  CubDebugExit(pool.DeviceAllocate((void**)&x, sizeof host));
  CubDebugExit(pool.DeviceAllocate((void**)&y, sizeof host));
  descend<<<1, 32>>>(x);
  CubDebugExit(cub::DeviceRadixSort::SortKeys(storage, bytes, x, y, 32));
  CubDebugExit(pool.DeviceAllocate(&storage, bytes));
  CubDebugExit(cub::DeviceRadixSort::SortKeys(storage, bytes, x, y, 32));
  cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
  for (int each : host) counts[each]++;
  printf("%d %d %zu\\n", host[0], host[31], counts.size());
  for (void* each : {storage, (void*)x, (void*)y}) CubDebugExit(pool.DeviceFree(each));
  printf("%d\\n", CubDebug(cudaMalloc(&x, size_t(1) << 60)) != cudaSuccess);
}
"""


def test_the_allocator_and_the_macros_of_cub(tmp_path):
    path = tmp_path / "program.cu"
    path.write_text(ALLOCATOR)
    done = command("run", str(path), "--check", "--device", "cpu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 15 16\n1\n", "")
