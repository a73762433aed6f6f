// Filters of 3 x 3 with padding 1: direct sums from tiles in shared memory, 4 or 8 filters and 4 pixels per thread.
//
// k03 computes one pixel per thread, so it loads filters once per 4 multiplications, and small images do not fill its
// tiles of 16 x 16. k04 gathers each pixel nine times per block, with integer divisions.

#include <warpwise/core/conv3x3.cuh>

// y: (n, k, h, w) = x: (n, c, h, w) convolved with f: (k, c, 3, 3), padded by 1, plus bias: (k) or null. Grid: tiles of
// EACH * GROUPS filters, of columns, of `rows` rows, and images.
template <int GROUPS, int EACH>
__global__ void __launch_bounds__(warpwise::kConvThreads, EACH == 8 ? 2 : 4) conv2d_direct(
    const float* x, const float* f, const float* bias, float* y, int c, int h, int w, int k, int rows, int strips) {
  extern __shared__ __align__(16) float shared[];
  const warpwise::ConvTile<GROUPS, EACH> tile(blockIdx.x, k, h, w, rows, strips);
  float sums[EACH][4] = {};
  warpwise::conv3x3_sums(shared, tile, sums, x, f, c, h, w, k, rows, strips);
  const int first = tile.first + EACH * tile.group;
#pragma unroll
  for (int i = 0; i < EACH; ++i) {
    const float shift = bias && first + i < k ? bias[first + i] : 0.0f;
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[i][j] += shift;
  }
  tile.store(shared, sums, y, k, h, w, rows, strips);
}
