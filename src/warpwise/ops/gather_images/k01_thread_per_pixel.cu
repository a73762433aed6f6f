// One thread per pixel: the definition and the baseline. A warp loads 32 bytes and stores 128.

// images: (n, pixels), indices: (batch), out: (batch, pixels); labels: (n) and out_labels: (batch), or null. Grid:
// (cdiv(pixels, blockDim.x), batch or fewer).
__global__ void gather_images(const unsigned char* images, const long long* indices, const long long* labels,
                              float* out, long long* out_labels, int batch, int pixels, float scale, float shift) {
  const int pixel = blockIdx.x * blockDim.x + threadIdx.x;
  if (pixel >= pixels) return;
  for (long long i = blockIdx.y; i < batch; i += gridDim.y) {
    out[i * pixels + pixel] = static_cast<float>(images[indices[i] * pixels + pixel]) * scale + shift;
    if (labels && pixel == 0) out_labels[i] = labels[indices[i]];
  }
}
