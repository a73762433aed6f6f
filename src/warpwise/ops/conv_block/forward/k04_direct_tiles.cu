// The convolution by direct sums from tiles in shared memory; a warp writes the statistics of its part of a tile.
//
// The matrix product of k03 gathers each pixel nine times per block, with integer divisions. A tile here holds a band
// of rows of an image with its border once. A thread multiplies 4 or 8 filters by 4 pixels for each of the nine taps.

#include <warpwise/core/conv3x3.cuh>
#include <warpwise/core/previous_kernel.cuh>

// Sums eight values of each lane over the warp: lane l gets the sum of value l / 4. This takes nine shuffles, where
// eight butterfly reductions take 40: in each of the first three steps, a lane sends its partner half of its values.
__device__ inline float reduce_eight(float (&values)[8]) {
#pragma unroll
  for (int width = 4; width > 0; width /= 2) {
    const bool upper = threadIdx.x & (4 * width);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const float passed = upper ? values[i] : values[width + i], kept = upper ? values[width + i] : values[i];
      values[i] = kept + __shfl_xor_sync(warpwise::kFullMask, passed, 4 * width);
    }
  }
  return warpwise::warp_reduce<warpwise::Sum, 4>(values[0]);
}

// y: (n, k, h, w) = x: (n, c, h, w) convolved with f: (k, c, 3, 3), padded by 1. partials: (k, parts, 3): the sum of a
// warp's pixels, of their squared distances from their mean, and their number. Grid: tiles of EACH * GROUPS filters, of
// columns, of `rows` rows, and images.
template <int GROUPS, int EACH>
__global__ void __launch_bounds__(warpwise::kConvThreads, EACH == 8 ? 2 : 4) convolution_with_statistics(
    const float* x, const float* f, float* y, float* partials, int parts, int c, int h, int w, int k, int rows,
    int strips) {
  warpwise::wait_for_previous_kernel();
  constexpr int kWarps = warpwise::ConvTile<GROUPS, EACH>::kPlaces / warpwise::kWarp;
  extern __shared__ __align__(16) float shared[];
  const warpwise::ConvTile<GROUPS, EACH> tile(blockIdx.x, k, h, w, rows, strips);
  float sums[EACH][4] = {};
  warpwise::conv3x3_sums(shared, tile, sums, x, f, c, h, w, k, rows, strips);

  // Sums of v - o and of its square, o a pixel of the warp, so that squares - sum^2 / count has little cancellation.
  const int valid = tile.valid(h, w), lane = threadIdx.x % warpwise::kWarp;
  const unsigned with_pixels = __ballot_sync(warpwise::kFullMask, valid > 0);
  const float count = warpwise::warp_reduce<warpwise::Sum>(static_cast<float>(valid));
  int rest = blockIdx.x;
  warpwise::conv_digit(rest, warpwise::conv_tiles(k, EACH * GROUPS));
  const int part = rest * kWarps + threadIdx.x % (kWarps * warpwise::kWarp) / warpwise::kWarp;
#pragma unroll
  for (int first = 0; first < EACH; first += 4) {
    float both[8], origin = 0.0f;  // of four filters: sums, then squares; the origin of filter lane / 4 % 4
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float (&row)[4] = sums[first + i];
      const float pixel = __shfl_sync(warpwise::kFullMask, row[0], with_pixels ? __ffs(with_pixels) - 1 : 0);
      origin = lane / 4 % 4 == i ? pixel : origin;
      both[i] = both[4 + i] = 0.0f;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float shifted = j < valid ? row[j] - pixel : 0.0f;
        both[i] += shifted;
        both[4 + i] += shifted * shifted;
      }
    }
    const float total = reduce_eight(both);
    const float sum = __shfl_xor_sync(warpwise::kFullMask, total, 16);  // for lanes 16 to 31, which have squares
    const int filter = tile.first + EACH * tile.group + first + lane / 4 % 4;
    if (lane >= 16 && lane % 4 == 0 && filter < k) {
      float* const to = partials + 3 * (filter * parts + part);
      const float squares = total - sum * sum / fmaxf(count, 1.0f);
      to[0] = sum + count * origin;
      to[1] = squares < 0.0f ? 0.0f : squares;  // NaN is kept
      to[2] = count;
    }
  }
  tile.store(shared, sums, y, k, h, w, rows, strips);
}

constexpr int kThreads = 1024;

// mean, var: (k) from partials: (k, parts, 3): M2 = sum(M2_p + n_p (m_p - m)^2). Grid: k blocks.
__global__ void __launch_bounds__(kThreads) combined_statistics(const float* partials, float* mean, float* var,
                                                                int parts, int elements) {
  warpwise::wait_for_previous_kernel();
  __shared__ float warp_values[warpwise::kWarp];
  partials += 3ll * blockIdx.x * parts;
  float sum = 0.0f, squares = 0.0f;
#pragma unroll 4
  for (int p = threadIdx.x; p < parts; p += kThreads) sum += partials[3 * p];
  const float count = static_cast<float>(elements);
  const float m = warpwise::block_reduce<warpwise::Sum, kThreads>(sum, warp_values) / count;
#pragma unroll 4
  for (int p = threadIdx.x; p < parts; p += kThreads) {
    const float size = partials[3 * p + 2], distance = partials[3 * p] / fmaxf(size, 1.0f) - m;
    squares += partials[3 * p + 1] + size * distance * distance;
  }
  squares = warpwise::block_reduce<warpwise::Sum, kThreads>(squares, warp_values);
  if (threadIdx.x > 0) return;
  mean[blockIdx.x] = m;
  var[blockIdx.x] = squares / count;
}
