// Vectorised access to adjacent elements, also of arrays whose start or end is not 16-byte aligned.
#pragma once

#include <warpwise/core/pack.cuh>

namespace warpwise {

// N elements aligned to their total size, so that a copy of the struct is one load or store.
template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  static_assert(sizeof(T) * N <= 16 && (N & (N - 1)) == 0, "one memory instruction carries 4, 8 or 16 bytes a thread");
  T at[N];
};

// Number of elements before the first 16-byte boundary at or after `pointer`, at most `count`.
template <class T>
__device__ inline long long elements_before_boundary(const T* pointer, long long count) {
  const long long bytes = (16 - reinterpret_cast<unsigned long long>(pointer) % 16) % 16;
  const long long elements = bytes / static_cast<long long>(sizeof(T));
  return elements < count ? elements : count;
}

// Grid-stride loop over x: (n). Calls `visit(pack, count)` once for each 16 bytes, and for the elements before the
// first and after the last 16-byte boundary with packs that hold only `count` elements.
template <class T, class Visit>
__device__ inline void for_each_pack(const T* x, long long n, Visit visit) {
  constexpr int kElements = Pack<T>::size;
  const long long head = elements_before_boundary(x, n);
  const long long whole = (n - head) / kElements;
  const Pack<T>* body = packs(x + head);
#pragma unroll 2
  for (long long i = global_thread(); i < whole; i += global_threads()) {
    const Pack<T> loaded = body[i];
    visit(loaded, kElements);
  }

  if (global_thread() >= 2) return;
  const long long first = global_thread() == 0 ? 0 : head + whole * kElements;
  const int count = static_cast<int>(global_thread() == 0 ? head : n - first);
  Pack<T> rest = {};
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    if (e < count) rest.at[e] = x[first + e];
  }
  visit(rest, count);
}

}  // namespace warpwise
