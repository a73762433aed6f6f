// Matrices with few rows or few columns: a strip holds all of the short side, so no part of a tile is empty.
//
// If the matrix has few rows, a strip is `strip` columns, which are one contiguous range of the output. If it has few
// columns, a strip is `strip` rows, which are one contiguous range of the input. Lanes run along that range on one
// side, and along the long dimension on the other side. Shared memory holds the strip with the long dimension
// contiguous. The pitch is a multiple of 32 plus 32 / few, so that 32 adjacent elements of the range, in `few` lines,
// are in different banks.

#include <warpwise/core/previous_kernel.cuh>

constexpr int kThreads = 256;

// FEW_ROWS: in (few, length), out (length, few); else in (length, few), out (few, length). Block: kThreads. Grid:
// cdiv(length, strip). `strip` divides kThreads, and few * strip <= BATCH * kThreads: a thread moves up to BATCH
// elements, and all of its loads are in flight at once. reciprocal: 2^32 / few, rounded up; e * reciprocal / 2^32 is
// then e / few for e < 2^16. Dynamic shared memory: few * pitch + kThreads elements.
template <typename T, bool FEW_ROWS, int BATCH>
__global__ void __launch_bounds__(kThreads) transpose(const T* in, T* out, long long length, int few,
                                                      unsigned reciprocal, int strip, int pitch) {
  extern __shared__ __align__(16) unsigned char shared[];
  T* const tile = reinterpret_cast<T*>(shared);
  const long long first = static_cast<long long>(blockIdx.x) * strip;
  const int valid = static_cast<int>(length - first < strip ? length - first : strip), thread = threadIdx.x;
  // Along the lines: an element of the strip in every `step`-th line.
  const int line = thread / strip, at = thread % strip, step = kThreads / strip;
  const int lines = at < valid ? few : 0;
  const int range = few * valid;  // along the range: every kThreads-th element
  const T* from = FEW_ROWS ? in + line * length + first + at : in + first * few + thread;
  T* to = FEW_ROWS ? out + first * few + thread : out + line * length + first + at;
  const long long read_step = FEW_ROWS ? step * length : kThreads, write_step = FEW_ROWS ? kThreads : step * length;
  // Shared memory is accessed unconditionally; a thread without an element uses a spare one. A condition would occupy
  // one of the 7 predicate registers from the load to the store, which limits the number of loads in flight.
  const int spare = few * pitch + thread;
  const auto in_lines = [&](int k) { return line + k * step < lines; };
  const auto in_range = [&](int k) { return thread + k * kThreads < range; };
  const auto place_in_lines = [&](int k) { return in_lines(k) ? (line + k * step) * pitch + at : spare; };
  const auto place_in_range = [&](int k) {
    const int e = thread + k * kThreads;
    const int i = few == 1 ? e : static_cast<int>(__umulhi(static_cast<unsigned>(e), reciprocal));
    return in_range(k) ? (e - i * few) * pitch + i : spare;
  };
  T batch[BATCH] = {};
  tile[spare] = T(0);
  warpwise::wait_for_previous_kernel();
#pragma unroll
  for (int k = 0; k < BATCH; ++k, from += read_step)
    if (FEW_ROWS ? in_lines(k) : in_range(k)) batch[k] = *from;
#pragma unroll
  for (int k = 0; k < BATCH; ++k) tile[FEW_ROWS ? place_in_lines(k) : place_in_range(k)] = batch[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < BATCH; ++k) batch[k] = tile[FEW_ROWS ? place_in_range(k) : place_in_lines(k)];
#pragma unroll
  for (int k = 0; k < BATCH; ++k, to += write_step)
    if (FEW_ROWS ? in_range(k) : in_lines(k)) *to = batch[k];
}
