// The handlers of cvt: between integers and floating-point numbers, and between pairs of numbers and packed pairs of
// 4, 6 and 8 bits.
#pragma once
#include "ptx_arithmetic.h"

namespace ptx {
// ---- Pairs of narrow numbers: cvt.rn.satfinite.e4m3x2.f32 d, high, low; cvt.rn.f16x2.e4m3x2 d, a; and others
struct NarrowFormat {
  const char* name;
  int bits, fraction, bias;
  double largest;
  unsigned nan;                         // the result for a NaN
  unsigned infinity;                    // the bits of infinity, or 0 if the format has none
  unsigned largest_bits;                // those of `largest`
  unsigned (*rounded)(unsigned, bool);  // the bits of a float's magnitude, without a largest exponent
};
inline const NarrowFormat* narrow_format(const NamePart& type) {
  static constexpr NarrowFormat formats[] = {{"e4m3x2", 8, 3, 7, 448, 0x7f, 0, 0x7e, ww::small_float_bits<3, 7>},
                                             {"e5m2x2", 8, 2, 15, 57344, 0x7f, 0x7c, 0x7b, ww::small_float_bits<2, 15>},
                                             {"e2m3x2", 6, 3, 1, 7.5, 0x1f, 0, 0x1f, ww::small_float_bits<3, 1>},
                                             {"e3m2x2", 6, 2, 3, 28, 0x1f, 0, 0x1f, ww::small_float_bits<2, 3>},
                                             {"e2m1x2", 4, 1, 1, 6, 0x7, 0, 0x7, ww::small_float_bits<1, 1>},
                                             {"ue8m0x2", 8, 0, 127, 0x1p127, 0xff, 0, 0xfe, nullptr}};
  if (type.empty()) return nullptr;
  for (const NarrowFormat& format : formats)
    if (!std::strcmp(type.text, format.name)) return &format;
  return nullptr;
}
inline bool is_scale(const NarrowFormat& format) { return format.fraction == 0; }

// 2^(bits - 127); the sign of the source is ignored. rz and rp round the exponent.
inline unsigned scale_bits(double x, bool up, bool satfinite) {
  if (std::isnan(x)) return 0xff;
  x = fabs(x);
  if (x > 0x1p127) return !satfinite && (up || std::isinf(x)) ? 0xff : 0xfe;
  if (x <= 0x1p-127) return 0;
  int exponent;
  const double fraction = frexp(x, &exponent);  // in [0.5, 1)
  return static_cast<unsigned>(exponent - 1 + (up && fraction > 0.5) + 127);
}
// Rounded to nearest even, and to the largest finite number beyond it. x is a float's value.
inline unsigned narrow_bits(double x, const NarrowFormat& format, const Instruction& i) {
  if (is_scale(format)) return scale_bits(x, i.has("rp"), i.has("satfinite"));
  if (std::isnan(x)) return format.nan;
  if (i.has("relu") && x < 0) x = 0;
  const unsigned u = ww::bits<unsigned>(static_cast<float>(x)), sign = u >> 31 << (format.bits - 1);
  return sign | std::min(format.rounded(u & 0x7fffffffu, sign), format.largest_bits);
}
inline double narrow_value(unsigned bits, const NarrowFormat& format) {
  bits &= (1u << format.bits) - 1;
  if (is_scale(format)) return bits == 0xff ? NAN : ldexp(1.0, static_cast<int>(bits) - format.bias);
  const unsigned magnitude = bits & ((1u << (format.bits - 1)) - 1);
  if (format.bits == 8 && (format.infinity ? magnitude > format.infinity : magnitude == format.nan)) return NAN;
  const double sign = bits >> (format.bits - 1) ? -1 : 1;
  if (format.infinity && magnitude == format.infinity) return sign * INFINITY;
  const int exponent = static_cast<int>(magnitude >> format.fraction);
  const unsigned fraction = magnitude & ((1u << format.fraction) - 1);
  const double significand = fraction + (exponent ? ldexp(1.0, format.fraction) : 0);
  return sign * ldexp(significand, std::max(exponent, 1) - format.bias - format.fraction);
}
inline void cvt_narrow_pair(Context& c, const Instruction& i) {
  const NarrowFormat *to = narrow_format(i.type), *from = narrow_format(i.source_type);
  if (to && !from) {
    const int width = to->bits == 4 ? 4 : 8;  // two e2m1 share a byte
    double high, low;
    if (i.source_type == "f32" && i.operands.size() == 3) {
      high = c.f32(i.operands[1]), low = c.f32(i.operands[2]);
    } else if ((i.source_type == "f16x2" || i.source_type == "bf16x2") && i.operands.size() == 2) {
      const NamePart half = i.source_type == "f16x2" ? "f16" : "bf16";
      const u64 pair = c.bits(i.operands[1]);
      high = c.real(pair >> 16 & 0xffff, half), low = c.real(pair & 0xffff, half);
    } else {
      c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is not emulated");
    }
    if (!i.has("satfinite") && !is_scale(*to) && (fabs(high) > to->largest || fabs(low) > to->largest))
      c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " of a number beyond its range is not emulated");
    c.set_bits(i.operands[0], narrow_bits(high, *to, i) << width | narrow_bits(low, *to, i), type_bytes(i.type));
    return;
  }
  if (!from || to || (i.type != "f16x2" && i.type != "bf16x2") || i.operands.size() != 2)
    c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is not emulated");
  const u64 pair = c.bits(i.operands[1]);
  u64 result = 0;
  for (int half = 0; half < 2; ++half) {
    double value = narrow_value(static_cast<unsigned>(pair >> (from->bits == 4 ? 4 : 8) * half), *from);
    if (i.has("relu") && value < 0) value = 0;
    const float odd = ww::to_odd(value);
    result |= static_cast<u64>(i.type == "f16x2" ? ww::half_bits(odd) : ww::bfloat16_bits(odd)) << (16 * half);
  }
  c.set_bits(i.operands[0], result, 4);
}

// ---- Conversion: cvt{.rounding}{.sat}.to.from
template <ww::Rounding mode>
inline u64 converted_to_narrow(float x, const NamePart& to) {
  return to == "f16" ? ww::half_bits<mode>(x) : ww::bfloat16_bits<mode>(x);
}
inline u64 to_narrow(float x, const NamePart& to, const Instruction& i) {
  if (i.has("relu") && x < 0) x = 0;
  if (i.has("rz") || i.has("rzi")) return converted_to_narrow<ww::Rounding::zero>(x, to);
  if (i.has("rm")) return converted_to_narrow<ww::Rounding::down>(x, to);
  if (i.has("rp")) return converted_to_narrow<ww::Rounding::up>(x, to);
  return converted_to_narrow<ww::Rounding::nearest>(x, to);
}
inline double rounded_to_integer(double x, const Instruction& i) {
  if (i.has("rni") || i.has("rn")) return rint(x);
  if (i.has("rmi") || i.has("rm")) return floor(x);
  if (i.has("rpi") || i.has("rp")) return ceil(x);
  return trunc(x);
}
inline void cvt(Context& c, const Instruction& i) {
  const NamePart &to = i.type, &from = i.source_type;
  const Operand& result = i.operands[0];
  if (narrow_format(to) || narrow_format(from)) return cvt_narrow_pair(c, i);
  if (to == "f16x2" || to == "bf16x2") {  // the first source goes to the upper half
    if (i.operands.size() < 3) c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is not emulated");
    const NamePart half = to == "f16x2" ? "f16" : "bf16";
    c.set_bits(result, to_narrow(c.f32(i.operands[1]), half, i) << 16 | to_narrow(c.f32(i.operands[2]), half, i), 4);
    return;
  }
  if (to == "tf32") {  // 10 bits of fraction; rna rounds halves away from zero
    unsigned u = c.u32(i.operands[1]);
    if ((u & 0x7fffffffu) < 0x7f800000u) u += i.has("rna") ? 0x1000u : 0xfffu + (u >> 13 & 1);
    c.set_bits(result, u & 0xffffe000u, 4);
    return;
  }
  const bool from_float = is_float(from), to_float = is_float(to);
  if (from_float) {
    double x = from == "f32" ? c.f32(i.operands[1]) : c.real(c.bits(i.operands[1]), from);
    if (to_float) {
      if (i.has("rni") || i.has("rzi") || i.has("rmi") || i.has("rpi")) x = rounded_to_integer(x, i);
      if (i.has("sat")) x = x > 0 ? std::min(x, 1.0) : 0.0;
      if (to == "f16" || to == "bf16")
        c.set_bits(result, to_narrow(from == "f64" ? ww::to_odd(x) : static_cast<float>(x), to, i), 2);
      else
        store_float(c, result, x, to, i);
      return;
    }
    const double r = rounded_to_integer(x, i);
    const int width = to.number();
    const bool is_signed = to[0] == 's';
    const double low = is_signed ? -ldexp(1.0, width - 1) : 0.0, high = ldexp(1.0, is_signed ? width - 1 : width);
    u64 value;
    if (x != x)
      value = width == 64 ? 1ull << 63 : 0;
    else if (r <= low)
      value = is_signed ? ~0ull << (width - 1) : 0;
    else if (r >= high)
      value = width == 64 ? (is_signed ? ~0ull >> 1 : ~0ull) : static_cast<u64>(high) - 1;
    else
      value = is_signed ? static_cast<u64>(static_cast<long long>(r)) : static_cast<u64>(r);
    c.set_bits(result, truncated(value, type_bytes(to)), type_bytes(to));
    return;
  }
  const u64 value = c.integer(i.operands[1], from);
  if (to_float) {
    const long double exact =
        from[0] == 's' ? static_cast<long double>(static_cast<long long>(value)) : static_cast<long double>(value);
    if (to == "f16" || to == "bf16")
      c.set_bits(result, to_narrow(ww::narrowed(static_cast<long long>(value)), to, i), 2);
    else if (to == "f64")
      c.set_f64(result, static_cast<double>(exact));
    else
      c.set_f32(result, static_cast<float>(exact));
    return;
  }
  u64 narrowed = value;
  if (i.has("sat")) {
    const int width = to.number();
    const auto x = static_cast<long long>(value);
    const long long low = to[0] == 's' ? -(1ll << (width - 1)) : 0,
                    high = to[0] == 's' ? (1ll << (width - 1)) - 1 : (1ll << width) - 1;
    narrowed = static_cast<u64>(x < low ? low : x > high ? high : x);
  }
  // A result narrower than its register is sign- or zero-extended.
  c.set_bits(result, to[0] == 's' ? narrowed : truncated(narrowed, type_bytes(to)));
}
}  // namespace ptx
