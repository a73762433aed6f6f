// Whole columns in shared memory: a block has 128 or 256 bytes of each row, read once, also of rows of any alignment.
//
// In k09 the registers of a block hold columns of hundreds of elements only if they are few: the pieces of its rows
// have 32 or 64 bytes. Unaligned pieces have a sector in common with the next block's, which is read and written twice.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/sm80/mma.cuh>

#include "../columns.cuh"

// A tile of `width` columns of a contiguous (outer, length, inner) array. A block copies BYTES of each row, which begin
// at a multiple of 16 bytes and contain the tile's columns. Block: (kLanes, kHeight). Grid: outer * tiles of a row.
template <class T, int BYTES, int THREADS>
struct SharedColumns {
  static constexpr int kSize = warpwise::Pack<T>::size, kPacks = BYTES / 16, kPitch = BYTES / sizeof(T);
  static constexpr int kLanes = kPitch < warpwise::kWarp ? kPitch : warpwise::kWarp, kColumns = kPitch / kLanes;
  static constexpr int kHeight = THREADS / kLanes;  // rows of which the threads compute one element each, at once
  static constexpr int kRows = THREADS / kPacks;    // rows of which the threads copy one pack each, at once
  static_assert(kHeight % kSize == 0 && kRows % kSize == 0, "all rows of a thread have the same alignment");
  long long elements;  // of the array
  long long inner;     // elements from a row to the next
  long long start;     // index of the tile's first element
  int length;          // rows
  int count;           // columns of this tile

  __device__ SharedColumns(long long elements, long long inner, int length, int width, unsigned tiles)
      : elements(elements), inner(inner), length(length) {
    const long long first = static_cast<long long>(blockIdx.x % tiles) * width;
    start = blockIdx.x / tiles * inner * length + first;
    count = inner - first < width ? static_cast<int>(inner - first) : width;
  }
  // Elements of the tile's row before its first column.
  __device__ int shift(int row) const { return static_cast<int>(start + row * inner) & (kSize - 1); }

  // Copies the tile: a thread copies one pack of every kRows-th row. x: aligned to 16 bytes.
  __device__ void copy(const T* x, T* tile) const {
    const int thread = threadIdx.y * kLanes + threadIdx.x, first = thread / kPacks;
    const int column = thread % kPacks * kSize - shift(first);  // of the pack's first element; perhaps negative
    const long long last = start + (length - 1) * inner + column;
    int rows = column < count && first < length ? (length - 1 - first) / kRows + 1 : 0;
    if (rows && (length - 1 - first) % kRows == 0 && last + kSize > elements) {  // the partial pack at the array's end
      --rows;
      for (int e = 0; last + e < elements; ++e) tile[(length - 1) * kPitch + thread % kPacks * kSize + e] = x[last + e];
    }
    const T* from = x + start + first * inner + column;
    const long long step = kRows * inner;
    unsigned to = warpwise::shared_address(tile + thread * kSize);
#pragma unroll 4
    for (int n = 0; n < rows; ++n, from += step, to += kRows * BYTES) warpwise::mma::cp_async<16>(to, from, true);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
  }

  // visit(c, of_y, of_tile) at each of this thread's elements, in the lane's column c.
  template <class Visit>
  __device__ void each(T* y, T* tile, Visit visit) const {
    const int line = threadIdx.y, rows = line < length ? (length - 1 - line) / kHeight + 1 : 0;
    const long long step = kHeight * inner;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int column = threadIdx.x + c * kLanes;
      T *of_tile = tile + line * kPitch + shift(line) + column, *of_y = y + start + line * inner + column;
#pragma unroll 8
      for (int n = column < count ? rows : 0; n > 0; --n, of_tile += kHeight * kPitch, of_y += step)
        visit(c, *of_y, *of_tile);
    }
  }

  // Combines the values of all lines of threads of each column. All threads call this, once for each Operation.
  template <class Operation>
  __device__ void combine(float (&own)[kColumns]) const {
    __shared__ float of_lines[kHeight][kPitch];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) of_lines[threadIdx.y][c * kLanes + threadIdx.x] = own[c];
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      own[c] = Operation::identity();
#pragma unroll
      for (int line = 0; line < kHeight; ++line)
        own[c] = Operation::combine(own[c], of_lines[line][c * kLanes + threadIdx.x]);
    }
  }
};

// x, y: (outer, length, inner), `elements` in all. The other arguments: those of SharedColumns. Dynamic shared memory:
// length * BYTES.
template <class T, int BYTES, int THREADS>
__global__ void __launch_bounds__(THREADS) softmax_shared_columns(const T* x, T* y, long long elements, long long inner,
                                                                  int length, int width, unsigned tiles) {
  using Tile = SharedColumns<T, BYTES, THREADS>;
  constexpr bool kKeeps = sizeof(T) == 4;  // the exponentials; rounded to 2 bytes they would be computed again
  extern __shared__ __align__(16) unsigned char shared[];
  T* const tile = reinterpret_cast<T*>(shared);
  const Tile here(elements, inner, length, width, tiles);
  warpwise::wait_for_previous_kernel();
  here.copy(x, tile);

  float max[Tile::kColumns], sum[Tile::kColumns] = {}, scale[Tile::kColumns];
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) max[c] = warpwise::minus_infinity();
  here.each(y, tile, [&](int c, T&, const T& x) { max[c] = fmaxf(max[c], warpwise::to_float(x)); });
  here.template combine<warpwise::Max>(max);
  const auto power = [&](int c, T x) { return warpwise::exponential<T>(warpwise::to_float(x) - base(max[c])); };
  here.each(y, tile, [&](int c, T&, T& x) {
    const float of_x = power(c, x);
    sum[c] += of_x;
    if constexpr (kKeeps) x = of_x;
  });
  here.template combine<warpwise::Sum>(sum);
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) scale[c] = 1.0f / sum[c];
  here.each(y, tile, [&](int c, T& of_y, const T& x) {
    of_y = warpwise::from_float<T>((kKeeps ? warpwise::to_float(x) : power(c, x)) * scale[c]);
  });
}
