// The definition in C, image by image; the compiler vectorises the inner loop.

// images: (n, pixels), indices: (batch), out: (batch, pixels).
void gather_images(const unsigned char* restrict images, const long long* restrict indices, float* restrict out,
                   long batch, long pixels, float scale, float shift) {
  for (long i = 0; i < batch; ++i) {
    const unsigned char* from = images + indices[i] * pixels;
    for (long p = 0; p < pixels; ++p) out[i * pixels + p] = (float)from[p] * scale + shift;
  }
}
