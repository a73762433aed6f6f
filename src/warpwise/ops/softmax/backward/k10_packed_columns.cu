// 16-byte accesses along dimension 0, for any row size: several rows together form a line of whole 16-byte packs.
//
// The first launch divides the lines into parts, and adds dy * y for each element of a line: (parts, line). The second
// launch reads these sums as (parts * fold, columns), and adds those of each column. The third launch computes the
// result. If columns are FEW, there are two launches: the first one adds the rows of a line too, and each block of the
// last one adds the parts.

#include <warpwise/core/packed_columns.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "../few_columns.cuh"

constexpr int kThreads = 256, kValues = 4;  // loads of a thread in flight, of each input

// A thread's packs of dy and y, which are loaded together.
template <class T>
struct Inputs : warpwise::PackedColumns<T, kValues> {
  using Base = warpwise::PackedColumns<T, kValues>;
  using Base::Base;
  typename Base::Words gradient[kValues], probability[kValues];
};

// partial: (parts, packs * Pack::size); if FEW, (parts, columns), and a line is one tile.
template <class T, bool FEW>
__global__ void __launch_bounds__(kThreads, 4) softmax_backward_packed_sums(const T* dy, const T* y, float* partial,
                                                                            long long elements, long long packs,
                                                                            int lines, int columns) {
  constexpr int kSize = Inputs<T>::kSize;
  __shared__ __align__(16) float scratch[kThreads * kSize];
  Inputs<T> here(elements, packs, lines);
  float totals[kSize] = {};
  warpwise::wait_for_previous_kernel();
#pragma unroll 1
  for (int number = here.batches(), line = here.first; number > 0; --number, line += here.stride()) {
    here.load(dy, line, 0.0f, here.gradient);
    here.load(y, line, 0.0f, here.probability);
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
#pragma unroll
      for (int e = 0; e < kSize; ++e)
        totals[e] += here.element(here.gradient[v], e) * here.element(here.probability[v], e);
    }
  }
  const int width = blockDim.x, height = blockDim.y, thread = threadIdx.y * width + threadIdx.x;
  if constexpr (FEW) {
#pragma unroll
    for (int e = 0; e < kSize; ++e) scratch[thread * kSize + e] = totals[e];
    __syncthreads();
    const int rows = width * height * kSize / columns;
    const float sum = combined_rows<Sums>(scratch, rows, columns, thread, width * height);
    if (thread < columns) partial[blockIdx.y * columns + thread] = sum;
    return;
  }
#pragma unroll
  for (int e = 0; e < kSize; ++e) scratch[e * width * height + thread] = totals[e];
  __syncthreads();
  const long long first = static_cast<long long>(blockIdx.x) * width * kSize;
  for (int i = thread; i < width * kSize && first + i < here.pitch; i += width * height) {
    const float* from = scratch + i % kSize * width * height + i / kSize;
    float sum = 0.0f;
#pragma unroll 8
    for (int row = 0; row < height; ++row) sum += from[row * width];
    partial[blockIdx.y * here.pitch + first + i] = sum;
  }
}

// partial: (rows, columns); dot: (fold, columns), its sums, for each row of a line. Block: (kLanes, kLanes). Grid:
// cdiv(columns, kLanes).
constexpr int kLanes = 32;
__global__ void __launch_bounds__(kLanes* kLanes) softmax_backward_add_sums(const float* partial, float* dot,
                                                                            int columns, int rows, int fold) {
  __shared__ float scratch[kLanes][kLanes + 1];
  const int column = blockIdx.x * kLanes + threadIdx.x;
  float sum = 0.0f;
  warpwise::wait_for_previous_kernel();
  if (column < columns) {
#pragma unroll 8
    for (int row = threadIdx.y; row < rows; row += kLanes)
      sum += partial[static_cast<long long>(row) * columns + column];
  }
  scratch[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  sum = 0.0f;
#pragma unroll
  for (int y = 0; y < kLanes; ++y) sum += scratch[y][threadIdx.x];
  for (int f = 0; f < fold; ++f) dot[static_cast<long long>(f) * columns + column] = sum;
}

// sums: (pitch of a line,), or of FEW columns those of the first launch. Block and grid: those of PacksInOrder.
template <class T, bool FEW>
__global__ void __launch_bounds__(kThreads, 3) softmax_backward_from_packed_sums(const T* dy, const T* y,
                                                                                 const float* sums, T* dx,
                                                                                 long long elements, int packs,
                                                                                 int columns, int parts) {
  using Packs = warpwise::PacksInOrder<T, kThreads, kValues>;
  constexpr int kSize = Packs::kSize;
  __shared__ __align__(16) float of_line[FEW ? kLine : 1];
  Packs here(elements, packs);
  typename Packs::Words gradient[kValues], probability[kValues];
  warpwise::wait_for_previous_kernel();
  here.load(dy, gradient);
  here.load(y, probability);
  const float* const dot = FEW ? of_line : sums;
  if constexpr (FEW) {
    const float sum = combined_rows<Sums>(sums, parts, columns, threadIdx.x, kThreads);
    for (int i = threadIdx.x; threadIdx.x < columns && i < packs * kSize; i += columns) of_line[i] = sum;
    __syncthreads();
  }
#pragma unroll 1
  while (true) {
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      warpwise::Pack<float> dots[kSize / 4];
#pragma unroll
      for (int d = 0; d < kSize / 4; ++d) dots[d] = warpwise::packs(dot + here.place(v))[d];
      typename Packs::Pack pack;
#pragma unroll
      for (int e = 0; e < kSize; ++e)
        pack.at[e] = warpwise::from_float<T>(here.element(probability[v], e) *
                                             (here.element(gradient[v], e) - dots[e / 4].at[e % 4]));
      gradient[v] = *reinterpret_cast<const typename Packs::Words*>(&pack);
    }
    here.store(dx, gradient);
    if (!FEW || !here.next()) break;
    here.load(dy, gradient);
    here.load(y, probability);
  }
  if (const long long i = here.single(); i >= 0) {
    const float difference = warpwise::to_float(dy[i]) - dot[here.place_of(i)];
    dx[i] = warpwise::from_float<T>(warpwise::to_float(y[i]) * difference);
  }
}
