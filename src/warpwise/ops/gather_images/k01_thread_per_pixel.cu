// One thread per pixel: the definition and the baseline. A warp loads 32 bytes and stores 128.

// images: (n, pixels), indices: (batch), out: (batch, pixels). Grid: (cdiv(pixels, blockDim.x), batch or fewer).
__global__ void gather_images(const unsigned char* images, const long long* indices, float* out, int batch, int pixels,
                              float scale, float shift) {
  const int pixel = blockIdx.x * blockDim.x + threadIdx.x;
  if (pixel >= pixels) return;
  for (long long i = blockIdx.y; i < batch; i += gridDim.y) {
    out[i * pixels + pixel] = static_cast<float>(images[indices[i] * pixels + pixel]) * scale + shift;
  }
}
