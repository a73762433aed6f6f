// Epilogues, which store the sums of a block. store(sum, row, column, left) takes four adjacent sums of a row of C, of
// which `left` columns exist. A custom epilogue is a struct with this operator.
#pragma once

#include <warpwise/core/activation.cuh>
#include <warpwise/core/float4.cuh>

namespace warpwise {
namespace gemm {

// c (m, n), row-major. ALIGNED: n is a multiple of 4, and c is aligned to 4 elements.
template <class Out, bool ALIGNED>
struct Store {
  Out* c;
  int n;

  __device__ void operator()(const float (&sum)[4], int row, int column, int left) const {
    store4<ALIGNED>(c + static_cast<long long>(row) * n + column, sum, left);
  }
};

// result = activate(alpha * row_scale * sum + bias) + beta * source; `kept` is the activation's argument. bias: (n),
// row_scale: (m), source: (m, n), strided; kept: (m, n). Null pointers: absent, or a factor of 1.
template <class Out, int ACTIVATION, bool ALIGNED>
struct FusedStore {
  Out *result, *kept;
  const Out *bias, *row_scale, *source;
  long long source_row, source_column;
  float alpha, beta;
  int n;

  __device__ void operator()(const float (&sum)[4], int row, int column, int left) const {
    const float scale = row_scale == nullptr ? alpha : alpha * to_float(row_scale[row]);
    float before[4], after[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const bool inside = e < left;
      before[e] = scale * sum[e] + (bias != nullptr && inside ? to_float(bias[column + e]) : 0.0f);
      after[e] = activate<ACTIVATION, Out>(before[e]);
      if (source != nullptr && inside)
        after[e] += beta * to_float(source[row * source_row + (column + e) * source_column]);
    }
    const long long at = static_cast<long long>(row) * n + column;
    store4<ALIGNED>(result + at, after, left);
    if (kept != nullptr) store4<ALIGNED>(kept + at, before, left);
  }
};

}  // namespace gemm
}  // namespace warpwise
