// Sixteen-bit and eight-bit floating-point numbers: to single precision exactly, and back with one rounding.
#pragma once
#include "floats.h"

namespace ww::machine {

constexpr u32 kHalfNan = 0x7fff;  // canonical, of both half formats

// ---- Loops over these vectorise

inline float half_to_float(u32 bits) {
  // The exponent of a half moved into a float's place counts 112 too little; subnormals come out right that way too.
  const float magnitude = as_float((bits & 0x7fff) << 13) * as_float(0x77800000u);
  const u32 special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
  return as_float((bits & 0x8000) << 16 | as_bits(magnitude) | special);
}

inline float bfloat_to_float(u32 bits) { return as_float(bits << 16); }

inline u32 float_to_half(float value) {
  const u32 bits = as_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffffu;
  const u32 normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000u) >> 13;
  // Next to 1/2 a float's last place is 2^-24, a subnormal half's.
  const u32 subnormal = as_bits(as_float(magnitude) + 0.5f) - 0x3f000000u;
  u32 half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00 : half;
  return magnitude > 0x7f800000u ? kHalfNan : sign | half;
}

inline u32 float_to_bfloat(float value) {
  const u32 bits = as_bits(value);
  return (bits & 0x7fffffffu) > 0x7f800000u ? kHalfNan : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Rounded to odd, a sum in higher precision can be rounded once more without harm: what is cut off is remembered by the
// last place. `error` is what the rounded value lacks of the exact one.
inline float to_odd(float value, float error) {
  const u32 bits = as_bits(value);
  const bool inexact = error != 0.0f && (bits & 1) == 0 && (bits & 0x7f800000u) != 0x7f800000u;
  const bool away = (as_bits(error) ^ bits) >> 31 == 0;
  return as_float(inexact ? away ? bits + 1 : bits - 1 : bits);
}

inline double to_odd(double value, double error) {
  const u64 bits = as_bits(value);
  const bool inexact = error != 0.0 && (bits & 1) == 0 && (bits >> 52 & 2047) != 2047;
  const bool away = (as_bits(error) ^ bits) >> 63 == 0;
  return as_double(inexact ? away ? bits + 1 : bits - 1 : bits);
}

// a + b = sum + error exactly (Knuth).
template <class Float>
inline Float error_of_sum(Float a, Float b, Float sum) {
  const Float part = sum - a;
  return (a - (sum - part)) + (b - part);
}

// To single precision, to odd: also where a double lies past the largest float.
inline float narrowed_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double given = nearest;
  const u32 bits = as_bits(nearest);
  const bool inexact = given != value && value == value && (bits & 1) == 0;
  const bool towards_zero = (given < 0 ? -given : given) > (value < 0 ? -value : value);
  return as_float(inexact ? towards_zero ? bits - 1 : bits + 1 : bits);
}

// ---- Any format, any rounding: one value at a time

struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool infinities;   // E4M3 has none: its largest exponent holds numbers, and one NaN
  u32 nan, largest;  // without sign
};

constexpr Format kHalf{5, 10, 15, true, kHalfNan, 0x7bff}, kBfloat{8, 7, 127, true, kHalfNan, 0x7f7f};
constexpr Format kE4m3{4, 3, 7, false, 0x7f, 0x7e}, kE5m2{5, 2, 15, true, 0x7f, 0x7b};

// `value` must hold the exact number, or one rounded to odd with more bits than the format has.
u32 encode(const Format& format, double value, Round round, bool finite);
double decode(const Format& format, u32 bits);

}  // namespace ww::machine
