// A side of up to 8 elements: a thread moves all of it. Every access to the long side is coalesced, and the elements of
// the short side are one vector if their bytes allow it, else single elements of lines that stay in L1 and L2.

#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>

// FEW_ROWS: in (FEW, length), out (length, FEW); else in (length, FEW), out (FEW, length). BYTES of an access to the
// short side divide FEW * sizeof(T) and the address. Any grid with at least `length` threads.
template <typename T, int FEW, bool FEW_ROWS, int BYTES>
__global__ void transpose(const T* in, T* out, long long length) {
  using Pack = warpwise::Pack<T, BYTES>;
  constexpr int kPacks = FEW / Pack::size;
  const long long i = warpwise::global_thread();
  warpwise::wait_for_previous_kernel();
  if (i >= length) return;
  Pack packs[kPacks];
  if constexpr (FEW_ROWS) {
#pragma unroll
    for (int e = 0; e < FEW; ++e) packs[e / Pack::size].at[e % Pack::size] = in[e * length + i];
    Pack* const to = warpwise::packs<BYTES>(out + i * FEW);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) to[p] = packs[p];
  } else {
    const Pack* const from = warpwise::packs<BYTES>(in + i * FEW);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) packs[p] = from[p];
#pragma unroll
    for (int e = 0; e < FEW; ++e) out[e * length + i] = packs[e / Pack::size].at[e % Pack::size];
  }
}
