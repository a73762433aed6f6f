// k04 for images in NHWC order, in which a pixel's filters are adjacent: a thread stores vectors of filters.
//
// cuDNN's kernels for NHWC pad one or three channels to four or eight, and copy them. Here a product has r s c terms in
// the order of memory, and few of them, so that the time is that of the output's bytes.

#include <warpwise/core/implicit_gemm.cuh>

// Stores the block's sums to y: (pixels, planes): row i to plane top + i, if top + i < planes, column j to pixel left +
// gemm_step<TN>(j). `top` and `left` are those of the thread's sums; all threads of the block call this. Stores of four
// planes if their number is a multiple of 4 and y is aligned; else a pixel of each thread passes through shared memory
// at a time, so that adjacent lanes store adjacent planes.
template <int ROWS, int TM, int TN>
__device__ inline void store_pixels(const float (&sums)[TM][TN], float* y, int top, int left, int planes, int pixels,
                                    const float* bias) {
  static_assert(TM == 4 || TM == 8, "one or two vectors of planes");
  float shift[TM];
#pragma unroll
  for (int i = 0; i < TM; ++i) shift[i] = bias && top + i < planes ? bias[top + i] : 0.0f;
  if (planes % 4 == 0 && warpwise::aligned(static_cast<const float*>(y))) {
    const bool odd = TM == 8 && threadIdx.x % 2;
    const int plane = odd ? top + 4 : top;
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int pixel = left + warpwise::gemm_step<TN>(j);
      warpwise::Pack<float> own[TM / 4];
#pragma unroll
      for (int i = 0; i < TM; ++i) own[i / 4].at[i % 4] = sums[i][j] + shift[i];
      if (TM == 4) {
        if (pixel < pixels && plane < planes) {
          *warpwise::packs(y + static_cast<long long>(pixel) * planes + plane) = own[0];
        }
        continue;
      }
      // A lane and its neighbour, whose pixel is 4 away, store both vectors of one pixel, then those of the other.
      warpwise::Pack<float> other;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        other.at[e] = __shfl_xor_sync(0xffffffff, odd ? own[0].at[e] : own[TM / 4 - 1].at[e], 1);
      }
      const int even_pixel = odd ? pixel - 4 : pixel;
      float* const to = y + static_cast<long long>(even_pixel) * planes + plane;
      if (plane < planes) {
        if (even_pixel < pixels) *warpwise::packs(to) = odd ? other : own[0];
        if (even_pixel + 4 < pixels) {
          *warpwise::packs(to + 4 * static_cast<long long>(planes)) = odd ? own[TM / 4 - 1] : other;
        }
      }
    }
    return;
  }
  constexpr int kThreads = warpwise::kGemmThreads, kPixels = warpwise::kColumns / TN;  // at a time
  __shared__ float staged[kPixels][ROWS];
  const int row = threadIdx.x / kPixels * TM, group = threadIdx.x % kPixels;
  const int first = top - row, start = left - warpwise::gemm_column<TN>();  // of the block
#pragma unroll
  for (int j = 0; j < TN; ++j) {
    __syncthreads();  // the reads of the previous pixel are complete
#pragma unroll
    for (int i = 0; i < TM; ++i) staged[group][row + i] = sums[i][j] + shift[i];
    __syncthreads();
    for (int e = threadIdx.x; e < kPixels * ROWS; e += kThreads) {
      const int pixel = start + e / ROWS * 4 + warpwise::gemm_step<TN>(j), plane = first + e % ROWS;
      if (pixel < pixels && plane < planes) {
        y[static_cast<long long>(pixel) * planes + plane] = staged[e / ROWS][e % ROWS];
      }
    }
  }
}

// x: (n, h, w, c), f: (k, r, s, c) with NHWC_FILTERS, else (k, c, r, s), bias: (k) or null, y: (n, p, q, k). Grid:
// (cdiv(n p q, kColumns), cdiv(k, ROWS)). SIDE: r and s, or 0 for any. CHANNELS: c, or 0 for any.
template <int ROWS, int TM, int TN, int SIDE, int CHANNELS, bool NHWC_FILTERS>
__global__ void __launch_bounds__(warpwise::kGemmThreads) conv2d_nhwc(const float* x, const float* f, const float* bias,
                                                                      float* y, int n, int c, int h, int w, int k,
                                                                      int r, int s, int p, int q, int stride_h,
                                                                      int stride_w, int pad_h, int pad_w,
                                                                      int dilation_h, int dilation_w) {
  if (SIDE > 0) r = s = SIDE;  // a compile-time constant: divisions by it become multiplications
  if (CHANNELS > 0) c = CHANNELS;
  const int window = r * s, depth = c * window, pixels = p * q, first = blockIdx.y * ROWS;
  const int mine = blockIdx.x * warpwise::kColumns + threadIdx.x, image = mine / pixels, pixel = mine - image * pixels;
  const int row = pixel / q * stride_h - pad_h, column = pixel % q * stride_w - pad_w;
  const bool inside = image < n;
  const float* const from = x + static_cast<long long>(inside ? image : 0) * h * w * c;

  float sums[TM][TN] = {};
  warpwise::implicit_gemm<ROWS>(
      sums, 0, depth,
      [&](int i, int d) {
        const int at = NHWC_FILTERS ? d : d % c * window + d / c;
        return first + i < k ? f[static_cast<long long>(first + i) * depth + at] : 0.0f;
      },
      [&](int d) {
        const int tap = d / c, channel = d - tap * c, dy = tap / s, dx = tap - dy * s;
        const int at_h = row + dy * dilation_h, at_w = column + dx * dilation_w;
        const bool valid = inside && at_h >= 0 && at_h < h && at_w >= 0 && at_w < w;
        return valid ? from[(at_h * w + at_w) * c + channel] : 0.0f;
      });

  const int top = first + threadIdx.x / (warpwise::kColumns / TN) * TM;
  const int left = blockIdx.x * warpwise::kColumns + warpwise::gemm_column<TN>();
  store_pixels<ROWS>(sums, y, top, left, k, n * pixels, bias);
}
