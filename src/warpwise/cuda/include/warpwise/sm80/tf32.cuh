// A float as the sum of two TF32 numbers, for products by mma.sync that keep float32's accuracy.
#pragma once

namespace warpwise {

// The part of a float that mma.sync ignores: it reads only the upper 19 bits.
__device__ inline unsigned rest_of_tf32(float value) {
  return __float_as_uint(value - __uint_as_float(__float_as_uint(value) & 0xffffe000u));
}

}  // namespace warpwise
