// Matrices with few rows or few columns: a strip holds all of the short side, so no part of a tile is empty.
//
// A strip of `strip` columns of a matrix with few rows is one contiguous range of the output; of a matrix with few
// columns, `strip` rows are one contiguous range of the input. Lanes run along that range on one side, and along the
// long dimension on the other side. Shared memory holds the strip with the long dimension contiguous. The pitch is a
// multiple of 32 plus 32 / few, so that 32 adjacent elements of the range, in `few` lines, are in different banks.

#include <warpwise/core/previous_kernel.cuh>

constexpr int kThreads = 256;

// Calls visit(offset in the strip's shared memory, index in the array of `few` lines of `length`) for each element.
template <class Visit>
__device__ void along_lines(int few, long long length, long long first, int valid, int strip, int pitch, Visit visit) {
  const int shift = 31 - __clz(strip);
#pragma unroll 8
  for (int e = threadIdx.x; e < few * strip; e += kThreads) {
    const int line = e >> shift, i = e & (strip - 1);
    if (i < valid) visit(line * pitch + i, line * length + first + i);
  }
}

// The same in the order of the array (length, few): element e of the range is (e / few, e % few).
template <class Visit>
__device__ void along_range(int few, long long first, int valid, int pitch, Visit visit) {
  const int step = kThreads / few, rest = kThreads % few;
  int i = threadIdx.x / few, line = threadIdx.x % few;
#pragma unroll 8
  for (int e = threadIdx.x; e < valid * few; e += kThreads) {
    visit(line * pitch + i, first * few + e);
    i += step;
    line += rest;
    if (line >= few) {
      line -= few;
      ++i;
    }
  }
}

// FEW_ROWS: in (few, length), out (length, few); else in (length, few), out (few, length). `strip` is a power of two.
// Block: kThreads. Grid: cdiv(length, strip). Dynamic shared memory: few * pitch elements.
template <typename T, bool FEW_ROWS>
__global__ void __launch_bounds__(kThreads) transpose(const T* __restrict__ in, T* __restrict__ out, int few,
                                                      long long length, int strip, int pitch) {
  extern __shared__ __align__(16) unsigned char shared[];
  T* const tile = reinterpret_cast<T*>(shared);
  const long long first = static_cast<long long>(blockIdx.x) * strip;
  const int valid = static_cast<int>(length - first < strip ? length - first : strip);
  warpwise::wait_for_previous_kernel();
  const auto load = [=](int at, long long from) { tile[at] = in[from]; };
  const auto store = [=](int at, long long to) { out[to] = tile[at]; };
  if (FEW_ROWS)
    along_lines(few, length, first, valid, strip, pitch, load);
  else
    along_range(few, first, valid, pitch, load);
  __syncthreads();
  if (FEW_ROWS)
    along_range(few, first, valid, pitch, store);
  else
    along_lines(few, length, first, valid, strip, pitch, store);
}
