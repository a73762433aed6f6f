"""A user's kernel with sm90/gemm.cuh and an epilogue: a function of the sums before they are rounded, on an emulated
GPU."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda
from warpwise.gemm.config import GemmConfig

SOURCE = """
#include <cuda_bf16.h>
#include <warpwise/sm90/gemm_store.cuh>

using namespace warpwise::sm90;
using P = GemmConfig<__nv_bfloat16, 64, 128, 1, 2, 3, CM, 1, false, true>;  // A row-major, B row-major

struct Clamp {  // and adds the column to the first row
  float low, high;
  __device__ void operator()(float& left, float& right, int row, int column) const {
    left = fminf(fmaxf(left, low), high) + (row == 0 ? column : 0);
    right = fminf(fmaxf(right, low), high) + (row == 0 ? column + 1 : 0);
  }
};

__global__ void __launch_bounds__(P::threads, 1) __cluster_dims__(P::cluster, 1, 1)
    clamped_matmul(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                   const __grid_constant__ TensorMap c, float low, float high, int k_tiles, int rows, int columns) {
  extern __shared__ unsigned char raw[];
  const GemmStorage<P> storage(raw);
  gemm<P>(storage, Matrix{&a}, Matrix{&b}, PersistentTiles<P>{{{rows, columns, 2}, k_tiles}},
          OverlappedStore<P, BoxStore, Clamp>(storage, {&c}, {low, high}));
}
"""


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("m,n,k", [(200, 264, 200), (64, 8, 8)])
def test_a_function_of_the_sums(m, n, k, cluster):
    """One cluster computes all tiles, so that each is stored during the main loop of the next one."""
    config = GemmConfig(64, 128, 64, 3, (), (cluster, 1))
    a, b = (torch.randint(-3, 4, shape).bfloat16() for shape in ((m, k), (k, n)))
    c = torch.full((m, n), float("nan"), dtype=a.dtype)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (a, b, c)]
    kernel = cuda.load(SOURCE.replace("CM", str(cluster)))["clamped_matmul"]
    kernel[config.launch(1)](*maps, -20.0, 30.0, -(-k // 64), *config.tiles(m, n))
    truth = (a.float() @ b.float()).clamp(-20, 30)
    truth[0] += torch.arange(n)
    assert torch.equal(c, truth.bfloat16())
