// A float as the sum of two TF32 numbers, for products by mma.sync that keep float32's accuracy.
#pragma once

namespace warpwise {

// The part of a float that mma.sync ignores: it reads only the upper 19 bits.
__device__ inline unsigned rest_of_tf32(float value) {
  return __float_as_uint(value - __uint_as_float(__float_as_uint(value) & 0xffffe000u));
}

// x = big + small, big rounded to nearest. mma.sync ignores the lower 13 bits of small.
__device__ inline void split_tf32(float x, unsigned& big, unsigned& small) {
  big = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(x - __uint_as_float(big));
}

}  // namespace warpwise
