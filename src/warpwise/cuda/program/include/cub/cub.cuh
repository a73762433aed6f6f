// CUB for host code of whole programs on a CPU: DeviceReduce, DeviceScan, DeviceRadixSort and DeviceSelect, and the
// headers of the C++ library that CUB's own header includes. The operations of blocks and warps are device code; here
// they are declared, so that host code can name their types.
#pragma once
#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include <cub/util_allocator.cuh>
#include <cub/util_debug.cuh>
#include <include/ww/cub_algorithms.h>
#include <include/ww/cub_pairs.h>
#include <thrust/warpwise/sorting.h>

namespace cub {
struct NullType {};
typedef thrust::plus<> Sum;
typedef thrust::minimum<> Min;
typedef thrust::maximum<> Max;
struct DeviceOnly {
  struct TempStorage {};
};
template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1>
struct BlockReduce : DeviceOnly {};
template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1>
struct BlockScan : DeviceOnly {};
template <class T, int X, int ITEMS, BlockLoadAlgorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1>
struct BlockLoad : DeviceOnly {};
template <class T, int X, int ITEMS, BlockStoreAlgorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1>
struct BlockStore : DeviceOnly {};
template <class K, int X, int ITEMS, class V = NullType, int = 4>
struct BlockRadixSort : DeviceOnly {};
template <class T, int WIDTH = 32>
struct WarpReduce : DeviceOnly {};
template <class T, int WIDTH = 32>
struct WarpScan : DeviceOnly {};

// A first call with no temporary storage only gives its size.
#define WW_CUB_STORAGE(STORAGE, BYTES) \
  if (!(STORAGE)) {                    \
    (BYTES) = 1;                       \
    return cudaSuccess;                \
  }

struct DeviceReduce {
  template <class I, class O, class F, class T>
  static cudaError_t Reduce(void* storage, size_t& bytes, I in, O out, ptrdiff_t n, F f, T start, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    const T result = thrust::reduce(in, in + n, start, f);
    thrust::fill(out, out + 1, result);
    return cudaSuccess;
  }
  template <class I, class O>
  static cudaError_t Sum(void* storage, size_t& bytes, I in, O out, ptrdiff_t n, cudaStream_t stream = 0) {
    return Reduce(storage, bytes, in, out, n, cub::Sum(), thrust::detail::value_of<I>(0), stream);
  }
  template <class I, class O>
  static cudaError_t Max(void* storage, size_t& bytes, I in, O out, ptrdiff_t n, cudaStream_t stream = 0) {
    return Reduce(storage, bytes, in, out, n, cub::Max(), std::numeric_limits<thrust::detail::value_of<I>>::lowest(),
                  stream);
  }
  template <class I, class O>
  static cudaError_t Min(void* storage, size_t& bytes, I in, O out, ptrdiff_t n, cudaStream_t stream = 0) {
    return Reduce(storage, bytes, in, out, n, cub::Min(), std::numeric_limits<thrust::detail::value_of<I>>::max(),
                  stream);
  }
  // `out`: a KeyValuePair of the index and the element.
  template <class I, class O>
  static cudaError_t ArgMax(void* storage, size_t& bytes, I in, O out, ptrdiff_t n, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    return put_element(in, thrust::max_element(in, in + n) - in, out);
  }
  template <class I, class O>
  static cudaError_t ArgMin(void* storage, size_t& bytes, I in, O out, ptrdiff_t n, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    return put_element(in, thrust::min_element(in, in + n) - in, out);
  }

 private:
  template <class I, class O>
  static cudaError_t put_element(I in, ptrdiff_t index, O out) {
    typedef thrust::detail::value_of<I> T;
    T value;
    {
      const thrust::detail::Scope scope;
      value = thrust::detail::raw(in)[index];
    }
    thrust::fill(out, out + 1, KeyValuePair<int, T>(static_cast<int>(index), value));
    return cudaSuccess;
  }
};

struct DeviceScan {
  template <class I, class O>
  static cudaError_t ExclusiveSum(void* storage, size_t& bytes, I in, O out, ptrdiff_t n, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    thrust::exclusive_scan(in, in + n, out);
    return cudaSuccess;
  }
  template <class I, class O>
  static cudaError_t InclusiveSum(void* storage, size_t& bytes, I in, O out, ptrdiff_t n, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    thrust::inclusive_scan(in, in + n, out);
    return cudaSuccess;
  }
  template <class I, class O, class F, class T>
  static cudaError_t ExclusiveScan(void* storage, size_t& bytes, I in, O out, F f, T start, ptrdiff_t n,
                                   cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    thrust::exclusive_scan(in, in + n, out, start, f);
    return cudaSuccess;
  }
  template <class I, class O, class F>
  static cudaError_t InclusiveScan(void* storage, size_t& bytes, I in, O out, F f, ptrdiff_t n, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    thrust::inclusive_scan(in, in + n, out, f);
    return cudaSuccess;
  }
  // In place.
  template <class I>
  static cudaError_t ExclusiveSum(void* storage, size_t& bytes, I data, ptrdiff_t n, cudaStream_t stream = 0) {
    return ExclusiveSum(storage, bytes, data, data, n, stream);
  }
  template <class I>
  static cudaError_t InclusiveSum(void* storage, size_t& bytes, I data, ptrdiff_t n, cudaStream_t stream = 0) {
    return InclusiveSum(storage, bytes, data, data, n, stream);
  }
  template <class I, class F, class T>
  static cudaError_t ExclusiveScan(void* storage, size_t& bytes, I data, F f, T start, ptrdiff_t n,
                                   cudaStream_t stream = 0) {
    return ExclusiveScan(storage, bytes, data, data, f, start, n, stream);
  }
  template <class I, class F>
  static cudaError_t InclusiveScan(void* storage, size_t& bytes, I data, F f, ptrdiff_t n, cudaStream_t stream = 0) {
    return InclusiveScan(storage, bytes, data, data, f, n, stream);
  }
};

// Two buffers of a sort; the result is in Current().
template <class T>
struct DoubleBuffer {
  T* d_buffers[2];
  int selector = 0;
  DoubleBuffer() : d_buffers{} {}
  DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
  T* Current() { return d_buffers[selector]; }
  T* Alternate() { return d_buffers[1 - selector]; }
};

// All bits of the keys take part.
struct DeviceRadixSort {
  template <class K>
  static cudaError_t SortKeys(void* storage, size_t& bytes, const K* in, K* out, ptrdiff_t n, int = 0,
                              int = sizeof(K) * 8, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    thrust::copy(in, in + n, out);
    thrust::stable_sort(out, out + n);
    return cudaSuccess;
  }
  template <class K>
  static cudaError_t SortKeysDescending(void* storage, size_t& bytes, const K* in, K* out, ptrdiff_t n, int = 0,
                                        int = sizeof(K) * 8, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    thrust::copy(in, in + n, out);
    thrust::stable_sort(out, out + n, thrust::greater<>());
    return cudaSuccess;
  }
  template <class K>
  static cudaError_t SortKeys(void* storage, size_t& bytes, DoubleBuffer<K>& keys, ptrdiff_t n, int = 0,
                              int = sizeof(K) * 8, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    thrust::stable_sort(keys.Current(), keys.Current() + n);
    return cudaSuccess;
  }
  template <class K, class V>
  static cudaError_t SortPairs(void* storage, size_t& bytes, const K* in, K* out, const V* values, V* sorted,
                               ptrdiff_t n, int = 0, int = sizeof(K) * 8, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    thrust::copy(in, in + n, out);
    thrust::copy(values, values + n, sorted);
    thrust::stable_sort_by_key(out, out + n, sorted);
    return cudaSuccess;
  }
  template <class K, class V>
  static cudaError_t SortPairsDescending(void* storage, size_t& bytes, const K* in, K* out, const V* values, V* sorted,
                                         ptrdiff_t n, int = 0, int = sizeof(K) * 8, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    thrust::copy(in, in + n, out);
    thrust::copy(values, values + n, sorted);
    thrust::stable_sort_by_key(out, out + n, sorted, thrust::greater<>());
    return cudaSuccess;
  }
  template <class K, class V>
  static cudaError_t SortPairs(void* storage, size_t& bytes, DoubleBuffer<K>& keys, DoubleBuffer<V>& values,
                               ptrdiff_t n, int = 0, int = sizeof(K) * 8, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    thrust::stable_sort_by_key(keys.Current(), keys.Current() + n, values.Current());
    return cudaSuccess;
  }
};

struct DeviceSelect {
  template <class I, class O, class N, class F>
  static cudaError_t If(void* storage, size_t& bytes, I in, O out, N count, ptrdiff_t n, F f, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    const auto end = thrust::copy_if(in, in + n, out, f);
    thrust::fill(count, count + 1, end - out);
    return cudaSuccess;
  }
  template <class I, class S, class O, class N>
  static cudaError_t Flagged(void* storage, size_t& bytes, I in, S flags, O out, N count, ptrdiff_t n,
                             cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    const auto end = thrust::copy_if(in, in + n, flags, out, [](const auto& flag) { return bool(flag); });
    thrust::fill(count, count + 1, end - out);
    return cudaSuccess;
  }
  template <class I, class O, class N>
  static cudaError_t Unique(void* storage, size_t& bytes, I in, O out, N count, ptrdiff_t n, cudaStream_t = 0) {
    WW_CUB_STORAGE(storage, bytes)
    const auto end = thrust::unique_copy(in, in + n, out);
    thrust::fill(count, count + 1, end - out);
    return cudaSuccess;
  }
};
#undef WW_CUB_STORAGE
}  // namespace cub
