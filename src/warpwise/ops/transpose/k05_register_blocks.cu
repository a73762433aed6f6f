// Up to 16 bytes per access on both sides: threads transpose V x V blocks in registers; shared memory moves packs.
#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>

// The elements of a contiguous row from `column` on: one access if `vectorised`, else one by one up to the row's end.
template <int BYTES, typename T>
__device__ warpwise::Pack<T, BYTES> read_pack(const T* row, long long column, long long columns, bool vectorised) {
  if (vectorised) return *warpwise::packs<BYTES>(row + column);
  warpwise::Pack<T, BYTES> pack{};
#pragma unroll
  for (int k = 0; k < pack.size; ++k) {
    if (column + k < columns) pack.at[k] = row[column + k];
  }
  return pack;
}

// in: (rows, cols), out: (cols, rows). V = BYTES / sizeof(T); a tile has LANES x LANES blocks of V x V, one per
// thread. Block: LANES * LANES threads. Grid: one block per tile, the tiles along the short side of the matrix first:
// where pieces of neighbouring tiles share a sector, L2 still has it.
template <typename T, int BYTES, int LANES>
__global__ void __launch_bounds__(LANES* LANES) transpose(const T* in, T* out, long long rows, long long cols,
                                                          bool down) {
  using Pack = warpwise::Pack<T, BYTES>;
  constexpr int V = Pack::size;
  constexpr int SIDE = LANES * V;
  static_assert(LANES * BYTES % 128 == 0, "a row of packs is a multiple of 128 bytes, the width of the 32 banks");
  // Row r of the transposed tile is LANES packs; pack p is stored at p ^ (r / V). The 128 / BYTES lanes that shared
  // memory serves at once then access different banks, both when they store one pack of different rows and when they
  // load one row.
  __shared__ Pack tile[SIDE * LANES];

  const unsigned tiles = static_cast<unsigned>(((down ? rows : cols) + SIDE - 1) / SIDE);  // of a line of tiles
  const unsigned line = blockIdx.x / tiles, place = blockIdx.x - line * tiles;
  const long long row0 = static_cast<long long>(down ? place : line) * SIDE;
  const long long col0 = static_cast<long long>(down ? line : place) * SIDE;
  const int tx = threadIdx.x % LANES, ty = threadIdx.x / LANES;
  const bool vectorised_in = warpwise::aligned<BYTES>(in) && cols % V == 0;
  const bool vectorised_out = warpwise::aligned<BYTES>(out) && rows % V == 0;

  warpwise::wait_for_previous_kernel();

  // Tiles inside the matrix: no condition separates their loads, so all V are in flight at once.
  const bool whole = row0 + SIDE <= rows && col0 + SIDE <= cols;
  Pack block[V] = {};
  if (whole && vectorised_in) {
    const T* corner = in + (row0 + ty * V) * cols + col0 + tx * V;
#pragma unroll
    for (int i = 0; i < V; ++i) block[i] = *warpwise::packs<BYTES>(corner + i * cols);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const long long row = row0 + ty * V + i, col = col0 + tx * V;
      if (row < rows && col < cols) block[i] = read_pack<BYTES>(in + row * cols, col, cols, vectorised_in);
    }
  }
#pragma unroll
  for (int j = 0; j < V; ++j) {
    Pack column;
#pragma unroll
    for (int i = 0; i < V; ++i) column.at[i] = block[i].at[j];
    tile[(tx * V + j) * LANES + (ty ^ tx)] = column;
  }
  __syncthreads();
  // Packs go from shared memory to the output without a variable: the compiler would store its elements one by one.
  const long long out_col = row0 + tx * V;
  T* to = out + (col0 + ty) * rows + out_col;
  const auto pack_at = [&](int s) -> const Pack& {
    const int r = s * LANES + ty;
    return tile[r * LANES + (tx ^ (r / V))];
  };
  if (whole && vectorised_out) {
#pragma unroll
    for (int s = 0; s < V; ++s, to += LANES * rows) *warpwise::packs<BYTES>(to) = pack_at(s);
    return;
  }
  if (out_col >= rows) return;
#pragma unroll
  for (int s = 0; s < V; ++s, to += LANES * rows) {
    if (col0 + s * LANES + ty >= cols) return;
    if (vectorised_out) {
      *warpwise::packs<BYTES>(to) = pack_at(s);
    } else {
#pragma unroll
      for (int k = 0; k < V; ++k)
        if (out_col + k < rows) to[k] = pack_at(s).at[k];
    }
  }
}
