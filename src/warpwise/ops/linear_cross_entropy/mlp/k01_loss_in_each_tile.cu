// dx = dh W1 of a hidden layer with relu, where each tile computes the gradient of the loss, dh, of its rows itself.
//
// A launch for the loss between the forward of the hidden layer and dx takes as long as dx, although its arithmetic is
// 5 FLOPs per 128 of dx; the rest are the launch and its loads. Here the blocks of a row of tiles repeat it: a warp
// computes the softmax of four rows, and stores their dh as the left operand of the tile. The loss, and what the update
// of the parameters needs, are computed beside. A warp of 8 x 8 sums per lane covers a whole tile; the warps divide the
// hidden units.

#include <cuda_pipeline.h>
#include <warpwise/core/float4.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

#include "../gradients/row_softmax.cuh"

constexpr int kThreads = 256, kWarps = kThreads / warpwise::kWarp;
constexpr int kRows = 32, kColumns = 64, kOwn = kRows / kWarps;  // a tile of dx, and the rows whose dh a warp computes
constexpr int kAtOnce = 4;                                       // classes of a step of a loop
constexpr int kQuad = 4 * warpwise::kWarp;                       // units that a warp loads at once

using Quad = warpwise::Pack<float>;

// The offset of the vector of rows `row` to row + 3 of dh, in [unit][row]. The swizzle maps the vectors that eight
// lanes store, of every fourth unit, to distinct banks.
__device__ inline int swizzled(int unit, int row) { return unit * kRows + (row / 4 ^ unit / 4 % 8) * 4; }

// Copies columns `first` to `first` + COLUMNS of w: (size, columns) to shared memory as [ROWS][COLUMNS]; zeros past an
// edge.
template <int ROWS, int COLUMNS>
__device__ inline void copy_weights(float* to, const float* w, int first, int size, int columns) {
  constexpr int kPerRow = COLUMNS / 4, kStep = kThreads / kPerRow;
  const int own = threadIdx.x / kPerRow, column = threadIdx.x % kPerRow * 4;
  const float* from = w + static_cast<long long>(own) * columns + first + column;
  to += own * COLUMNS + column;
#pragma unroll
  for (int row = 0; row < ROWS; row += kStep, from += static_cast<long long>(kStep) * columns) {
    const bool inside = own + row < size && first + column < columns;
    __pipeline_memcpy_async(to + row * COLUMNS, inside ? from : w, 16, inside ? 0 : 16);
  }
  __pipeline_commit();
}

// The block whose output, flattened, is the input of the hidden layer; SUMS adds the sums of its channels, of columns
// next to each other. out: (rows, features), y: (rows, channels, h, w), others: (channels); sums: (channels,
// cdiv(rows, kRows) span, 2): a channel's columns lie in at most `span` tiles.
struct Pooled {
  const float *out, *y, *mean, *var, *gamma, *beta;
  float* sums;
  int h, w, span;
  float eps;

  __device__ int plane() const { return (h / 2) * (w / 2); }
  // True if (y - mean) rstd at a window's maximum is found from the output without losing digits.
  __device__ bool inverts(int channel) const {
    const float size = fabsf(gamma[channel]);
    return size > 1e-20f && 4.0f * size >= fabsf(beta[channel]);
  }
  // (y - mean) rstd at the first maximum above 0 of a window, or 0.
  __device__ float normal_at_maximum(int row, int channel, int channels, int window) const {
    const float m = mean[channel], rstd = rsqrtf(var[channel] + eps), scale = gamma[channel] * rstd;
    const float shift = beta[channel];
    const float* const from =
        y + ((static_cast<long long>(row) * channels + channel) * h + window / (w / 2) * 2) * w + window % (w / 2) * 2;
    float best = 0.0f, found = 0.0f;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float distance = from[e / 2 * w + e % 2] - m, normal = distance * scale + shift;
      if (normal > best) {
        best = normal;
        found = distance * rstd;
      }
    }
    return found;
  }
};

// hidden: (rows, units), of relu; w1: (units, features), w2: (classes, units), b2: (classes) or null, target: (rows);
// dx: (rows, features). SETTLED: the previous kernel writes only `hidden`, so the others are loaded while it runs; the
// kernels before it have completed, as this one starts when the previous one has its inputs. UNITS: `units` rounded up
// to a multiple of kQuad. SUMS: the sums of g and of g (y - mean) rstd over the parts of channels in a tile, g the part
// of dx where `out` is positive, as those of channel_parts of conv_block's backward. Units and features are multiples
// of 4. Grid: tiles of kRows x kColumns, those of a column adjacent. Dynamic shared memory: dh and a tile of w1, and
// later the sums of the warps.
template <int UNITS, bool SETTLED, bool SUMS>
__global__ void __launch_bounds__(kThreads, 2) gradient_of_input(
    const float* hidden, const float* w1, const float* w2, const float* b2, const long long* target, float* dx,
    int rows, int features, int units, int classes, long long ignore_index, const float* out, const float* y,
    const float* mean, const float* var, const float* gamma, const float* beta, float* channel_sums, int h, int w,
    int span, float eps) {
  constexpr int kQuads = UNITS / kQuad;
  extern __shared__ __align__(16) float shared[];
  __shared__ float d[kRows][kClasses];
  __shared__ float column_sums[SUMS ? kWarps : 1][2][SUMS ? kColumns : 1];
  const int tiles = (rows + kRows - 1) / kRows;
  const int first_row = static_cast<int>(blockIdx.x) % tiles * kRows;
  const int first_column = static_cast<int>(blockIdx.x) / tiles * kColumns;
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp, c = lane / 2;
  float *const weights = shared + UNITS * kRows, *const last_weights = weights + UNITS * kColumns;
  constexpr int kTotals = kRows * kColumns / 4 / kThreads;  // vectors of dx of a thread, in the same columns
  const int own_total = first_column + threadIdx.x * 4 % kColumns;
  const auto row_of = [&](int i) { return first_row + (static_cast<int>(threadIdx.x) + i * kThreads) * 4 / kColumns; };

  if (!SETTLED) warpwise::wait_for_previous_kernel();
  copy_weights<kClasses, UNITS>(last_weights, w2, 0, classes, units);
  copy_weights<UNITS, kColumns>(weights, w1, first_column, units, features);
  const Pooled pooled = {out, y, mean, var, gamma, beta, channel_sums, h, w, span, eps};
  const int plane = SUMS ? pooled.plane() : 1, channels = features / plane;
  const float bias = b2 && c < classes ? b2[c] : 0.0f;
  int wanted[kOwn];  // classes; kClasses for a target that is none, -1 for a row that does not count
#pragma unroll
  for (int r = 0; r < kOwn; ++r) {
    const int row = first_row + warp * kOwn + r;
    const long long found = target[min(row, rows - 1)];
    const int known = found >= 0 && found < classes ? static_cast<int>(found) : kClasses;
    wanted[r] = row < rows && found != ignore_index ? known : -1;
  }
  int counted = 0;  // rows that are not ignored
  for (int begin = 0; begin < rows; begin += kThreads) {
    const int row = begin + static_cast<int>(threadIdx.x);
    counted += __syncthreads_count(row < rows && target[min(row, rows - 1)] != ignore_index);
  }
  if (SETTLED) warpwise::wait_for_previous_kernel();

  Quad units_of[kOwn][kQuads];
#pragma unroll
  for (int r = 0; r < kOwn; ++r) {
    const long long row = min(first_row + warp * kOwn + r, rows - 1);
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      const int unit = q * kQuad + 4 * lane;
      units_of[r][q] = *warpwise::packs(hidden + row * units + (unit < units ? unit : 0));
    }
  }
  __pipeline_wait_prior(1);
  __syncthreads();  // the last layer's weights are complete
  float products[kOwn][kClasses] = {};
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const float* const of_w = last_weights + q * kQuad + 4 * lane;
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
#pragma unroll
      for (int e = 0; e < 4; ++e) units_of[r][q].at[e] = q * kQuad + 4 * lane < units ? units_of[r][q].at[e] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kClasses; i += kAtOnce) {
      if (i >= classes) continue;
#pragma unroll
      for (int j = i; j < i + kAtOnce; ++j) {
        const Quad of_class = *warpwise::packs(of_w + j * UNITS);
#pragma unroll
        for (int r = 0; r < kOwn; ++r) {
#pragma unroll
          for (int e = 0; e < 4; ++e) products[r][j] += units_of[r][q].at[e] * of_class.at[e];
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kOwn; ++r) {
    const RowSoftmax softmax(products[r], bias, c, classes);
    if (lane % 2 == 0) d[warp * kOwn + r][c] = wanted[r] >= 0 ? softmax.gradient(c, wanted[r]) : 0.0f;
  }
  __syncwarp();

  const float scale = counted > 0 ? 1.0f / static_cast<float>(counted) : 0.0f;  // d is 0 if all rows are ignored
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    const float* const of_w = last_weights + q * kQuad + 4 * lane;
    float of_units[4][kOwn] = {};
#pragma unroll
    for (int i = 0; i < kClasses; i += kAtOnce) {
      if (i >= classes) continue;
      Quad of_d[kOwn];
#pragma unroll
      for (int r = 0; r < kOwn; ++r) of_d[r] = *warpwise::packs(&d[warp * kOwn + r][i]);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const Quad of_class = *warpwise::packs(of_w + (i + j) * UNITS);
#pragma unroll
        for (int r = 0; r < kOwn; ++r) {
          const float factor = of_d[r].at[j] * scale;
#pragma unroll
          for (int e = 0; e < 4; ++e) of_units[e][r] += factor * of_class.at[e];
        }
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      Quad values;
      static_assert(kOwn == 4, "a vector has the rows of a warp");
#pragma unroll
      for (int r = 0; r < kOwn; ++r) values.at[r] = units_of[r][q].at[e] > 0.0f ? of_units[e][r] : 0.0f;
      *warpwise::packs(shared + swizzled(q * kQuad + 4 * lane + e, warp * kOwn)) = values;
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();

  const int own_row = lane / 8 * 4, own_column = lane % 8 * 4;  // and those 16 rows and 32 columns further
  float sums[8][8] = {};
  for (int at = warp * 4; at < units; at += kWarps * 4) {  // four units of one swizzle
    const float* const of_rows[2] = {shared + swizzled(at, own_row), shared + swizzled(at, own_row + 16)};
    const float* const of_columns = weights + at * kColumns + own_column;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      Quad x[2], y[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        x[half] = *warpwise::packs(of_rows[half] + e * kRows);
        y[half] = *warpwise::packs(of_columns + e * kColumns + half * 32);
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] += x[i / 4].at[i % 4] * y[j / 4].at[j % 4];
      }
    }
  }
  Quad outputs[kTotals];
  float shifts[4];
  bool inverts[4];
  if (SUMS) {
    const bool inside = own_total < features;
#pragma unroll
    for (int i = 0; i < kTotals; ++i) {
      const long long row = min(row_of(i), rows - 1);
      outputs[i] = *warpwise::packs(out + row * features + (inside ? own_total : 0));
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int channel = inside ? (own_total + e) / plane : 0;
      shifts[e] = beta[channel];
      inverts[e] = pooled.inverts(channel);
    }
  }
  __syncthreads();  // the sums of the warps reuse the operands' memory, as [warp][row][column]
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      float* const to = shared + (warp * kRows + own_row + i / 4 * 16 + i % 4) * kColumns + own_column + j * 8;
      warpwise::store4<true>(to, &sums[i][j], 4);
    }
  }
  __syncthreads();
  float of_columns[2][4] = {};
#pragma unroll
  for (int i = 0; i < kTotals; ++i) {
    const int at = (threadIdx.x + i * kThreads) * 4, row = row_of(i);
    Quad total = {};
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      const Quad value = *warpwise::packs(shared + other * kRows * kColumns + at);
#pragma unroll
      for (int e = 0; e < 4; ++e) total.at[e] += value.at[e];
    }
    if (row >= rows || own_total >= features) continue;
    *warpwise::packs(dx + static_cast<long long>(row) * features + own_total) = total;
#pragma unroll
    for (int e = 0; SUMS && e < 4; ++e) {
      if (!(outputs[i].at[e] > 0.0f)) continue;
      const int channel = (own_total + e) / plane;
      const float value = inverts[e]
                              ? outputs[i].at[e] - shifts[e]
                              : pooled.normal_at_maximum(row, channel, channels, own_total + e - channel * plane);
      of_columns[0][e] += total.at[e];
      of_columns[1][e] += total.at[e] * value;
    }
  }
  if (!SUMS) return;
  constexpr int kLanes = kColumns / 4;  // lanes of a row
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    Quad sum;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sum.at[e] = of_columns[which][e];
#pragma unroll
      for (int distance = kLanes; distance < warpwise::kWarp; distance *= 2)
        sum.at[e] += __shfl_xor_sync(warpwise::kFullMask, sum.at[e], distance);
    }
    if (lane < kLanes) *warpwise::packs(&column_sums[warp][which][lane * 4]) = sum;
  }
  __syncthreads();
  const int end_column = min(first_column + kColumns, features), tile = first_column / kColumns;
  for (int channel = first_column / plane + warp; channel * plane < end_column; channel += kWarps) {
    const int begin = max(channel * plane, first_column), end = min((channel + 1) * plane, end_column);
    float sum = 0.0f, dot = 0.0f;
    for (int column = begin - first_column + lane; column < end - first_column; column += warpwise::kWarp) {
#pragma unroll
      for (int other = 0; other < kWarps; ++other) {
        sum += column_sums[other][0][column];
        dot += column_sums[other][1][column];
      }
    }
    sum = warpwise::warp_reduce<warpwise::Sum>(sum);
    dot = warpwise::warp_reduce<warpwise::Sum>(dot);
    if (lane > 0) continue;
    if (pooled.inverts(channel)) dot /= gamma[channel];
    using Pair = warpwise::Pack<float, 8>;
    auto* const to = reinterpret_cast<Pair*>(channel_sums) + (channel * tiles + first_row / kRows) * span;
    int slot = tile - channel * plane / kColumns;
    to[slot] = Pair{{sum, dot}};
    if (end < (channel + 1) * plane) continue;
    while (++slot < span) to[slot] = Pair{};  // the last tile of the channel
  }
}
