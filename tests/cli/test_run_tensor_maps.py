"""``warpwise run`` of programs that make tensor maps in host code: copies by TMA, invalid maps, clusters."""

from __future__ import annotations

import pytest
from tests.commands import command

PROGRAM = """
#include <cudaTypedefs.h>
#include <cuda/barrier>
#include <cstdio>
#include <vector>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace cde = cuda::device::experimental;
constexpr int kRows = 32, kColumns = 64, kTile = 8 * 16;

__device__ void copy_tile(const CUtensorMap* map, float* out) {
  __shared__ alignas(128) float tile[kTile];
  __shared__ barrier bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_global_to_shared(tile, map, 16, 8 * blockIdx.x, bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile);
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  unsigned blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  out[blockIdx.x * kTile + threadIdx.x] = tile[threadIdx.x] * blocks;
}
__global__ void by_value(const __grid_constant__ CUtensorMap map, float* out) { copy_tile(&map, out); }
__global__ void by_pointer(const CUtensorMap* map, float* out) { copy_tile(map, out); }

static int wrong(const float* out, int factor) {
  std::vector<float> got(4 * kTile);
  if (cudaDeviceSynchronize()) return 1;
  cudaMemcpy(got.data(), out, got.size() * sizeof(float), cudaMemcpyDeviceToHost);
  for (int i = 0; i < 4 * kTile; i++)
    if (got[i] != factor * (i / 16 * kColumns + 16 + i % 16)) return 1;
  return 0;
}
int main() {
  std::vector<float> host(kRows * kColumns);
  for (size_t i = 0; i < host.size(); i++) host[i] = i;
  float *x, *out;
  cudaMalloc(&x, host.size() * sizeof(float));
  cudaMalloc(&out, 4 * kTile * sizeof(float));
  cudaMemcpy(x, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &status);
  CUtensorMap map;
  cuuint64_t size[2] = {kColumns, kRows}, stride[1] = {kColumns * sizeof(float)};
  cuuint32_t box[2] = {16, 8}, steps[2] = {1, 1};
  const CUresult result = reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, size, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) return result == CUDA_ERROR_INVALID_VALUE ? 3 : 4;
  CUtensorMap* on_device;
  cudaMalloc(&on_device, sizeof map);
  cudaMemcpy(on_device, &map, sizeof map, cudaMemcpyHostToDevice);
  by_pointer<<<4, kTile>>>(on_device, out);
  if (wrong(out, 1)) return 5;
  cudaLaunchConfig_t config = {};
  config.gridDim = 4;
  config.blockDim = kTile;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {2, 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  if (cudaLaunchKernelEx(&config, by_value, map, out) || wrong(out, 2)) return 6;

  size[1] = 20, box[1] = 16, steps[1] = 2;  // every second of 16 rows; NaN from row 20 on
  if (reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(found)(
          &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, size, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
          CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
          CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA))
    return 7;
  by_value<<<4, kTile>>>(map, out);
  std::vector<float> got(4 * kTile);
  cudaMemcpy(got.data(), out, got.size() * sizeof(float), cudaMemcpyDeviceToHost);
  for (int i = 0; i < 4 * kTile; i++) {
    const int row = i / kTile * 8 + i % kTile / 16 * 2;
    if (row < 20 ? got[i] != row * kColumns + 16 + i % 16 : got[i] == got[i]) return 8;
  }
  puts("PASS");
}
"""


@pytest.fixture
def run(tmp_path):
    def run(text):
        path = tmp_path / "program.cu"
        path.write_text(text)
        return command("run", str(path), "--device", "cpu")

    return run


def test_a_map_by_pointer_and_a_map_by_value_in_clusters(run):
    done = run(PROGRAM)
    assert (done.returncode, done.stdout, done.stderr) == (0, "PASS\n", "")


@pytest.mark.parametrize(
    "old, new, status, message",
    [
        ("stride[1] = {kColumns * sizeof(float)}", "stride[1] = {100}", 3, "globalStrides[0] is 100 bytes"),
        ("by_pointer<<<4, kTile>>>(on_device", "by_pointer<<<4, kTile>>>(&map", 5, "a tensor map in host memory"),
    ],
)
def test_a_map_that_is_not_valid(run, old, new, status, message):
    assert old in PROGRAM
    done = run(PROGRAM.replace(old, new))
    assert done.returncode == status
    assert "program.cu:" in done.stderr
    assert "InvalidTensorMap" in done.stderr and message in done.stderr
