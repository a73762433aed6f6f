// Four pixels per thread: one 4-byte load and one 16-byte store, where the images are multiples of four bytes.
//
// An image of 28 x 28 pixels is 784 bytes, a multiple of 16, so every image of an aligned tensor starts aligned.

#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>

// images: (n, pixels), indices: (batch), out: (batch, pixels), pixels a multiple of 4, images aligned to 4 bytes and
// out to 16; labels: (n) and out_labels: (batch), or null. Grid: (cdiv(pixels / 4, blockDim.x), batch or fewer).
__global__ void gather_images(const unsigned char* images, const long long* indices, const long long* labels,
                              float* out, long long* out_labels, int batch, int pixels, float scale, float shift) {
  warpwise::wait_for_previous_kernel();
  const int pack = blockIdx.x * blockDim.x + threadIdx.x;
  if (pack >= pixels / 4) return;
  for (long long i = blockIdx.y; i < batch; i += gridDim.y) {
    const auto loaded = warpwise::packs<4>(images + indices[i] * pixels)[pack];
    warpwise::Pack<float> result;
#pragma unroll
    for (int e = 0; e < 4; ++e) result.at[e] = static_cast<float>(loaded.at[e]) * scale + shift;
    warpwise::packs(out + i * pixels)[pack] = result;
    if (labels && pack == 0) out_labels[i] = labels[indices[i]];  // last, since its store waits for its load
  }
}
