// All gradients in one launch: the first blocks compute dx = d w, a warp per row, the others dw = d^T x and db.
//
// The gradient d of the logits is recomputed from the softmax wherever it is used: at 10 classes it takes 5 KB for 128
// rows, less than a launch. db is the column of dw for a feature that is always 1. A block sums dw over a chunk of the
// rows; a second launch adds the chunks, in a fixed order, if there are several.

#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256, kWarps = kThreads / warpwise::kWarp;
constexpr int kGroup = 16, kColumns = warpwise::kWarp;  // classes and features of a block of dw
constexpr int kStaged = 128;                            // rows whose d is in shared memory

// d = (p - one_hot(target)) * grad / count. p: (rows, classes), target: (rows); grad, count: one element. Loads are
// unconditional and clamped to the last row and class, so that all of a thread are in flight at once.
struct LogitGradient {
  const float *grad, *p;
  const long long *target, *count;
  int rows, classes;
  long long ignore_index;

  struct Loaded {
    float p;
    long long target;
  };

  __device__ Loaded load(long long row, int c) const {
    row = min(row, rows - 1LL);
    return {p[row * classes + min(c, classes - 1)], target[row]};
  }
  __device__ float scale() const { return *grad / static_cast<float>(*count); }
  __device__ float operator()(const Loaded& loaded, long long row, int c, float scale) const {
    const bool counts = row < rows && c < classes && loaded.target != ignore_index;
    return counts ? (loaded.p - (c == loaded.target ? 1.0f : 0.0f)) * scale : 0.0f;
  }
};

// dx of ROWS rows from `row` on, by a warp; w: (classes, features), dx: (rows, features).
template <int ROWS, int WIDTH>
__device__ void input_gradient(const LogitGradient& gradient, const float* w, float* dx, long long row, int rows,
                               int features) {
  using Pack = warpwise::Pack<float, 4 * WIDTH>;
  const int lane = threadIdx.x % warpwise::kWarp;
  if (row >= rows) return;
  for (int begin = 0; begin < features; begin += warpwise::kWarp * WIDTH) {
    const int k = begin + lane * WIDTH;
    const bool inside = k < features;
    Pack sums[ROWS] = {};
    for (int first = 0; first < gradient.classes; first += kGroup) {
      const int own = first + lane, count = gradient.classes - first;
      Pack of_w[kGroup];  // classes past the end are clamped to the last one
#pragma unroll
      for (int c = 0; c < kGroup; ++c) {
        const long long from = min(first + c, gradient.classes - 1);
        of_w[c] = *warpwise::packs<4 * WIDTH>(w + from * features + (inside ? k : 0));
      }
      LogitGradient::Loaded loaded[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; ++r) loaded[r] = gradient.load(row + r, own);
      const float scale = gradient.scale();
      float d[ROWS];  // of class `own`
#pragma unroll
      for (int r = 0; r < ROWS; ++r) d[r] = gradient(loaded[r], row + r, own, scale);
#pragma unroll
      for (int c = 0; c < kGroup; ++c) {
        if (c >= count) continue;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
          const float of_d = __shfl_sync(warpwise::kFullMask, d[r], c);
#pragma unroll
          for (int e = 0; e < WIDTH; ++e) sums[r].at[e] += of_d * of_w[c].at[e];
        }
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      if (inside && row + r < rows) *warpwise::packs<4 * WIDTH>(dx + (row + r) * features + k) = sums[r];
    }
  }
}

// grad, count: one element; x, dx: (rows, features), dx null if it is not needed; w, dw: (classes, features); db:
// (classes) or null. parts: (chunks, classes, features + 1), or null for one chunk. Grid: input_blocks blocks for dx,
// of kWarps * ROWS rows each, then chunks x cdiv(classes, kGroup) x cdiv(features + 1, kColumns) blocks.
template <int ROWS, int WIDTH>
__global__ void __launch_bounds__(kThreads) linear_cross_entropy_backward(
    const float* grad, const float* p, const long long* target, const long long* count, const float* x, const float* w,
    float* dx, float* dw, float* db, float* parts, int rows, int features, int classes, int input_blocks,
    int chunk_rows, long long ignore_index) {
  warpwise::wait_for_previous_kernel();
  __shared__ float staged[kStaged][kGroup];
  __shared__ float warp_sums[kWarps][kGroup][kColumns];
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  const LogitGradient gradient = {grad, p, target, count, rows, classes, ignore_index};
  int block = blockIdx.x;
  if (block < input_blocks) {
    const long long row = (static_cast<long long>(block) * kWarps + warp) * ROWS;
    input_gradient<ROWS, WIDTH>(gradient, w, dx, row, rows, features);
    return;
  }
  block -= input_blocks;
  const int tiles = features / kColumns + 1, groups = (classes + kGroup - 1) / kGroup;
  const int column = block % tiles * kColumns + lane, first_class = block / tiles % groups * kGroup;
  const int chunk = block / tiles / groups, begin = chunk * chunk_rows, end = min(rows, begin + chunk_rows);
  float sums[kGroup] = {};
  for (int from = begin; from < end; from += kStaged) {
    const int staged_rows = min(kStaged, end - from);
    float of_x[kStaged / kWarps];  // rows and columns past the end are clamped to the last one
#pragma unroll
    for (int i = 0; i < kStaged / kWarps; ++i) {
      const long long row = min(from + warp + i * kWarps, end - 1);
      of_x[i] = x[row * features + min(column, features - 1)];
    }
    constexpr int kEach = kStaged * kGroup / kThreads;  // gradients of a thread, all of one class
    const int first_row = threadIdx.x / kGroup, c = threadIdx.x % kGroup;
    LogitGradient::Loaded loaded[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      loaded[i] = gradient.load(from + first_row + i * (kThreads / kGroup), first_class + c);
    const float scale = gradient.scale();
    __syncthreads();  // the reads of the previous rows are complete
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int r = first_row + i * (kThreads / kGroup);
      staged[r][c] = gradient(loaded[i], from + r, first_class + c, scale);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kStaged / kWarps; ++i) {
      const int r = warp + i * kWarps;
      if (r >= staged_rows) continue;
      const float factor = column < features ? of_x[i] : 1.0f;
#pragma unroll
      for (int c = 0; c < kGroup; c += 4) {
        const auto of_d = *warpwise::packs(&staged[r][c]);
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[c + e] += of_d.at[e] * factor;
      }
    }
  }
#pragma unroll
  for (int c = 0; c < kGroup; ++c) warp_sums[warp][c][lane] = sums[c];
  __syncthreads();
  for (int group = warp; group < kGroup; group += kWarps) {
    const int c = first_class + group;
    if (c >= classes || column > features) continue;
    float sum = 0.0f;
#pragma unroll
    for (int of_warp = 0; of_warp < kWarps; ++of_warp) sum += warp_sums[of_warp][group][lane];
    if (parts) {
      parts[(static_cast<long long>(chunk) * classes + c) * (features + 1) + column] = sum;
    } else if (column < features) {
      dw[static_cast<long long>(c) * features + column] = sum;
    } else if (db) {
      db[c] = sum;
    }
  }
}

// dw and db from parts: (chunks, classes, features + 1). A warp adds every kWarps-th chunk of 32 adjacent elements; the
// sums of the warps are added in order. Grid: cdiv(classes * (features + 1), 32).
__global__ void __launch_bounds__(kThreads) add_chunks(const float* parts, float* dw, float* db, int chunks,
                                                       int features, int classes) {
  warpwise::wait_for_previous_kernel();
  __shared__ float warp_sums[kWarps][warpwise::kWarp];
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  const long long elements = static_cast<long long>(classes) * (features + 1);
  const long long at = static_cast<long long>(blockIdx.x) * warpwise::kWarp + lane;
  float sum = 0.0f;
#pragma unroll 8
  for (int chunk = warp; chunk < chunks; chunk += kWarps) sum += at < elements ? parts[chunk * elements + at] : 0.0f;
  warp_sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || at >= elements) return;
#pragma unroll
  for (int of_warp = 1; of_warp < kWarps; ++of_warp) sum += warp_sums[of_warp][lane];
  const long long c = at / (features + 1), column = at % (features + 1);
  if (column < features) {
    dw[c * features + column] = sum;
  } else if (db) {
    db[c] = sum;
  }
}
