// The definition in C, image by image; the compiler vectorises the inner loop.

// images: (n, pixels), indices: (batch), out: (batch, pixels); labels: (n) and out_labels: (batch), or null.
void gather_images(const unsigned char* restrict images, const long long* restrict indices,
                   const long long* restrict labels, float* restrict out, long long* restrict out_labels, long batch,
                   long pixels, float scale, float shift) {
  for (long i = 0; i < batch; ++i) {
    const unsigned char* from = images + indices[i] * pixels;
    if (labels) out_labels[i] = labels[indices[i]];
    for (long p = 0; p < pixels; ++p) out[i * pixels + p] = (float)from[p] * scale + shift;
  }
}
