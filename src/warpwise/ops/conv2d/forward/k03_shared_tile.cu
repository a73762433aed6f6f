// The filters and a tile of the image in shared memory, FILTERS outputs per thread: each loaded pixel is used FILTERS
// times from a register, and each filter element by all threads of the block by a broadcast.
//
// k01 loads two operands from L1 for each multiplication; here it is 1 + 1 / FILTERS from shared memory, one of them
// 16 bytes for four filters.

#include <warpwise/core/pack.cuh>

constexpr int kTile = 16;       // edge of the output's tile: one element per thread
constexpr int kMostWindow = 7;  // largest edge of a filter
constexpr int kSide = kTile + kMostWindow - 1;

// x: (n, c, h, w), f: (k, c, r, s), bias: (k) or null, y: (n, k, p, q); stride and dilation 1, one group, r and s up to
// kMostWindow. Grid: (cdiv(q, kTile) * cdiv(p, kTile), cdiv(k, FILTERS), n); block: (kTile, kTile).
template <int FILTERS>
__global__ void __launch_bounds__(kTile* kTile) conv2d_shared_tile(const float* x, const float* f, const float* bias,
                                                                   float* y, int n, int c, int h, int w, int k, int r,
                                                                   int s, int p, int q, int pad_h, int pad_w) {
  static_assert(FILTERS % 4 == 0, "filters are read from shared memory in vectors of four");
  __shared__ float pixels[kSide][kSide + 1];
  __shared__ __align__(16) float filters[kMostWindow * kMostWindow][FILTERS];
  const int tiles = (q + kTile - 1) / kTile, thread = threadIdx.y * kTile + threadIdx.x;
  const int row = blockIdx.x / tiles * kTile, column = blockIdx.x % tiles * kTile, first = blockIdx.y * FILTERS;
  const int height = kTile + r - 1, width = kTile + s - 1;
  float sums[FILTERS] = {};
  for (long long image = blockIdx.z; image < n; image += gridDim.z) {
#pragma unroll
    for (int e = 0; e < FILTERS; ++e) sums[e] = 0.0f;
    for (int channel = 0; channel < c; ++channel) {
      const float* const plane = x + (image * c + channel) * h * w;
      __syncthreads();  // the reads of the previous channel are complete
      for (int e = thread; e < height * width; e += kTile * kTile) {
        const int at_h = row + e / width - pad_h, at_w = column + e % width - pad_w;
        const bool inside = at_h >= 0 && at_h < h && at_w >= 0 && at_w < w;
        pixels[e / width][e % width] = inside ? plane[at_h * w + at_w] : 0.0f;
      }
      for (int e = thread; e < r * s * FILTERS; e += kTile * kTile) {
        const int filter = first + e % FILTERS;
        filters[e / FILTERS][e % FILTERS] =
            filter < k ? f[(static_cast<long long>(filter) * c + channel) * r * s + e / FILTERS] : 0.0f;
      }
      __syncthreads();
      for (int dy = 0; dy < r; ++dy) {
        for (int dx = 0; dx < s; ++dx) {
          const float pixel = pixels[threadIdx.y + dy][threadIdx.x + dx];
          const auto* const from = warpwise::packs(&filters[dy * s + dx][0]);
#pragma unroll
          for (int four = 0; four < FILTERS / 4; ++four) {
            const auto values = from[four];
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[4 * four + e] += pixel * values.at[e];
          }
        }
      }
    }
    const int at_p = row + threadIdx.y, at_q = column + threadIdx.x;
    if (at_p >= p || at_q >= q) continue;
#pragma unroll
    for (int e = 0; e < FILTERS; ++e) {
      if (first + e < k) {
        y[((image * k + first + e) * p + at_p) * q + at_q] = sums[e] + (bias ? bias[first + e] : 0.0f);
      }
    }
  }
}
