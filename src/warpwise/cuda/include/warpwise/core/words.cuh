// Packs of elements as whole registers, for kernels that keep many of them.
#pragma once

#include <warpwise/core/pack.cuh>

namespace warpwise {

// A pack of T as whole registers: of a pack of 2-byte elements, a thread would hold each element in a register.
template <typename T, int BYTES>
struct WordsOf {
  using type = Pack<unsigned, BYTES>;
};
template <typename T>
struct WordsOf<T, 2> {
  using type = Pack<unsigned short, 2>;
};
template <typename T, int BYTES = 16>
using Words = typename WordsOf<T, BYTES>::type;

// A pack of T in registers: as 32-bit words, or as elements, where each 16-bit element takes a register of its own.
template <bool WORDS, typename T, int BYTES>
struct LoadedOf {
  using type = Words<T, BYTES>;
};
template <typename T, int BYTES>
struct LoadedOf<false, T, BYTES> {
  using type = Pack<T, BYTES>;
};
template <bool WORDS, typename T, int BYTES>
using Loaded = typename LoadedOf<WORDS, T, BYTES>::type;

template <typename T, int BYTES>
__device__ const Pack<T, BYTES>& elements(const Pack<unsigned, BYTES>& words) {
  return *reinterpret_cast<const Pack<T, BYTES>*>(&words);
}
template <typename T, int BYTES>
__device__ const Pack<T, BYTES>& elements(const Pack<unsigned short, BYTES>& words) {
  return *reinterpret_cast<const Pack<T, BYTES>*>(&words);
}

template <int BYTES = 16, typename T>
__device__ Words<T, BYTES> words_at(const T* pointer) {
  return *reinterpret_cast<const Words<T, BYTES>*>(pointer);
}

}  // namespace warpwise
