// Columns of contiguous (outer, length, inner) arrays in shared memory, shared by softmax's k15 and softmax_backward's
// k13: 16-byte loads of rows of any alignment.
#pragma once

#include <cuda_pipeline.h>
#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/shared_memory.cuh>

// cp.async of 16 bytes that brings their sectors alone into L2, as other tiles have the rest of a line.
__device__ inline void copy_pack(unsigned to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// A tile of `width` columns: of each row the BYTES from a multiple of 16 bytes on in which all of them lie, at any
// alignment. Block: (kLanes, kHeight). Grid: outer * tiles, tiles of a row.
template <class T, int BYTES, int THREADS>
struct SharedColumns {
  using Pack = warpwise::Pack<T>;
  static constexpr int kSize = Pack::size, kPacks = BYTES / sizeof(Pack), kPitch = BYTES / sizeof(T);
  static constexpr int kLanes = kPitch < warpwise::kWarp ? kPitch : warpwise::kWarp, kColumns = kPitch / kLanes;
  static constexpr int kHeight = THREADS / kLanes, kRows = THREADS / kPacks;  // rows of one element, and of one pack each
  static_assert(kHeight % kSize == 0 && kRows % kSize == 0, "all rows of a thread have the same alignment");
  long long elements, inner, start;  // of the array; from a row to the next; of the tile's first element
  int length, count;                 // rows; columns of this tile

  __device__ SharedColumns(long long elements, long long inner, int length, int width, unsigned tiles)
      : elements(elements), inner(inner), length(length) {
    const long long first = static_cast<long long>(blockIdx.x % tiles) * width;
    start = blockIdx.x / tiles * inner * length + first;
    count = inner - first < width ? static_cast<int>(inner - first) : width;
  }
  // Elements of the tile's row before its first column.
  __device__ int shift(int row) const { return static_cast<int>(start + row * inner) & (kSize - 1); }

  // Starts to copy the tile: a thread copies one pack of every kRows-th row. x: aligned to 16 bytes.
  __device__ void start_copy(const T* x, T* tile) const {
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
    for (int n = 0; n < rows; ++n, from += step, to += kRows * BYTES) copy_pack(to, from);
    __pipeline_commit();
  }
  static __device__ void end_copies() {
    __pipeline_wait_prior(0);
    __syncthreads();
  }

  // visit(c, of_array, of_tiles...) at each of this thread's elements, in the lane's column c.
  template <class Visit, class... Tiles>
  __device__ void each(Visit visit, T* array, Tiles*... tiles) const {
    const int line = threadIdx.y, rows = line < length ? (length - 1 - line) / kHeight + 1 : 0;
    const long long step = kHeight * inner;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int column = threadIdx.x + c * kLanes;
      int i = line * kPitch + shift(line) + column;
      T* at = array + start + line * inner + column;
#pragma unroll 8
      for (int n = column < count ? rows : 0; n > 0; --n, i += kHeight * kPitch, at += step) visit(c, *at, tiles[i]...);
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
