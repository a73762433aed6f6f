// Conversions between float and the bits of IEEE half (1 sign, 5 exponent, 10 fraction bits) and bfloat16 (1, 8, 7), in
// each rounding mode, and the rounding of formats of 4 to 8 bits.
#pragma once

#ifdef WW_NUMBERS
extern "C" void ww_rounded_number(const char* what, float given, float result);
#define WW_ROUNDED_NUMBER(WHAT, GIVEN, RESULT) ww_rounded_number(WHAT, GIVEN, RESULT)
#else
#define WW_ROUNDED_NUMBER(WHAT, GIVEN, RESULT) static_cast<void>(0)
#endif

namespace ww {
// Rounds to odd. Rounding the result again, to at least two bits fewer, gives the same as rounding x once.
WW_INLINE float to_odd(double x) {
  const float f = static_cast<float>(x);
  if (static_cast<double>(f) == x || x != x || isinf(f)) return isinf(f) && !isinf(x) ? copysignf(FLT_MAX, f) : f;
  const float toward_zero = fabs(static_cast<double>(f)) > fabs(x) ? nextafterf(f, 0.0f) : f;
  return bits<float>(bits<unsigned>(toward_zero) | 1u);
}
// Converts a number to a float that rounds to 16 bits as the number itself does.
WW_INLINE float narrowed(float x) { return x; }
WW_INLINE float narrowed(double x) { return to_odd(x); }
template <class T>
WW_INLINE auto narrowed(T x) {
  static_assert(std::is_integral_v<T>);
  const double d = static_cast<double>(x);  // inexact for 64-bit integers: restore the sticky bit
  if (sizeof(T) < 8 || static_cast<__int128>(d) == static_cast<__int128>(x)) return to_odd(d);
  const bool above = static_cast<__int128>(d) > static_cast<__int128>(x);
  const double toward_zero = (d > 0) == above ? nextafter(d, 0.0) : d;
  return to_odd(bits<double>(bits<unsigned long long>(toward_zero) | 1u));
}

// a * b + c, rounded to odd; the product is exact in double.
WW_INLINE float fma_to_odd(float a, float b, float c) {
  const double p = static_cast<double>(a) * b, s = uncontracted(p + c), low = sum_error(p, static_cast<double>(c), s);
  if (low == 0 || s != s || isinf(s)) return to_odd(s);
  const double toward_zero = (low > 0) == (s > 0) ? s : nextafter(s, 0.0);
  return to_odd(bits<double>(bits<unsigned long long>(toward_zero) | 1u));
}

// Drops the low `count` bits of a magnitude, rounding by the given mode.
template <Rounding mode>
WW_INLINE auto drop_low_bits(unsigned magnitude, int count, bool negative) {
  if (count <= 0) return magnitude;
  if (count > 31) return 0u + (magnitude && (mode == Rounding::up ? !negative : mode == Rounding::down && negative));
  const unsigned kept = magnitude >> count, rest = magnitude & ((1u << count) - 1u), half = 1u << (count - 1);
  bool away = false;
  if (mode == Rounding::nearest) away = rest > half || (rest == half && (kept & 1u));
  if (mode == Rounding::up) away = rest && !negative;
  if (mode == Rounding::down) away = rest && negative;
  return kept + away;
}

// The bits without the sign of the number that is nearest to a finite float, in a format without a largest exponent.
// `magnitude` holds the float's bits without its sign.
template <int kFraction, int kBias, Rounding mode = Rounding::nearest>
WW_INLINE auto small_float_bits(unsigned magnitude, bool negative) {
  const int exponent = static_cast<int>(magnitude >> 23), lowest_normal = 128 - kBias;
  if (exponent >= lowest_normal)
    return drop_low_bits<mode>(magnitude - (static_cast<unsigned>(127 - kBias) << 23), 23 - kFraction, negative);
  const unsigned significand = exponent ? (magnitude & 0x7fffffu) | 0x800000u : magnitude & 0x7fffffu;
  return drop_low_bits<mode>(significand, 23 - kFraction + lowest_normal - (exponent ? exponent : 1), negative);
}

template <Rounding mode = Rounding::nearest>
WW_INLINE auto half_bits(float f) {
#if defined(__F16C__)
  if (mode == Rounding::nearest && f == f) {
    typedef float four __attribute__((vector_size(16)));
    const auto packed = __builtin_ia32_vcvtps2ph(four{f, 0, 0, 0}, 0);
    return static_cast<unsigned short>(packed[0]);
  }
#endif
  const unsigned u = bits<unsigned>(f), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<unsigned short>(0x7fff);  // the canonical NaN of NVIDIA GPUs
  if (magnitude == 0x7f800000u) return static_cast<unsigned short>(sign | 0x7c00u);
  const int exponent = static_cast<int>(magnitude >> 23);
  unsigned result;
  if (exponent >= 113) {  // normal: change the bias from 127 to 15; a carry increments the exponent
    result = drop_low_bits<mode>(magnitude - (112u << 23), 13, sign);
  } else {  // subnormal, in units of 2^-24
    const unsigned significand = exponent ? (magnitude & 0x7fffffu) | 0x800000u : magnitude & 0x7fffffu;
    result = drop_low_bits<mode>(significand, exponent ? 126 - exponent : 125, sign);
    if (result && result < 0x400u && static_cast<float>(result) * 0x1p-24f != fabsf(f))
      WW_ROUNDED_NUMBER("half", f, copysignf(static_cast<float>(result) * 0x1p-24f, f));
  }
  if (result >= 0x7c00u) {
    const bool infinite =
        mode == Rounding::nearest || (mode == Rounding::up && !sign) || (mode == Rounding::down && sign);
    result = infinite ? 0x7c00u : 0x7bffu;
    if (infinite) WW_ROUNDED_NUMBER("half", f, copysignf(INFINITY, f));
  }
  return static_cast<unsigned short>(sign | result);
}
WW_INLINE float half_value(unsigned short h) {
#if defined(__F16C__) && defined(__clang__)  // clang 22 has no __builtin_ia32_vcvtph2ps
  return static_cast<float>(bits<_Float16>(h));
#elif defined(__F16C__)
  typedef short eight __attribute__((vector_size(16)));
  return __builtin_ia32_vcvtph2ps(eight{static_cast<short>(h), 0, 0, 0, 0, 0, 0, 0})[0];
#else
  const unsigned sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 0x3ffu;
  if (exponent == 0) return bits<float>(sign | bits<unsigned>(static_cast<float>(fraction) * 0x1p-24f));
  return bits<float>(sign | (exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23) | fraction << 13);
#endif
}

template <Rounding mode = Rounding::nearest>
WW_INLINE auto bfloat16_bits(float f) {
  const unsigned u = bits<unsigned>(f), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<unsigned short>(0x7fff);
  unsigned result = drop_low_bits<mode>(magnitude, 16, sign);
  const bool overflow = result == 0x7f80u && magnitude != 0x7f800000u;
  if (overflow && mode == Rounding::zero) result = 0x7f7fu;
  if (overflow && mode != Rounding::zero) WW_ROUNDED_NUMBER("bfloat16", f, copysignf(INFINITY, f));
  return static_cast<unsigned short>(sign | result);
}
WW_INLINE float bfloat16_value(unsigned short b) { return bits<float>(static_cast<unsigned>(b) << 16); }
}  // namespace ww
