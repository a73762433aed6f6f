// Along dimension 0 with 16-byte accesses, also of rows that are no multiple of 16 bytes: some rows are one line.
//
// A line of `fold` rows is a whole number of packs, so all lines of an array (length, columns) have the same alignment.
// The element of a line at f * columns + c belongs to column c. The first launch adds dy * y for each element of a line
// in parts, (parts, line), which are (parts * fold, columns) to the second; the third one computes the result.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>

constexpr int kThreads = 256, kValues = 4;  // loads of a thread in flight, of each input

// A thread's packs: one of each line of its part. elements: of the array, in `lines` of `packs` packs, the last line
// perhaps partial. Block: (width, height), up to kThreads. Grid: (cdiv(packs, width), parts); a part has `share` lines.
template <class T>
struct Packs {
  using Pack = warpwise::Pack<T>;
  using Words = warpwise::Pack<unsigned>;  // as single elements, halves would take a register each
  static constexpr int kSize = Pack::size;
  Words gradient[kValues], probability[kValues];
  long long elements, pitch, place;
  int first, last;

  __device__ Packs(long long elements, long long packs, int lines, int share)
      : elements(elements), pitch(packs * kSize) {
    place = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
    first = static_cast<int>(blockIdx.y) * share + threadIdx.y;
    last = place < pitch ? min(lines, (static_cast<int>(blockIdx.y) + 1) * share) : 0;
  }
  __device__ int batch() const { return kValues * blockDim.y; }
  __device__ bool whole(int line) const {
    line += (kValues - 1) * blockDim.y;
    return line < last && line * pitch + place + kSize <= elements;
  }
  static __device__ float element(const Words& words, int e) {
    return warpwise::to_float(reinterpret_cast<const Pack*>(&words)->at[e]);
  }

  __device__ void load(const T* x, int line, Words (&words)[kValues]) const {
    const T* from = x + line * pitch + place;
    const long long step = blockDim.y * pitch;
    if (whole(line)) {  // all loads are in flight at once
#pragma unroll
      for (int v = 0; v < kValues; ++v, from += step) words[v] = *reinterpret_cast<const Words*>(from);
      return;
    }
#pragma unroll
    for (int v = 0; v < kValues; ++v, from += step, line += blockDim.y) {
      Pack pack;
#pragma unroll
      for (int e = 0; e < kSize; ++e)
        pack.at[e] = line < last && from + e < x + elements ? from[e] : warpwise::from_float<T>(0.0f);
      words[v] = *reinterpret_cast<const Words*>(&pack);
    }
  }

  __device__ void store(T* y, int line, const Words (&words)[kValues]) const {
    T* to = y + line * pitch + place;
    const long long step = blockDim.y * pitch;
    if (whole(line)) {
#pragma unroll
      for (int v = 0; v < kValues; ++v, to += step) *reinterpret_cast<Words*>(to) = words[v];
      return;
    }
#pragma unroll
    for (int v = 0; v < kValues; ++v, to += step, line += blockDim.y) {
#pragma unroll
      for (int e = 0; e < kSize; ++e)
        if (line < last && to + e < y + elements) to[e] = reinterpret_cast<const Pack*>(&words[v])->at[e];
    }
  }
};

// partial: (parts, packs * Pack::size).
template <class T>
__global__ void __launch_bounds__(kThreads, 4) softmax_backward_packed_sums(const T* dy, const T* y, float* partial,
                                                                            long long elements, long long packs,
                                                                            int lines, int share) {
  constexpr int kSize = Packs<T>::kSize;
  __shared__ float scratch[kThreads * kSize];
  Packs<T> here(elements, packs, lines, share);
  float totals[kSize] = {};
  warpwise::wait_for_previous_kernel();
#pragma unroll 1
  for (int line = here.first; line < here.last; line += here.batch()) {
    here.load(dy, line, here.gradient);
    here.load(y, line, here.probability);
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
  constexpr int kSize = Packs<T>::kSize;
  Packs<T> here(elements, packs, lines, share);
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
    here.load(dy, line, here.gradient);
    here.load(y, line, here.probability);
#pragma unroll
    for (int v = 0; v < kValues; ++v) {
      typename Packs<T>::Pack pack;
#pragma unroll
      for (int e = 0; e < kSize; ++e)
        pack.at[e] = warpwise::from_float<T>(here.element(here.probability[v], e) *
                                             (here.element(here.gradient[v], e) - dots[e]));
      here.gradient[v] = *reinterpret_cast<const typename Packs<T>::Words*>(&pack);
    }
    here.store(dx, line, here.gradient);
  }
}
