// 16-bit and 8-bit floating-point formats: exact conversion to float, and back with one rounding.
#pragma once
#include "floats.h"

namespace ww::machine {

constexpr u32 kHalfNan = 0x7fff;  // canonical NaN of half and bfloat16

// ---- Branch-free conversions, for loops that vectorise

inline float half_to_float(u32 bits) {
  // Shifted to the position of a float's exponent, a half's exponent is 112 too small. Correct for subnormals too.
  const float magnitude = as_float((bits & 0x7fff) << 13) * as_float(0x77800000u);
  const u32 special = choose((bits & 0x7c00) == 0x7c00, 0x7f800000u, 0);
  return as_float((bits & 0x8000) << 16 | as_bits(magnitude) | special);
}

inline float bfloat_to_float(u32 bits) { return as_float(bits << 16); }

// Rounds to a format with `kMantissa` mantissa bits; returns the bits without sign. Overflow continues past the range.
template <unsigned kMantissa, unsigned kBias>
inline u32 rounded_magnitude(u32 magnitude) {
  constexpr unsigned kShift = 23 - kMantissa,
                     kFirst = 128 - kBias;  // kFirst: biased float exponent of the smallest normal
  const u32 tie = (1u << (kShift - 1)) - 1 + (magnitude >> kShift & 1);
  const u32 normal = (magnitude + tie - ((127 - kBias) << 23)) >> kShift;
  // Adding a constant whose ulp is that of the format's subnormals rounds the float to that ulp.
  const u32 large = (kFirst + kShift) << 23, subnormal = as_bits(as_float(magnitude) + as_float(large)) - large;
  return choose(magnitude < kFirst << 23, subnormal, normal);
}

inline u32 float_to_half(float value) {
  const u32 bits = as_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffffu;
  const u32 half = choose(magnitude >= 0x477ff000u, 0x7c00, rounded_magnitude<10, 15>(magnitude));
  return choose(magnitude > 0x7f800000u, kHalfNan, sign | half);
}

// To E4M3 or E5M2, saturating to the largest finite value.
template <unsigned kMantissa, unsigned kBias, u32 kLargest>
inline u32 float_to_byte(float value) {
  const u32 bits = as_bits(value), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffffu;
  const u32 byte = rounded_magnitude<kMantissa, kBias>(magnitude);
  return choose(magnitude > 0x7f800000u, 0x7f, sign | choose(byte > kLargest, kLargest, byte));
}

inline u32 float_to_bfloat(float value) {
  const u32 bits = as_bits(value);
  return choose((bits & 0x7fffffffu) > 0x7f800000u, kHalfNan, (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Rounding to odd: an inexact result gets an odd last bit, so that a second rounding to fewer bits gives the correctly
// rounded result. `error` is the exact value minus `value`.
inline float to_odd(float value, float error) {
  const u32 bits = as_bits(value), wrong = as_bits(error);
  const u32 step = 1 - ((wrong ^ bits) >> 31 << 1);
  const u32 inexact = choose((wrong << 1) != 0, ~bits & 1, 0);
  return as_float(bits + step * choose((bits & 0x7f800000u) != 0x7f800000u, inexact, 0));
}

inline double to_odd(double value, double error) {
  const u64 bits = as_bits(value), wrong = as_bits(error);
  const u64 step = 1 - ((wrong ^ bits) >> 63 << 1);
  const u64 inexact = -static_cast<u64>((wrong << 1) != 0) & ~bits & 1;
  const u64 usual = -static_cast<u64>((bits & 0x7ff0000000000000u) != 0x7ff0000000000000u);
  return as_double(bits + ((inexact & usual) == 0 ? 0 : step));
}

// a + b = sum + error, exactly (Knuth's TwoSum).
template <class Float>
inline Float error_of_sum(Float a, Float b, Float sum) {
  const Float part = sum - a;
  return (a - (sum - part)) + (b - part);
}

// Double to float, rounded to odd; values above the largest float give the largest float.
inline float narrowed_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const u64 wide = as_bits(static_cast<double>(nearest)), given = as_bits(value);
  const u32 bits = as_bits(nearest);
  const u32 step = (wide << 1) > (given << 1) ? ~u32{0} : 1;
  const bool nan = (given << 1) > 0xffe0000000000000u;
  return as_float((wide == given) | nan | (bits & 1) ? bits : bits + step);
}

// ---- Any format, any rounding mode; one value at a time

struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool infinities;   // false for E4M3: its largest exponent encodes finite values and one NaN
  u32 nan, largest;  // without sign
};

constexpr Format kHalf{5, 10, 15, true, kHalfNan, 0x7bff}, kBfloat{8, 7, 127, true, kHalfNan, 0x7f7f};
constexpr Format kE4m3{4, 3, 7, false, 0x7f, 0x7e}, kE5m2{5, 2, 15, true, 0x7f, 0x7b};

// `value` must be exact, or rounded to odd with more bits than the format has.
u32 encode(const Format& format, double value, Round round, bool finite);
double decode(const Format& format, u32 bits);

}  // namespace ww::machine
