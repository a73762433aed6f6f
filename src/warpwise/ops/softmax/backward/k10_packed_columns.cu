// 16-byte accesses along dimension 0, for any row size: several rows together form a line of whole 16-byte packs.
//
// The first launch adds dy * y for each element of a line in parts, (parts, line), which are (parts * fold, columns) to
// the second; the third one computes the result.

#include <warpwise/core/packed_columns.cuh>
#include <warpwise/core/previous_kernel.cuh>

constexpr int kThreads = 256, kValues = 4;  // loads of a thread in flight, of each input

// Its packs of dy and y.
template <class T>
struct Inputs : warpwise::PackedColumns<T, kValues> {
  using Base = warpwise::PackedColumns<T, kValues>;
  using Base::Base;
  typename Base::Words gradient[kValues], probability[kValues];
};

// partial: (parts, packs * Pack::size).
template <class T>
__global__ void __launch_bounds__(kThreads, 4) softmax_backward_packed_sums(const T* dy, const T* y, float* partial,
                                                                            long long elements, long long packs,
                                                                            int lines, int share) {
  constexpr int kSize = Inputs<T>::kSize;
  __shared__ float scratch[kThreads * kSize];
  Inputs<T> here(elements, packs, lines, share);
  float totals[kSize] = {};
  warpwise::wait_for_previous_kernel();
#pragma unroll 1
  for (int line = here.first; line < here.last; line += here.batch()) {
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

// partial: (rows, columns); dot: (columns,), its sums. Block: (kLanes, kLanes). Grid: cdiv(columns, kLanes).
constexpr int kLanes = 32;
__global__ void __launch_bounds__(kLanes* kLanes) softmax_backward_add_sums(const float* partial, float* dot,
                                                                            int columns, int rows) {
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
  dot[column] = sum;
}

template <class T>
__global__ void __launch_bounds__(kThreads, 4) softmax_backward_from_packed_sums(const T* dy, const T* y,
                                                                                 const float* dot, T* dx,
                                                                                 long long elements, long long packs,
                                                                                 int lines, int share, int columns) {
  constexpr int kSize = Inputs<T>::kSize;
  Inputs<T> here(elements, packs, lines, share);
  float dots[kSize];
  long long column = here.place % columns;
  warpwise::wait_for_previous_kernel();
#pragma unroll
  for (int e = 0; e < kSize; ++e, ++column) {
    while (column >= columns) column -= columns;
    dots[e] = dot[column];
  }
  // Backwards, because the batches that were read last are still in L2.
  const int batches = here.last > here.first ? (here.last - here.first + here.batch() - 1) / here.batch() : 0;
#pragma unroll 1
  for (int number = batches - 1; number >= 0; --number) {
    const int line = here.first + number * here.batch();
    here.load(dy, line, 0.0f, here.gradient);
    here.load(y, line, 0.0f, here.probability);
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      typename Inputs<T>::Pack pack;
#pragma unroll
      for (int e = 0; e < kSize; ++e)
        pack.at[e] = warpwise::from_float<T>(here.element(here.probability[v], e) *
                                             (here.element(here.gradient[v], e) - dots[e]));
      here.gradient[v] = *reinterpret_cast<const typename Inputs<T>::Words*>(&pack);
    }
    here.store(dx, line, here.gradient);
  }
}
