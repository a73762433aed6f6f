// Filters (k, c r s) times a matrix of image patches (c r s, n p q) that is never stored: a tile of outputs per block.
//
// A thread multiplies TM filters by TN pixels from registers: 2 TM TN FLOPs for TM + TN loads from shared memory. The
// tile has 16, 32 or 64 rows, since small networks have 16 or 32 filters. Adjacent threads load adjacent pixels.

#include <warpwise/core/implicit_gemm.cuh>

// x: (n, c, h, w), f: (k, c / groups, r, s), bias: (k) or null, y: (n, k, p, q). Grid: (cdiv(n p q, kColumns),
// cdiv(k / groups, ROWS), groups). SIDE: r and s, or 0 for any.
template <int ROWS, int TM, int TN, int SIDE>
__global__ void __launch_bounds__(warpwise::kGemmThreads) conv2d_implicit_gemm(
    const float* x, const float* f, const float* bias, float* y, int n, int c, int h, int w, int k, int r, int s, int p,
    int q, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups) {
  if (SIDE > 0) r = s = SIDE;  // a compile-time constant: divisions by it become multiplications
  const int channels = c / groups, filters = k / groups, window = r * s, depth = channels * window, pixels = p * q;
  const int group = blockIdx.z, first = blockIdx.y * ROWS;
  const int mine = blockIdx.x * warpwise::kColumns + threadIdx.x, image = mine / pixels, pixel = mine - image * pixels;
  const int row = pixel / q * stride_h - pad_h, column = pixel % q * stride_w - pad_w;
  const bool inside = image < n;
  const float* const from = x + (static_cast<long long>(inside ? image : 0) * c + group * channels) * h * w;
  f += static_cast<long long>(group * filters) * depth;

  float sums[TM][TN] = {};
  warpwise::implicit_gemm<ROWS>(
      sums, 0, depth, [&](int i, int d) { return first + i < filters ? f[(first + i) * depth + d] : 0.0f; },
      [&](int d) {
        const int channel = d / window, dy = (d - channel * window) / s, dx = d - channel * window - dy * s;
        const int at_h = row + dy * dilation_h, at_w = column + dx * dilation_w;
        const bool valid = inside && at_h >= 0 && at_h < h && at_w >= 0 && at_w < w;
        return valid ? from[(channel * h + at_h) * w + at_w] : 0.0f;
      });

  const int top = first + threadIdx.x / (warpwise::kColumns / TN) * TM;
  const int left = blockIdx.x * warpwise::kColumns + warpwise::gemm_column<TN>();
  warpwise::store_planes(sums, y, top, filters, left, n, k, group * filters, pixels, bias);
}
