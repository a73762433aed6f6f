// Filters of 3 x 3 with padding 1: both gradients by direct sums from tiles in shared memory, in one launch.
//
// The matrix products of k02 gather each element of dy and x nine times, with integer divisions for each. A tile here
// holds a band of rows of an image with its border once. A second launch adds the parts of dw.

#include <warpwise/core/conv3x3.cuh>
#include <warpwise/core/conv3x3_weights.cuh>

// dy: (planes, h, w) as a Source of conv3x3.cuh. PAIRS: w is even, and dy is 8-byte aligned.
template <bool PAIRS>
struct GradOutput {
  static constexpr bool kBias = true;
  struct Channel {};
  struct Raw {
    float dy[4];
  };
  const float* dy;
  int h, w;

  __device__ void prepare(Channel*, int, int, bool) const {}
  __device__ Raw load(int plane, int r, int c) const {
    Raw raw = {};
    const int row = 2 * r, column = 2 * c;
    if (row >= h || column >= w) return raw;
    warpwise::conv_read_window<PAIRS>(raw.dy, dy + (plane * h + row) * w + column, row, column, h, w);
    return raw;
  }
  __device__ void finish(const Channel&, const Raw& raw, int, int, float (&d)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) d[e] = raw.dy[e];
  }
};

// The parameters are those of warpwise::conv3x3_gradients. `biases` may be null.
template <int CHANNELS, int FILTERS, int EACH, bool PAIRS>
__global__ void __launch_bounds__(warpwise::kConvThreads, 2) conv2d_gradients(
    const float* dy, const float* x, const float* f, float* dx, float* partials, float* biases, int n, int c, int h,
    int w, int k, int weight_blocks, int share, int weight_rows, int weight_strips, int input_rows, int input_strips,
    int input_splits, int input_share) {
  extern __shared__ __align__(16) float shared[];
  const GradOutput<PAIRS> source{dy, h, w};
  warpwise::conv3x3_gradients<CHANNELS, FILTERS, EACH, true>(shared, source, x, f, dx, partials, biases, n, c, h, w, k,
                                                             weight_blocks, share, weight_rows, weight_strips,
                                                             input_rows, input_strips, input_splits, input_share);
}
