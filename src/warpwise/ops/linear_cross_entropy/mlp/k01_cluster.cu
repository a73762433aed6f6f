// Two linear layers with relu between them, the loss, and all gradients that need the first weight, in one launch.
//
// Three launches would each wait for the previous one and read the weight twice. A cluster of eight blocks takes eight
// rows at a time. A block keeps an eighth of the weight's columns in shared memory, for the products of the forward and
// for dx; between the two it computes one row: relu, logits, softmax and the gradient of the hidden row. The blocks
// exchange the sums of the forward and the gradients through distributed shared memory.

#include <cooperative_groups.h>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm80/mma.cuh>
#include <warpwise/sm90/cluster.cuh>

constexpr int kThreads = 256, kWarps = kThreads / warpwise::kWarp, kClasses = 16;
constexpr int kBlocks = 8, kRows = kBlocks;  // of a cluster: a block for each row of a tile

using Quad = warpwise::Pack<float>;

// Copies `quads` quads of each of `rows` rows of x, whose rows have `features` elements, to a tile of `height` rows;
// the other rows of the tile are zeros. A warp copies every kWarps-th row.
__device__ inline void copy_rows(float* tile, const float* x, int features, int rows, int height, int quads,
                                 int pitch) {
  const int lane = threadIdx.x % warpwise::kWarp;
#pragma unroll 4
  for (int row = threadIdx.x / warpwise::kWarp; row < height; row += kWarps) {
    const float* const from = x + (row < rows ? static_cast<long long>(row) * features : 0);
    const unsigned to = warpwise::shared_address(tile + row * pitch);
    for (int quad = lane; quad < quads; quad += warpwise::kWarp)
      warpwise::mma::cp_async<16>(to + 16 * quad, from + 4 * quad, row < rows);
  }
}

// x: (rows, features), w1: (units, features), b1: (units) or null, w2: (classes, units), b2: (classes) or null, target:
// (rows). hidden: (rows, units), the relu of the first layer; d_hidden: (rows, units) and d_logits: (rows, classes),
// the gradients before the relu and before the softmax; dx: (rows, features) or null; losses: (rows + 1), those of the
// rows, then the number of rows that are not ignored. A lane has UNITS units, 32 UNITS in all. Features are a multiple
// of 4, of which a block has `share` quads. Grid: clusters. settled: the previous kernel writes neither layer's
// parameters.
template <int UNITS>
__global__ void __launch_bounds__(kThreads) __cluster_dims__(8, 1, 1)
    loss_and_gradients(const float* x, const float* w1, const float* b1, const float* w2, const float* b2,
                       const long long* target, float* hidden, float* d_hidden, float* d_logits, float* dx,
                       float* losses, int rows, int features, int units, int classes, int share, long long ignore_index,
                       bool settled) {
  constexpr int kUnits = 32 * UNITS;
  extern __shared__ __align__(16) float shared[];
  __shared__ float logits[kClasses], relu[kUnits];  // of the block's row
  __shared__ float warp_values[warpwise::kWarp];
  const auto cluster = cooperative_groups::this_cluster();
  const int rank = warpwise::sm90::cluster_ctarank(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first = min(rank * share, features / 4), quads = min(share, features / 4 - first);
  const int pitch = 4 * (share | 1);  // 8 lanes with adjacent rows read all 32 banks
  float *const weight = shared, *const tile = weight + kUnits * pitch, *const last = tile + kRows * pitch;
  float* const row_parts = last + kClasses * kUnits;      // (blocks, kUnits) of this block's row
  float* const gradients = row_parts + kBlocks * kUnits;  // (kUnits, kRows) of d_hidden
  float* const parts = gradients + kUnits * kRows;        // (warps, kRows, kUnits), or of dx

  // A thread has one unit of a row, or threads share a unit and divide the blocks that its gradient is sent to.
  constexpr int kCopies = kThreads / kUnits >= 8 ? 8 : kThreads / kUnits >= 4 ? 4 : kThreads / kUnits >= 2 ? 2 : 1;
  constexpr int kLanes = kThreads / kClasses;  // that compute a logit
  const int unit = threadIdx.x % kUnits, copy = threadIdx.x / kUnits;
  float bias = 0.0f, bias_of_class = 0.0f;
  const auto load_weights = [&] {
    constexpr int kLoads = kClasses * kUnits / kThreads;
    float values[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = threadIdx.x + i * kThreads, c = at / kUnits, of_unit = at % kUnits;
      values[i] = c < classes && of_unit < units ? w2[c * units + of_unit] : 0.0f;
    }
    if (b1 && unit < units) bias = b1[unit];
    if (b2 && threadIdx.x / kLanes < classes) bias_of_class = b2[threadIdx.x / kLanes];
    copy_rows(weight, w1 + 4 * first, features, units, kUnits, quads, pitch);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) last[threadIdx.x + i * kThreads] = values[i];
  };
  const auto load_tile = [&](int top) {
    copy_rows(tile, x + static_cast<long long>(top) * features + 4 * first, features, min(kRows, rows - top), kRows,
              quads, pitch);
  };
  const int start = blockIdx.x / kBlocks * kRows, step = gridDim.x / kBlocks * kRows;
  warpwise::sm90::cluster_arrive_relaxed();
  if (settled) load_weights();
  warpwise::wait_for_previous_kernel();
  load_tile(start);
  if (!settled) load_weights();
  float counted = 0.0f;
#pragma unroll 4
  for (int row = threadIdx.x; row < rows; row += kThreads) counted += target[row] != ignore_index ? 1.0f : 0.0f;
  counted = warpwise::block_reduce<warpwise::Sum, kThreads>(counted, warp_values);
  const float scale = counted > 0.0f ? 1.0f / counted : 0.0f;  // the gradients are 0 if all rows are ignored
  if (blockIdx.x == 0 && threadIdx.x == 0) losses[rows] = counted;
  warpwise::sm90::cluster_wait();  // all blocks have started, so their shared memory may be written

  for (int top = start; top < rows; top += step) {
    const int row = top + rank;
    const bool exists = row < rows;
    const long long wanted = exists ? target[row] : ignore_index;
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();

    float sums[kRows][UNITS] = {};
    for (int q = warp; q < quads; q += kWarps) {
      Quad values[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) values[r] = *warpwise::packs(tile + r * pitch + 4 * q);
#pragma unroll
      for (int u = 0; u < UNITS; ++u) {
        const Quad of_unit = *warpwise::packs(weight + (lane + 32 * u) * pitch + 4 * q);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[r][u] += values[r].at[e] * of_unit.at[e];
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int u = 0; u < UNITS; ++u) parts[(warp * kRows + r) * kUnits + lane + 32 * u] = sums[r][u];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kUnits / 4; i += kThreads) {
      const int r = i / (kUnits / 4), unit = i % (kUnits / 4) * 4;
      Quad sum = {};
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const Quad part = *warpwise::packs(parts + (w * kRows + r) * kUnits + unit);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum.at[e] += part.at[e];
      }
      *warpwise::packs(cluster.map_shared_rank(row_parts, r) + rank * kUnits + unit) = sum;
    }
    warpwise::sm90::cluster_sync();

    float value = bias;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) value += row_parts[block * kUnits + unit];
    value = value < 0.0f ? 0.0f : value;  // NaN is kept
    if (copy == 0) {
      relu[unit] = value;
      if (exists && unit < units) hidden[static_cast<long long>(row) * units + unit] = value;
    }
    __syncthreads();
    float logit = 0.0f;
    const int c = threadIdx.x / kLanes, sharer = threadIdx.x % kLanes;
#pragma unroll
    for (int u = sharer; u < kUnits; u += kLanes) logit += relu[u] * last[c * kUnits + u];
    logit = warpwise::warp_reduce<warpwise::Sum, kLanes>(logit);
    if (sharer == 0) logits[c] = c < classes ? logit + bias_of_class : warpwise::minus_infinity();
    __syncthreads();
    // Each warp computes the softmax, a class per lane, twice.
    logit = logits[lane % kClasses];
    const float largest = warpwise::warp_reduce<warpwise::Max, kClasses>(logit);
    const float power = expf(logit - largest), powers = warpwise::warp_reduce<warpwise::Sum, kClasses>(power);
    const bool counts = wanted != ignore_index;
    const float d = counts ? (power / powers - (lane % kClasses == wanted ? 1.0f : 0.0f)) * scale : 0.0f;
    float gradient = 0.0f;
#pragma unroll
    for (int i = 0; i < kClasses; ++i)
      gradient += __shfl_sync(warpwise::kFullMask, d, i, kClasses) * last[i * kUnits + unit];
    gradient = value <= 0.0f ? 0.0f : gradient;
    if (exists && threadIdx.x < classes) d_logits[static_cast<long long>(row) * classes + threadIdx.x] = d;
    if (exists && threadIdx.x == 0) {
      const bool known = wanted >= 0 && wanted < classes;
      const float loss = known ? logf(powers) - (logits[wanted] - largest) : __int_as_float(0x7fffffff);
      losses[row] = counts ? loss : 0.0f;
    }
    if (copy == 0 && exists && unit < units) d_hidden[static_cast<long long>(row) * units + unit] = gradient;
    if (copy < kCopies) {
#pragma unroll
      for (int i = 0; i < kBlocks / kCopies; ++i)
        cluster.map_shared_rank(gradients, copy + i * kCopies)[unit * kRows + rank] = gradient;
    }
    warpwise::sm90::cluster_sync();

    if (top + step < rows) load_tile(top + step);
    if (!dx) continue;
    // A thread has four columns of all rows, and every groups-th unit.
    const int groups = max(1, kThreads / share), group = threadIdx.x / share;
    for (int q = threadIdx.x - group * share; q < quads && group < groups; q += kThreads) {
      float of_rows[kRows][4] = {};
#pragma unroll 4
      for (int u = group; u < units; u += groups) {
        const Quad of_unit = *warpwise::packs(weight + u * pitch + 4 * q);
#pragma unroll
        for (int r = 0; r < kRows; r += 4) {
          const Quad d = *warpwise::packs(gradients + u * kRows + r);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int e = 0; e < 4; ++e) of_rows[r + i][e] += d.at[i] * of_unit.at[e];
          }
        }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        Quad sum;
#pragma unroll
        for (int e = 0; e < 4; ++e) sum.at[e] = of_rows[r][e];
        *warpwise::packs(parts + ((group * kRows + r) * share + q) * 4) = sum;
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < min(kRows, rows - top) * quads; i += kThreads) {
      const int r = i / quads, q = i - r * quads;
      Quad sum = {};
      for (int g = 0; g < groups; ++g) {
        const Quad part = *warpwise::packs(parts + ((g * kRows + r) * share + q) * 4);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum.at[e] += part.at[e];
      }
      *warpwise::packs(dx + static_cast<long long>(top + r) * features + 4 * (first + q)) = sum;
    }
  }
}

// dw: (classes, units) = d_logits^T hidden, db: (classes) or null, the sums of d_logits, and the loss, the mean of
// losses. A block has a class and 32 columns, of which a warp adds every kWarps-th row. Grid: (cdiv(units + 1, 32),
// classes + 1), of which the last row has one block for the loss.
__global__ void __launch_bounds__(kThreads) last_layer(const float* d_logits, const float* hidden, const float* losses,
                                                       float* dw, float* db, float* loss, int rows, int units,
                                                       int classes) {
  warpwise::wait_for_previous_kernel();
  __shared__ float warp_sums[kWarps][warpwise::kWarp];
  __shared__ float warp_values[warpwise::kWarp];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, c = blockIdx.y, unit = blockIdx.x * 32 + lane;
  float sum = 0.0f;
  if (c == classes) {
    if (blockIdx.x > 0) return;
    for (int row = threadIdx.x; row < rows; row += kThreads) sum += losses[row];
    sum = warpwise::block_reduce<warpwise::Sum, kThreads>(sum, warp_values);
    if (threadIdx.x == 0) *loss = sum / losses[rows];
    return;
  }
  if (unit <= units) {
#pragma unroll 8
    for (int row = warp; row < rows; row += kWarps) {
      const float factor = unit < units ? hidden[static_cast<long long>(row) * units + unit] : 1.0f;
      sum += d_logits[static_cast<long long>(row) * classes + c] * factor;
    }
  }
  warp_sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || unit > units) return;
#pragma unroll
  for (int of_warp = 1; of_warp < kWarps; ++of_warp) sum += warp_sums[of_warp][lane];
  if (unit < units) {
    dw[c * units + unit] = sum;
  } else if (db) {
    db[c] = sum;
  }
}
