// A tile of whole columns in shared memory: one read and one write in 16-byte accesses, also of unaligned rows.
//
// In k09 the registers of a block hold columns of hundreds of elements only if they are few: its rows are then pieces
// of 32 bytes, in two sectors each if they are not aligned. Here a row of the tile has 128 or 256 bytes.

#include <warpwise/core/previous_kernel.cuh>

#include "../columns.cuh"
#include "../shared_columns.cuh"

// x, y: (outer, length, inner), `elements` in all. Block, grid, BYTES, `width` and `tiles`: those of SharedColumns. Dynamic shared memory:
// the tile.
template <class T, int BYTES, int THREADS>
__global__ void __launch_bounds__(THREADS) softmax_shared_columns(const T* x, T* y, long long elements, long long inner,
                                                                  int length, int width,
 unsigned tiles) {
  using Tile = SharedColumns<T, BYTES, THREADS>;
  constexpr bool kKeeps = sizeof(T) == 4;  // the exponentials; rounded to 2 bytes they would be computed again
  extern __shared__ __align__(16) unsigned char shared[];
  T* const tile = reinterpret_cast<T*>(shared);
  const Tile here(elements, inner, length, width, tiles);
  warpwise::wait_for_previous_kernel();
  here.start_copy(x, tile);
  here.end_copies();

  float max[Tile::kColumns], sum[Tile::kColumns] = {}, scale[Tile::kColumns];
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) max[c] = warpwise::minus_infinity();
  here.each([&](int c, T&, const T& x) { max[c] = fmaxf(max[c], warpwise::to_float(x)); }, y, tile);
  here.template combine<warpwise::Max>(max);
  const auto power = [&](int c, T x) { return warpwise::exponential<T>(warpwise::to_float(x) - base(max[c])); };
  here.each(
      [&](int c, T&, T& x) {
        const float of_x = power(c, x);
        sum[c] += of_x;
        if constexpr (kKeeps) x = of_x;
      },
      y, tile);
  here.template combine<warpwise::Sum>(sum);
#pragma unroll
  for (int c = 0; c < Tile::kColumns; ++c) scale[c] = 1.0f / sum[c];
  here.each(
      [&](int c, T& of_y, const T& x) {
        of_y = warpwise::from_float<T>((kKeeps ? warpwise::to_float(x) : power(c, x)) * scale[c]);
      },
      y, tile);
}
