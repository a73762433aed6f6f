"""A matrix multiplication with a custom epilogue, c = clamp(a b, low, high), run on a GPU or checked on a CPU.

python examples/gemm_epilogue.py
"""

import torch

import warpwise as ww

SOURCE = """
#include <warpwise/sm80/gemm_split_k.cuh>

struct ClampedStore {  // four adjacent sums of a row of C, of which `left` columns exist
  float *c, low, high;
  int n;
  __device__ void operator()(const float (&sum)[4], int row, int column, int left) const {
    float clamped[4];
    for (int e = 0; e < 4; ++e) clamped[e] = fminf(fmaxf(sum[e], low), high);
    warpwise::store4<false>(c + static_cast<long long>(row) * n + column, clamped, left);
  }
};

// A tile of 32 x 64, a k-tile of 32; warps of 16 x 32; four stages; a row-major, b row-major, 4 bytes per copy.
using Loop = warpwise::gemm::SimtMainLoop<32, 64, 32, 16, 32, 4, true, false, 4, 4>;

__global__ void __launch_bounds__(Loop::kThreads)
    clamped_matmul(const float* a, const float* b, float* c, float low, float high, int m, int n, int k) {
  warpwise::gemm::gemm_split_k<Loop, 1>(a, k, b, n, m, n, k, (m + 31) / 32, ClampedStore{c, low, high, n});
}
"""


def clamped_matmul(a: torch.Tensor, b: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """clamp(a b) of float32 matrices a (m, k) and b (k, n), both contiguous."""
    (m, k), n = a.shape, b.shape[1]
    c = a.new_empty(m, n)
    kernel = ww.cuda.load(SOURCE)["clamped_matmul"]
    blocks, stages = -(-m // 32) * -(-n // 64), 4 * 32 * (32 + 4 + 64 + 4) * 4
    kernel[blocks, 128, stages](a, b, ww.cuda.out(c), low, high, m, n, k)
    return c


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = torch.randn(50, 70, device=device), torch.randn(70, 90, device=device)
    torch.testing.assert_close(clamped_matmul(a, b, -1.0, 2.0), (a @ b).clamp(-1.0, 2.0))
    print(f"clamp(a b) is right on {device}")
