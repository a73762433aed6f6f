// dx = dh W1 of a hidden layer with relu, where each tile computes the gradient of the loss, dh, of its rows itself.
//
// A launch for the loss between the forward of the hidden layer and dx takes as long as dx, although its arithmetic is
// 5 FLOPs per 128 of dx; the rest are the launch and its loads. Here the blocks of a row of tiles repeat it, and store
// dh as the left operand of the tile. The loss, and what the update of the parameters needs, are computed beside. A
// warp of 8 x 8 sums per lane covers a whole tile; the warps divide the hidden units. With few rows a block executes
// the code once, and the SM fetches an instruction in about six clocks: loops are hardly unrolled.

#include <cuda_pipeline.h>
#include <warpwise/core/float4.cuh>
#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256, kWarps = kThreads / warpwise::kWarp, kClasses = 16;
constexpr int kRows = 32, kColumns = 64, kOwn = kRows / kWarps;  // a tile of dx, and the rows whose dh a warp computes
constexpr int kQuad = 4 * warpwise::kWarp;                       // units of the vectors of a warp
constexpr int kLanes = warpwise::kWarp / kOwn, kEach = kClasses / kLanes;  // lanes of a row, and classes of a lane

using Quad = warpwise::Pack<float>;

// The offset of the vector of rows `row` to row + 3 of dh, in [unit][row]. The swizzle maps the vectors that eight
// lanes store, of every fourth unit, to distinct banks.
__device__ inline int swizzled(int unit, int row) { return unit * kRows + (row / 4 ^ unit / 4 % 8) * 4; }

// Copies the first ROWS rows and COLUMNS columns of a matrix of `rows` x `columns`, whose rows are `stride` apart, to
// shared memory as [ROWS][PITCH]; zeros past an edge.
template <int ROWS, int COLUMNS, int PITCH>
__device__ inline void copy_rows(float* to, const float* from, int stride, int rows, int columns) {
  constexpr int kPerRow = COLUMNS / 4, kStep = kThreads / kPerRow;
  const int column = threadIdx.x % kPerRow * 4;
#pragma unroll 2
  for (int row = threadIdx.x / kPerRow; row < ROWS; row += kStep) {
    const bool inside = row < rows && column < columns;
    const long long at = inside ? static_cast<long long>(row) * stride + column : 0;
    __pipeline_memcpy_async(to + row * PITCH + column, from + at, 16, inside ? 0 : 16);
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
  constexpr int kQuads = UNITS / kQuad, kPitch = UNITS + 4;  // so that adjacent rows begin in other banks
  extern __shared__ __align__(16) float shared[];
  __shared__ __align__(16) float d[kClasses][kRows];
  __shared__ __align__(16) float column_sums[SUMS ? kWarps : 1][2][SUMS ? kColumns : 4];
  const int tiles = (rows + kRows - 1) / kRows;
  const int first_row = static_cast<int>(blockIdx.x) % tiles * kRows;
  const int first_column = static_cast<int>(blockIdx.x) / tiles * kColumns;
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  float *const weights = shared + UNITS * kRows, *const last_weights = weights + UNITS * kColumns;
  float* const of_hidden = last_weights + kClasses * kPitch;

  if (!SETTLED) warpwise::wait_for_previous_kernel();
  copy_rows<kClasses, UNITS, kPitch>(last_weights, w2, units, classes, units);
  copy_rows<UNITS, kColumns, kColumns>(weights, w1 + first_column, features, units, features - first_column);
  const int own = threadIdx.x / kLanes, first_class = threadIdx.x % kLanes;  // a row, and every kLanes-th class
  float biases[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int c = first_class + k * kLanes;
    biases[k] = b2 && c < classes ? b2[c] : 0.0f;
  }
  const long long wanted = target[min(first_row + own, rows - 1)];
  int counted = 0;  // rows that are not ignored
#pragma unroll 1
  for (int begin = 0; begin < rows; begin += kThreads) {
    const int row = begin + static_cast<int>(threadIdx.x);
    counted += __syncthreads_count(row < rows && target[min(row, rows - 1)] != ignore_index);
  }
  if (SETTLED) warpwise::wait_for_previous_kernel();
  copy_rows<kRows, UNITS, kPitch>(of_hidden, hidden + static_cast<long long>(first_row) * units, units,
                                  rows - first_row, units);
  __pipeline_wait_prior(0);
  __syncthreads();

  float logits[kEach] = {};
#pragma unroll 4
  for (int unit = 0; unit < units; unit += 4) {
    const Quad x = *warpwise::packs(of_hidden + own * kPitch + unit);
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const Quad of_class = *warpwise::packs(last_weights + (first_class + k * kLanes) * kPitch + unit);
#pragma unroll
      for (int e = 0; e < 4; ++e) logits[k] += x.at[e] * of_class.at[e];
    }
  }
  float largest = warpwise::minus_infinity(), powers = 0.0f;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    logits[k] = first_class + k * kLanes < classes ? logits[k] + biases[k] : warpwise::minus_infinity();
    largest = fmaxf(largest, logits[k]);
  }
  largest = warpwise::warp_reduce<warpwise::Max, kLanes>(largest);
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    logits[k] = first_class + k * kLanes < classes ? expf(logits[k] - largest) : 0.0f;
    powers += logits[k];
  }
  powers = warpwise::warp_reduce<warpwise::Sum, kLanes>(powers);
  const float scale = counted > 0 ? 1.0f / static_cast<float>(counted) : 0.0f;  // d is 0 if all rows are ignored
  const bool counts = first_row + own < rows && wanted != ignore_index;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const int c = first_class + k * kLanes;
    d[c][own] = counts ? (logits[k] / powers - (c == wanted ? 1.0f : 0.0f)) * scale : 0.0f;
  }
  __syncwarp();  // the rows are those of the warp

#pragma unroll 1
  for (int q = 0; q < kQuads; ++q) {
    const int unit = q * kQuad + 4 * lane, row = warp * kOwn;
    float of_units[4][kOwn] = {};
#pragma unroll 2
    for (int c = 0; c < classes; ++c) {
      const Quad of_class = *warpwise::packs(last_weights + c * kPitch + unit), factors = *warpwise::packs(&d[c][row]);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int r = 0; r < kOwn; ++r) of_units[e][r] += factors.at[r] * of_class.at[e];
      }
    }
    static_assert(kOwn == 4, "a vector has the rows of a warp");
#pragma unroll
    for (int r = 0; r < kOwn; ++r) {
      const Quad x = *warpwise::packs(of_hidden + (row + r) * kPitch + unit);
#pragma unroll
      for (int e = 0; e < 4; ++e) of_units[e][r] = x.at[e] > 0.0f ? of_units[e][r] : 0.0f;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) warpwise::store4<true>(shared + swizzled(unit + e, row), of_units[e], 4);
  }
  __syncthreads();

  const int own_row = lane / 8 * 4, own_column = lane % 8 * 4;  // and those 16 rows and 32 columns further
  float sums[8][8] = {};
#pragma unroll 1
  for (int at = warp * 4; at < units; at += kWarps * 4) {  // four units of one swizzle
    const float* const of_rows[2] = {shared + swizzled(at, own_row), shared + swizzled(at, own_row + 16)};
    const float* const of_columns = weights + at * kColumns + own_column;
#pragma unroll 2
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

  constexpr int kTotals = kRows * kColumns / 4 / kThreads;  // vectors of dx of a thread, in the same columns
  const int column = first_column + threadIdx.x * 4 % kColumns;
  const bool inside = column < features;
  const Pooled pooled = {out, y, mean, var, gamma, beta, channel_sums, h, w, span, eps};
  const int plane = SUMS ? pooled.plane() : 1;
  Quad outputs[kTotals];
  float shifts[4];
  if (SUMS) {
#pragma unroll
    for (int i = 0; i < kTotals; ++i) {
      const int row = min(first_row + (static_cast<int>(threadIdx.x) + i * kThreads) * 4 / kColumns, rows - 1);
      outputs[i] = *warpwise::packs(out + static_cast<long long>(row) * features + (inside ? column : 0));
    }
    int channel = inside ? column / plane : 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e > 0 && inside && column + e == (channel + 1) * plane) ++channel;
      shifts[e] = beta[channel];
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
    const int at = (threadIdx.x + i * kThreads) * 4, row = first_row + at / kColumns;
    Quad total = {};
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      const Quad value = *warpwise::packs(shared + other * kRows * kColumns + at);
#pragma unroll
      for (int e = 0; e < 4; ++e) total.at[e] += value.at[e];
    }
    if (row >= rows || !inside) continue;
    *warpwise::packs(dx + static_cast<long long>(row) * features + column) = total;
#pragma unroll
    for (int e = 0; SUMS && e < 4; ++e) {
      const float g = outputs[i].at[e] > 0.0f ? total.at[e] : 0.0f;
      of_columns[0][e] += g;
      of_columns[1][e] += outputs[i].at[e] > 0.0f ? g * (outputs[i].at[e] - shifts[e]) : 0.0f;
    }
  }
  if (!SUMS) return;
#pragma unroll
  for (int which = 0; which < 2; ++which) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      static_assert(kColumns / 4 * 2 == warpwise::kWarp, "two lanes have the same columns");
      of_columns[which][e] += __shfl_xor_sync(warpwise::kFullMask, of_columns[which][e], kColumns / 4);
    }
    if (lane < kColumns / 4) warpwise::store4<true>(&column_sums[warp][which][lane * 4], of_columns[which], 4);
  }
  __syncthreads();
  const int end_column = min(first_column + kColumns, features), tile = first_column / kColumns;
#pragma unroll 1
  for (int channel = first_column / plane + warp; channel * plane < end_column; channel += kWarps) {
    const int begin = max(channel * plane, first_column), end = min((channel + 1) * plane, end_column);
    const bool inverts = pooled.inverts(channel);
    float sum = 0.0f, dot = 0.0f;
#pragma unroll 1
    for (int at = begin - first_column + lane; at < end - first_column; at += warpwise::kWarp) {
#pragma unroll
      for (int other = 0; other < kWarps; ++other) {
        sum += column_sums[other][0][at];
        dot += column_sums[other][1][at];
      }
    }
    if (inverts) {
      dot /= gamma[channel];
    } else {
      dot = 0.0f;
#pragma unroll 1
      for (int row = first_row; row < min(first_row + kRows, rows); ++row) {
#pragma unroll 1
        for (int at = begin + lane; at < end; at += warpwise::kWarp) {
          const long long from = static_cast<long long>(row) * features + at;
          if (out[from] > 0.0f) dot += dx[from] * pooled.normal_at_maximum(row, channel, features / plane, at % plane);
        }
      }
    }
    sum = warpwise::warp_reduce<warpwise::Sum>(sum);
    dot = warpwise::warp_reduce<warpwise::Sum>(dot);
    if (lane > 0) continue;
    using Pair = warpwise::Pack<float, 8>;
    auto* const to = reinterpret_cast<Pair*>(channel_sums) + (channel * tiles + first_row / kRows) * span;
    int slot = tile - channel * plane / kColumns;
    to[slot] = Pair{{sum, dot}};
    if (end < (channel + 1) * plane) continue;
#pragma unroll 1
    while (++slot < span) to[slot] = Pair{};  // the last tile of the channel
  }
}
