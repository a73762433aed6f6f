// Tiles of whole columns of both inputs in shared memory: read once in 16-byte accesses, also of unaligned rows.
//
// As softmax's k15: k07 holds long columns in registers only if a block has 32 bytes of each row.

#include <warpwise/core/previous_kernel.cuh>

#include "../shared_columns.cuh"

// dy, y, dx: (outer, length, inner), `elements` in all. Block, grid, BYTES, `width` and `tiles`: those of SharedColumns. Dynamic shared
// memory: two tiles.
template <class T, int BYTES, int THREADS>
__global__ void __launch_bounds__(THREADS) softmax_backward_shared_columns(const T* dy, const T* y, T* dx,
                                                                           long long elements, long long inner,
                                                                           int length, int width,
 unsigned tiles) {
  using Tile = SharedColumns<T, BYTES, THREADS>;
  extern __shared__ __align__(16) unsigned char shared[];
  T *const gradient = reinterpret_cast<T*>(shared), *const probability = gradient + length * Tile::kPitch;
  const Tile here(elements, inner, length, width, tiles);
  warpwise::wait_for_previous_kernel();
  here.start_copy(dy, gradient);
  here.start_copy(y, probability);
  here.end_copies();

  float dot[Tile::kColumns] = {};
  here.each(
      [&](int c, T&, const T& g, const T& p) { dot[c] += warpwise::to_float(g) * warpwise::to_float(p); },
      dx, gradient, probability);
  here.template combine<warpwise::Sum>(dot);
  here.each(
      [&](int c, T& of_dx, const T& g, const T& p) {
        of_dx = warpwise::from_float<T>(warpwise::to_float(p) * (warpwise::to_float(g) - dot[c]));
      },
      dx, gradient, probability);
}
