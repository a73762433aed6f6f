// The handlers of cvt: between integers and floating-point numbers, and between pairs of numbers and packed pairs of
// 4, 6 and 8 bits.
#pragma once
#include "ptx_arithmetic.h"

namespace ptx {
// ---- Pairs of narrow numbers: cvt.rn.satfinite.e4m3x2.f32 d, high, low; cvt.rn.f16x2.e4m3x2 d, a; and others
struct NarrowFormat {
  const char* name;
  int width;                     // distance of the two numbers in bits: two e2m1 share a byte
  double largest;                // 0 for the scale factors ue8m0, which take every number
  unsigned char (*from)(float);  // rounds to nearest even; saturates to the largest finite number
  float (*value)(unsigned char);
};
template <__nv_fp8_interpretation_t kind>
inline unsigned char fp8_from(float x) {
  return ww::fp8_bits<kind>(x, __NV_SATFINITE);
}
template <int kExponent, int kFraction>
inline unsigned char finite_from(float x) {
  return ww::FiniteFloat<kExponent, kFraction>::template from<ww::Rounding::nearest>(x);
}
inline const NarrowFormat* narrow_format(const NamePart& type) {
  static constexpr NarrowFormat formats[] = {{"e4m3x2", 8, 448, fp8_from<__NV_E4M3>, ww::fp8_value<__NV_E4M3>},
                                             {"e5m2x2", 8, 57344, fp8_from<__NV_E5M2>, ww::fp8_value<__NV_E5M2>},
                                             {"e2m3x2", 8, 7.5, finite_from<2, 3>, ww::FiniteFloat<2, 3>::value},
                                             {"e3m2x2", 8, 28, finite_from<3, 2>, ww::FiniteFloat<3, 2>::value},
                                             {"e2m1x2", 4, 6, finite_from<2, 1>, ww::FiniteFloat<2, 1>::value},
                                             {"ue8m0x2", 8, 0, nullptr, ww::e8m0_value}};
  if (type.empty()) return nullptr;
  for (const NarrowFormat& format : formats)
    if (!std::strcmp(type.text, format.name)) return &format;
  return nullptr;
}
inline bool is_scale(const NarrowFormat& format) { return !format.from; }
inline unsigned narrow_bits(float x, const NarrowFormat& format, const Context& c, const Instruction& i) {
  if (is_scale(format))
    return ww::e8m0_bits(x, i.has("satfinite") ? __NV_SATFINITE : __NV_NOSAT,
                         i.has("rp") ? cudaRoundPosInf : cudaRoundZero, c.line);
  return format.from(i.has("relu") && x < 0 ? 0.0f : x);
}
inline void cvt_narrow_pair(Context& c, const Instruction& i) {
  const NarrowFormat *to = narrow_format(i.type), *from = narrow_format(i.source_type);
  if (to && !from) {
    float high, low;
    if (i.source_type == "f32" && i.operands.size() == 3) {
      high = c.f32(i.operands[1]), low = c.f32(i.operands[2]);
    } else if ((i.source_type == "f16x2" || i.source_type == "bf16x2") && i.operands.size() == 2) {
      const NamePart half = i.source_type == "f16x2" ? "f16" : "bf16";
      const u64 pair = c.bits(i.operands[1]);
      high = static_cast<float>(c.real(pair >> 16 & 0xffff, half));
      low = static_cast<float>(c.real(pair & 0xffff, half));
    } else {
      c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is not emulated");
    }
    if (!i.has("satfinite") && !is_scale(*to) && (fabs(high) > to->largest || fabs(low) > to->largest))
      c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " of a number beyond its range is not emulated");
    const unsigned high_bits = narrow_bits(high, *to, c, i);
    c.set_bits(i.operands[0], high_bits << to->width | narrow_bits(low, *to, c, i), type_bytes(i.type));
    return;
  }
  if (!from || to || (i.type != "f16x2" && i.type != "bf16x2") || i.operands.size() != 2)
    c.fail(WW_UNSUPPORTED, "inline PTX: " + i.name + " is not emulated");
  const u64 pair = c.bits(i.operands[1]);
  u64 result = 0;
  for (int half = 0; half < 2; ++half) {
    float value = from->value(static_cast<unsigned char>(pair >> from->width * half));
    if (i.has("relu") && value < 0) value = 0;
    result |= static_cast<u64>(i.type == "f16x2" ? ww::half_bits(value) : ww::bfloat16_bits(value)) << (16 * half);
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
