// Matrices with few rows or few columns: a strip holds all of the short side, so no part of a tile is empty.
//
// A strip of `strip` columns of a matrix with few rows is one contiguous range of the output; of a matrix with few
// columns, `strip` rows are one contiguous range of the input. Lanes run along that range on one side, and along the
// long dimension on the other side. Shared memory holds the strip with the long dimension contiguous. The pitch is a
// multiple of 32 plus 32 / few, so that 32 adjacent elements of the range, in `few` lines, are in different banks.

#include <warpwise/core/previous_kernel.cuh>

constexpr int kThreads = 256, kBatch = 8;

// Copies the strip between shared memory and the array of `few` lines of `length`, in batches: all loads of a batch are
// in flight before the first element is stored. LOAD: into shared memory.
template <bool LOAD, typename T>
__device__ void along_lines(T* tile, T* array, int few, long long length, long long first, int valid, int strip,
                            int pitch) {
  const int shift = 31 - __clz(strip), end = few * strip;
#pragma unroll 1
  for (int begin = threadIdx.x; begin < end; begin += kBatch * kThreads) {
    T batch[kBatch] = {};
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int e = begin + k * kThreads, line = e >> shift, i = e & (strip - 1);
      if (e < end && i < valid) batch[k] = LOAD ? array[line * length + first + i] : tile[line * pitch + i];
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int e = begin + k * kThreads, line = e >> shift, i = e & (strip - 1);
      if (e < end && i < valid) (LOAD ? tile[line * pitch + i] : array[line * length + first + i]) = batch[k];
    }
  }
}

// The same in the order of the array (length, few): element e of the range is (e / few, e % few).
template <bool LOAD, typename T>
__device__ void along_range(T* tile, T* array, int few, long long first, int valid, int pitch) {
  const int step = kThreads / few, rest = kThreads % few, end = valid * few;
  int i = threadIdx.x / few, line = threadIdx.x % few;
  array += first * few;
#pragma unroll 1
  for (int begin = threadIdx.x; begin < end; begin += kBatch * kThreads) {
    T batch[kBatch] = {};
    int at[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      at[k] = line * pitch + i;
      i += step;
      line += rest;
      if (line >= few) {
        line -= few;
        ++i;
      }
      const int e = begin + k * kThreads;
      if (e < end) batch[k] = LOAD ? array[e] : tile[at[k]];
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int e = begin + k * kThreads;
      if (e < end) (LOAD ? tile[at[k]] : array[e]) = batch[k];
    }
  }
}

// FEW_ROWS: in (few, length), out (length, few); else in (length, few), out (few, length). `strip` is a power of two.
// Block: kThreads. Grid: cdiv(length, strip). Dynamic shared memory: few * pitch elements.
template <typename T, bool FEW_ROWS>
__global__ void __launch_bounds__(kThreads) transpose(T* in, T* out, int few, long long length, int strip, int pitch) {
  extern __shared__ __align__(16) unsigned char shared[];
  T* const tile = reinterpret_cast<T*>(shared);
  const long long first = static_cast<long long>(blockIdx.x) * strip;
  const int valid = static_cast<int>(length - first < strip ? length - first : strip);
  warpwise::wait_for_previous_kernel();
  if (FEW_ROWS)
    along_lines<true>(tile, in, few, length, first, valid, strip, pitch);
  else
    along_range<true>(tile, in, few, first, valid, pitch);
  __syncthreads();
  if (FEW_ROWS)
    along_range<false>(tile, out, few, first, valid, pitch);
  else
    along_lines<false>(tile, out, few, length, first, valid, strip, pitch);
}
