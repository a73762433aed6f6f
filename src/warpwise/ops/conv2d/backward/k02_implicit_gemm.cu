// Both gradients as implicit GEMMs, whose operands are gathered while loading; blocks divide the sums over pixels.
//
// dx: (c, n h w) = filters transposed (c, k r s) times patches of dy. df: (k, c r s + 1) = dy (k, n p q) times patches
// of x transposed; its last column, whose patches are ones, is db. c r s is small and n p q large, so blocks divide the
// sum over n p q, and a second kernel adds the partial sums in a fixed order.

#include <warpwise/core/implicit_gemm.cuh>

// dy: (n, k, p, q), f: (k, c / groups, r, s), dx: (n, c, h, w). Grid: (cdiv(n h w, kColumns), cdiv(c / groups, ROWS),
// groups). COMMON: filters of 3 x 3, stride and dilation 1.
template <int ROWS, int TM, int TN, bool COMMON>
__global__ void __launch_bounds__(warpwise::kGemmThreads) conv2d_grad_input_gemm(
    const float* dy, const float* f, float* dx, int n, int c, int h, int w, int k, int r, int s, int p, int q,
    int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups) {
  if (COMMON) {  // compile-time constants: divisions by them become multiplications
    r = s = 3;
    stride_h = stride_w = dilation_h = dilation_w = 1;
  }
  const int channels = c / groups, filters = k / groups, window = r * s, pixels = h * w;
  const int group = blockIdx.z, first = blockIdx.y * ROWS;
  const int mine = blockIdx.x * warpwise::kColumns + threadIdx.x, image = mine / pixels, pixel = mine - image * pixels;
  const int row = pixel / w + pad_h, column = pixel % w + pad_w;
  const bool inside = image < n;
  const float* const from = dy + (static_cast<long long>(inside ? image : 0) * k + group * filters) * p * q;
  f += static_cast<long long>(group * filters) * channels * window;

  float sums[TM][TN] = {};
  warpwise::implicit_gemm<ROWS>(
      sums, 0, filters * window,
      [&](int i, int d) {
        const int filter = d / window;
        return first + i < channels ? f[(filter * channels + first + i) * window + d - filter * window] : 0.0f;
      },
      [&](int d) {
        const int filter = d / window, at_r = (d - filter * window) / s, at_s = d - filter * window - at_r * s;
        const int down = row - at_r * dilation_h, across = column - at_s * dilation_w;
        const int at_p = down / stride_h, at_q = across / stride_w;
        const bool valid = inside && down >= 0 && across >= 0 && at_p < p && at_q < q && at_p * stride_h == down &&
                           at_q * stride_w == across;
        return valid ? from[(filter * p + at_p) * q + at_q] : 0.0f;
      });

  const int top = first + threadIdx.x / (warpwise::kColumns / TN) * TM;
  const int left = blockIdx.x * warpwise::kColumns + warpwise::gemm_column<TN>();
  warpwise::store_planes(sums, dx, top, channels, left, n, c, group * channels, pixels,
                         static_cast<const float*>(nullptr));
}

// partials: (splits, k c / groups r s + k): first the filters' gradients, then the biases'. Grid: (cdiv(c / groups r s
// + 1, kColumns), cdiv(k / groups, ROWS), groups * splits). A split takes `share` of the n p q pixels.
template <int ROWS, int TM, int TN, bool COMMON>
__global__ void __launch_bounds__(warpwise::kGemmThreads) conv2d_grad_weight_gemm(
    const float* dy, const float* x, float* partials, int share, int n, int c, int h, int w, int k, int r, int s, int p,
    int q, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups) {
  if (COMMON) {  // compile-time constants: divisions by them become multiplications
    r = s = 3;
    stride_h = stride_w = dilation_h = dilation_w = 1;
  }
  const int channels = c / groups, filters = k / groups, window = r * s, depth = channels * window, pixels = p * q;
  const int group = blockIdx.z % groups, split = blockIdx.z / groups, first = blockIdx.y * ROWS;
  const int mine = blockIdx.x * warpwise::kColumns + threadIdx.x;
  const int channel = mine / window, at_r = (mine - channel * window) / s, at_s = mine - channel * window - at_r * s;
  const int row = at_r * dilation_h - pad_h, column = at_s * dilation_w - pad_w;
  const int begin = split * share, end = min(n * pixels, begin + share);

  float sums[TM][TN] = {};
  warpwise::implicit_gemm<ROWS>(
      sums, begin, end,
      [&](int i, int d) {
        const int image = d / pixels;
        const long long plane = static_cast<long long>(image) * k + group * filters + first + i;
        return first + i < filters ? dy[plane * pixels + d - image * pixels] : 0.0f;
      },
      [&](int d) {
        if (mine >= depth) return mine == depth ? 1.0f : 0.0f;
        const int image = d / pixels, pixel = d - image * pixels, at_p = pixel / q;
        const int at_h = row + at_p * stride_h, at_w = column + (pixel - at_p * q) * stride_w;
        const bool valid = at_h >= 0 && at_h < h && at_w >= 0 && at_w < w;
        const long long plane = static_cast<long long>(image) * c + group * channels + channel;
        return valid ? x[(plane * h + at_h) * w + at_w] : 0.0f;
      });

  partials += static_cast<long long>(split) * (k * depth + k);
  const int top = first + threadIdx.x / (warpwise::kColumns / TN) * TM;
  const int left = blockIdx.x * warpwise::kColumns + warpwise::gemm_column<TN>();
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int filter = group * filters + top + i;
    if (top + i >= filters) break;
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int at = left + warpwise::gemm_step<TN>(j);
      if (at < depth) partials[filter * depth + at] = sums[i][j];
      if (at == depth) partials[k * depth + filter] = sums[i][j];
    }
  }
}

// df: (elements), db: (biases), each may be null: the sums over the first dimension of partials: (splits, elements +
// biases), in order. One thread per element.
__global__ void conv2d_add_partials(const float* partials, float* df, float* db, int splits, int elements, int biases) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= elements + biases) return;
  float sum = 0.0f;
#pragma unroll 4
  for (int split = 0; split < splits; ++split) sum += partials[static_cast<long long>(split) * (elements + biases) + i];
  if (i < elements) {
    if (df) df[i] = sum;
  } else if (db) {
    db[i - elements] = sum;
  }
}
