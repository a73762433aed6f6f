// Conversion of floating-point formats below 32 bits to float, and back with rounding to nearest even.
#pragma once
#include <cstring>

#include "machine.h"

namespace ww::machine {

inline float float_of_bits(u32 bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline u32 bits_of_float(float value) {
  u32 bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

// A format of one sign bit, `exponent` and `mantissa` bits. With infinities, the largest exponent encodes infinity and
// NaN; without (e4m3), only all ones is NaN.
constexpr float small_to_float(u32 bits, unsigned exponent, unsigned mantissa, bool infinities) {
  const u32 sign = bits >> (exponent + mantissa) & 1, field = bits >> mantissa & ((1u << exponent) - 1);
  const u32 fraction = bits & ((1u << mantissa) - 1), ones = (1u << exponent) - 1;
  const int bias = static_cast<int>(ones >> 1);
  float value = 0;
  if (field == ones && (infinities || fraction == (1u << mantissa) - 1)) {
    value = fraction ? __builtin_nanf("") : __builtin_inff();
  } else {
    const int scale = (field ? static_cast<int>(field) : 1) - bias - static_cast<int>(mantissa);
    value = static_cast<float>(fraction + (field ? 1u << mantissa : 0));
    for (int i = 0; i < scale; i++) value *= 2;
    for (int i = 0; i > scale; i--) value /= 2;
  }
  return sign ? -value : value;
}

inline float half_to_float(u32 bits) {
  const u32 sign = (bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00) return float_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  // A factor of 2^112 corrects the exponent bias; it is exact for subnormal halves too.
  const float magnitude = float_of_bits(rest << 13) * 0x1p112f;
  return float_of_bits(bits_of_float(magnitude) | sign);
}
inline u32 float_to_half(float value) {
  const u32 bits = bits_of_float(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return 0x7fff;
  if (rest >= 0x477ff000) return sign | 0x7c00;  // 65520 and above
  if (rest < 0x38800000) {                       // below 2^-14: adding 0.5 leaves the rounded subnormal in the low bits
    return sign | (bits_of_float(float_of_bits(rest) + 0.5f) - bits_of_float(0.5f));
  }
  return sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
}
inline float bfloat_to_float(u32 bits) { return float_of_bits(bits << 16); }
inline u32 float_to_bfloat(float value) {
  const u32 bits = bits_of_float(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

}  // namespace ww::machine
