// Windows that slide over images stored as (outer, h, w, inner): NCHW with inner 1, NHWC with inner channels.
#pragma once

#include <warpwise/core/pack.cuh>

namespace warpwise {

// The sizes of a pooling. A window at row i of the output covers the rows from i * stride_h - pad_h.
struct Pooling {
  int h, w, oh, ow, kh, kw, stride_h, stride_w, pad_h, pad_w;

  // K, S: the sides and the strides of the windows if the compiler knows them, else 0.
  template <int K, int S>
  __device__ static Pooling of(int h, int w, int oh, int ow, int kh, int kw, int stride_h, int stride_w, int pad_h,
                               int pad_w) {
    return {h, w, oh, ow, K ? K : kh, K ? K : kw, S ? S : stride_h, S ? S : stride_w, pad_h, pad_w};
  }
};

// The vector `i` of (outer, rows, columns, width vectors).
struct Place {
  int outer, row, column, vector;

  __device__ static Place of(int i, int rows, int columns, int width) {
    Place at;
    const int pixel = width > 1 ? i / width : i;
    at.vector = i - pixel * width;
    const int line = pixel / columns;
    at.column = pixel - line * columns;
    at.outer = line / rows;
    at.row = line - at.outer * rows;
    return at;
  }
};

// Calls visit(r, c, offset) for each pixel of the window at (row, column) of the output that is inside the image;
// `offset` is that of the pixel's vector in elements.
template <int K, int VECTOR, class Visit>
__device__ inline void for_each_pixel(const Pooling& pool, const Place& at, int inner, Visit visit) {
  const int top = at.row * pool.stride_h - pool.pad_h, left = at.column * pool.stride_w - pool.pad_w;
  const long long image = static_cast<long long>(at.outer) * pool.h * pool.w;
#pragma unroll(K ? K : 1)
  for (int i = 0; i < pool.kh; ++i) {
#pragma unroll(K ? K : 1)
    for (int j = 0; j < pool.kw; ++j) {
      const int r = top + i, c = left + j;
      if (r >= 0 && r < pool.h && c >= 0 && c < pool.w)
        visit(r, c, (image + r * pool.w + c) * inner + at.vector * VECTOR);
    }
  }
}

// Calls visit(row, column, offset) for each window of the output that contains the pixel `at`; `offset` is that of the
// window's vector in elements.
template <int K, int S, int VECTOR, class Visit>
__device__ inline void for_each_window(const Pooling& pool, const Place& at, int inner, Visit visit) {
  constexpr int kMost = K && S ? (K + S - 1) / S : 0;  // windows of a pixel in one dimension
  const int bottom = (at.row + pool.pad_h) / pool.stride_h, right = (at.column + pool.pad_w) / pool.stride_w;
  const int top = max((at.row + pool.pad_h - pool.kh + pool.stride_h) / pool.stride_h, 0);
  const int left = max((at.column + pool.pad_w - pool.kw + pool.stride_w) / pool.stride_w, 0);
  const long long image = static_cast<long long>(at.outer) * pool.oh * pool.ow;
  const auto window = [&](int row, int column) {
    visit(row, column, (image + row * pool.ow + column) * inner + at.vector * VECTOR);
  };
  if constexpr (kMost > 0) {
#pragma unroll
    for (int i = kMost - 1; i >= 0; --i) {
#pragma unroll
      for (int j = kMost - 1; j >= 0; --j) {
        const int row = bottom - i, column = right - j;
        if (row >= top && row < pool.oh && column >= left && column < pool.ow) window(row, column);
      }
    }
  } else {
    for (int row = top; row <= min(bottom, pool.oh - 1); ++row) {
      for (int column = left; column <= min(right, pool.ow - 1); ++column) window(row, column);
    }
  }
}

// Pixels of the window at (row, column) of the output: those inside the image, or also those of the padding.
__device__ inline int pixels(const Pooling& pool, int row, int column, bool padding_counts) {
  const int top = row * pool.stride_h - pool.pad_h, left = column * pool.stride_w - pool.pad_w;
  const int bottom = min(top + pool.kh, padding_counts ? pool.h + pool.pad_h : pool.h);
  const int right = min(left + pool.kw, padding_counts ? pool.w + pool.pad_w : pool.w);
  return padding_counts ? (bottom - top) * (right - left) : (bottom - max(top, 0)) * (right - max(left, 0));
}

}  // namespace warpwise
