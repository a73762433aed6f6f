// Arrays (length, columns) in packs of 16 bytes, for rows of any length: `fold` rows together are one line, a whole
// number of packs, so all lines have the same alignment. The element of a line at f * columns + c belongs to column c.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>

namespace warpwise {

// A thread's packs: one of each line of its part. elements: of the array, in `lines` of `packs` packs, the last line
// perhaps partial. Block: (width, height), up to 256 threads. Grid: (cdiv(packs, width), parts); a part has `share`
// lines.
template <class T, int VALUES>
struct PackedColumns {
  using Pack = warpwise::Pack<T>;
  using Words = warpwise::Pack<unsigned>;  // as single elements, halves would take a register each
  static constexpr int kSize = Pack::size;
  long long elements, pitch, place;
  long long end;            // the last element at which a whole pack of this thread's lines begins
  int first, last, ending;  // lines; the one in which this thread's pack is the partial one at the end of the array

  __device__ PackedColumns(long long elements, long long packs, int lines, int share)
      : elements(elements), pitch(packs * kSize) {
    place = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize;
    first = static_cast<int>(blockIdx.y) * share + threadIdx.y;
    last = place < pitch ? min(lines, (static_cast<int>(blockIdx.y) + 1) * share) : 0;
    const long long at = (lines - 1) * pitch + place, of_last = (last - 1) * pitch + place;
    end = min(of_last, elements - kSize);
    const bool own = first < lines && (lines - 1 - first) % blockDim.y == 0;
    ending = own && at < elements && at + kSize > elements ? lines - 1 : -1;
  }
  __device__ int batch() const { return VALUES * blockDim.y; }
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

  __device__ void store(T* y, int line, const Words (&words)[VALUES]) const {
    const long long step = blockDim.y * pitch;
    long long at = line * pitch + place;
#pragma unroll
    for (int v = 0; v < VALUES; ++v, at += step)
      if (at <= end) *reinterpret_cast<Words*>(y + at) = words[v];
    if (!ends(line)) return;
    Words partial = words[0];
#pragma unroll
    for (int v = 1; v < VALUES; ++v)
      if (line + v * blockDim.y == ending) partial = words[v];
    T* const to = y + ending * pitch + place;
#pragma unroll
    for (int e = 0; e < kSize; ++e)
      if (to + e < y + elements) to[e] = reinterpret_cast<const Pack*>(&partial)->at[e];
  }

  // True if the batch from `line` on holds the partial pack.
  __device__ bool ends(int line) const { return ending >= line && ending < last && ending < line + batch(); }
};

}  // namespace warpwise
