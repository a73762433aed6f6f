// Arrays (length, columns) in packs of 16 bytes, for rows of any length: `fold` rows together are one line, a whole
// number of packs, so all lines have the same alignment. The element of a line at f * columns + c belongs to column c.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/words.cuh>

namespace warpwise {

// A thread's packs: one of each line of its part. elements: of the array, in `lines` of `packs` packs, the last line
// perhaps partial. Block: (width, height), up to 256 threads. Grid: (cdiv(packs, width), parts); a part has every
// parts-th batch of VALUES * height lines, so that all blocks read one region of memory at a time.
template <class T, int VALUES>
struct PackedColumns {
  using Pack = warpwise::Pack<T>;
  using Words = warpwise::Pack<unsigned>;  // as single elements, halves would take a register each
  static constexpr int kSize = Pack::size;
  long long elements, pitch, place;
  long long end;    // the last element at which a whole pack begins
  int first, last;  // this thread's lines
  int ending;       // the line in which this thread's pack is the partial one at the end of the array, or -1

  __device__ PackedColumns(long long elements, long long packs, int lines) : elements(elements), pitch(packs * kSize) {
    place = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
    first = static_cast<int>(blockIdx.y) * batch() + threadIdx.y;
    last = place < pitch ? lines : 0;
    const long long at = (lines - 1) * pitch + place;
    end = elements - kSize;
    const bool own = first < lines && (lines - 1 - first) % blockDim.y == 0;
    ending = own && at < elements && at + kSize > elements ? lines - 1 : -1;
  }
  __device__ int batch() const { return VALUES * blockDim.y; }
  __device__ int stride() const { return static_cast<int>(gridDim.y) * batch(); }
  __device__ int batches() const { return last > first ? (last - 1 - first) / stride() + 1 : 0; }  // of this thread
  static __device__ float element(const Words& words, int e) {
    return to_float(reinterpret_cast<const Pack*>(&words)->at[e]);
  }

  // All loads are in flight at once. Elements past the last line, or past the end of the array, are `fill`.
  __device__ void load(const T* x, int line, float fill, Words (&words)[VALUES]) const {
    const long long step = blockDim.y * pitch;
    long long at = line * pitch + place;
    Pack filled;
#pragma unroll
    for (int e = 0; e < kSize; ++e) filled.at[e] = from_float<T>(fill);
#pragma unroll
    for (int v = 0; v < VALUES; ++v, at += step) {
      words[v] = *reinterpret_cast<const Words*>(&filled);
      if (at <= end) words[v] = *reinterpret_cast<const Words*>(x + at);
    }
    if (!ends(line)) return;
    const T* const from = x + ending * pitch + place;
#pragma unroll
    for (int e = 0; e < kSize; ++e)
      if (from + e < x + elements) filled.at[e] = from[e];
#pragma unroll
    for (int v = 0; v < VALUES; ++v)
      if (line + v * blockDim.y == ending) words[v] = *reinterpret_cast<const Words*>(&filled);
  }

  // True if the batch from `line` on holds the partial pack.
  __device__ bool ends(int line) const { return static_cast<unsigned>(ending - line) < batch(); }
};

// The packs of the array in memory order: a block takes THREADS * VALUES consecutive ones at a time, a thread VALUES of
// them. The last packs come first, because they may still be in L2. packs: of a line. Block: THREADS. Grid: up to
// cdiv(packs of the array, THREADS * VALUES), where a partial pack at the end counts; single() returns its elements. A
// smaller grid strides over the array.
template <class T, int THREADS, int VALUES>
struct PacksInOrder {
  using Pack = warpwise::Pack<T>;
  using Words = warpwise::Words<T>;
  static constexpr int kSize = Pack::size;
  long long elements;  // of the array
  long long start;     // the element at which this thread's first pack begins
  unsigned packs;      // of a line
  unsigned first;      // the index of this thread's first pack in its line
  int whole;           // number of whole packs of this thread
  long long number;    // the index of the group of THREADS * VALUES packs that the block has

  __device__ PacksInOrder(long long elements, unsigned packs) : elements(elements), packs(packs) {
    move_to(cdiv(elements, static_cast<long long>(THREADS * VALUES * kSize)) - 1 - blockIdx.x);
  }
  __device__ void move_to(long long other) {
    number = other;
    const long long begin = number * (THREADS * VALUES);
    first = static_cast<unsigned>(begin % packs) + threadIdx.x;
    start = (begin + threadIdx.x) * kSize;
    const long long left = elements / kSize - begin - static_cast<int>(threadIdx.x);
    whole = left < THREADS * VALUES ? static_cast<int>((left + THREADS - 1) / THREADS) : VALUES;
  }
  // False after the last packs of this block.
  __device__ bool next() {
    if (number < gridDim.x) return false;
    move_to(number - gridDim.x);
    return true;
  }
  // The position in its line at which pack v begins, and that of element i of the array.
  __device__ long long place(int v) const { return static_cast<long long>((first + v * THREADS) % packs) * kSize; }
  __device__ long long place_of(long long i) const { return i % (static_cast<long long>(packs) * kSize); }
  static __device__ float element(const Words& words, int e) {
    return to_float(reinterpret_cast<const Pack*>(&words)->at[e]);
  }
  // An element after the last whole pack, of which each thread of the first block takes one, or -1.
  __device__ long long single() const {
    const int rest = static_cast<int>(elements % kSize), thread = threadIdx.x;
    return blockIdx.x == 0 && thread < rest ? elements - rest + thread : -1;
  }

  // All loads are in flight at once.
  __device__ void load(const T* x, Words (&words)[VALUES]) const {
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
      words[v] = Words{};
      if (v < whole) words[v] = words_at(x + start + v * THREADS * kSize);
    }
  }
  __device__ void store(T* y, const Words (&words)[VALUES]) const {
#pragma unroll
    for (int v = 0; v < VALUES; ++v)
      if (v < whole) *reinterpret_cast<Words*>(y + start + v * THREADS * kSize) = words[v];
  }
};

}  // namespace warpwise
