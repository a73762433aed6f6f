// MUFU: reciprocal, square roots, exp2, log2, sine, cosine, tanh. The hardware's results are within 1 to 2 ulp; these
// are rounded from double precision. As on the hardware, subnormal operands and results are flushed to zero.
#include <cmath>

#include "floats.h"
#include "narrow.h"

namespace ww::machine {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

u32 result(float value) { return flushed(canonical(value)); }
u32 result(double value) { return result(static_cast<float>(value)); }

// Horner's method, unrolled; coefficients from the highest power down.
template <class... Rest>
inline double polynomial(double x, double sum, double next, Rest... rest) {
  if constexpr (sizeof...(rest) == 0)
    return sum * x + next;
  else
    return polynomial(x, sum * x + next, rest...);
}

// 2^x: the integer part is added to the exponent; for the rest in [-1/2, 1/2] the series of exp(x ln 2).
u32 power_of_two(u32 x) {
  const u32 magnitude = x & 0x7fffffffu, sign = x & 0x80000000u;
  const float bounded = as_float(sign | choose(magnitude > 0x43480000u, 0x43480000u, magnitude));  // in [-200, 200]
  const float whole = (bounded + 12582912.0f) - 12582912.0f;
  const double t = static_cast<double>(bounded - whole) * 0.6931471805599453;
  const double sum = polynomial(t, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0);
  const u32 bits = as_bits(static_cast<float>(sum));
  const i32 moved = static_cast<i32>(bits + (static_cast<u32>(static_cast<i32>(whole)) << 23));
  const i32 exponent = static_cast<i32>(bits >> 23) + static_cast<i32>(whole);
  const u32 small = choose(exponent > 0, static_cast<u32>(moved), 0);
  return choose(magnitude > 0x7f800000u, kCanonicalNan, choose(exponent > 254, 0x7f800000u, small));
}

// log2 x: the exponent plus, for the mantissa in [sqrt(1/2), sqrt(2)), the series of artanh.
u32 logarithm(u32 x) {
  const u32 usual =
      -static_cast<u32>(x - 0x00800000u < 0x7f000000u);  // positive, normal and finite; otherwise x is replaced by 1
  const u32 bits = (x & usual) | (0x3f800000u & ~usual);
  const i32 exponent = static_cast<i32>(bits - 0x3f3504f3u) >> 23;
  const double m = as_float(bits - (static_cast<u32>(exponent) << 23));
  const double s = (m - 1.0) / (m + 1.0), q = s * s;
  const double sum = polynomial(q, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0);
  const u32 found = as_bits(static_cast<float>(exponent + 2.8853900817779268 * s * sum));
  const u32 special = choose((x << 1) == 0, 0xff800000u, choose(x == 0x7f800000u, x, kCanonicalNan));
  return (found & usual) | (special & ~usual);
}

struct Reciprocal {
  static constexpr bool kCheap = true;
  static u32 of(float x) { return result(1.0f / x); }
};
struct RootReciprocal {
  static constexpr bool kCheap = true;
  static u32 of(float x) { return result(1.0 / __builtin_sqrt(static_cast<double>(x))); }
};
struct Root {
  static constexpr bool kCheap = true;
  static u32 of(float x) { return result(__builtin_sqrtf(x)); }
};
struct Power {
  static constexpr bool kCheap = true;
  static u32 of(float x) { return power_of_two(as_bits(x)); }
};
struct Logarithm {
  static constexpr bool kCheap = true;
  static u32 of(float x) { return logarithm(as_bits(x)); }
};
// MUFU.SIN and .COS take their argument in units of 2 pi.
struct Sine {
  static constexpr bool kCheap = false;
  static u32 of(float x) {
    return std::isfinite(x) ? result(std::sin((x - std::rint(double{x})) * kTwoPi)) : kCanonicalNan;
  }
};
struct Cosine {
  static constexpr bool kCheap = false;
  static u32 of(float x) {
    return std::isfinite(x) ? result(std::cos((x - std::rint(double{x})) * kTwoPi)) : kCanonicalNan;
  }
};
struct Tangent {
  static constexpr bool kCheap = false;
  static u32 of(float x) { return result(std::tanh(static_cast<double>(x))); }
};

template <class Function>
void mufu(Warp& w, const Instruction& n, Mask lanes) {
  Vector t;
  const Vector& a = source(w, n, 1, t);
  const FloatSign sign(n.operands[1]);
  const auto value = [&](unsigned l) { return Function::of(as_float(flushed(sign(a.lane[l])))); };
  if (Function::kCheap)
    map(destination(w, n, 0), destination_lanes(n, lanes), value);
  else
    map_active(destination(w, n, 0), destination_lanes(n, lanes), value);
}

// .F16 and .BF16: one half of the operand (R5.H1: the upper half), result in the lower half.
template <class Function>
void mufu_half(Warp& w, const Instruction& n, Mask lanes) {
  Vector t;
  const Vector& a = source(w, n, 1, t);
  const Operand& operand = n.operands[1];
  const unsigned by = n.scratch[0] & 1 ? 16 : 0;
  const bool bfloat = n.scratch[0] & 2;
  map_active(destination(w, n, 0), lanes, [&](unsigned l) {
    u32 bits = a.lane[l] >> by & 0xffff;
    if (operand.absolute) bits &= 0x7fff;
    if (operand.negated) bits ^= 0x8000;
    const u32 found = Function::of(bfloat ? bfloat_to_float(bits) : half_to_float(bits));
    return bfloat ? float_to_bfloat(as_float(found)) : float_to_half(as_float(found));
  });
}

// .RCP64H and .RSQ64H: upper word of a double to upper word of the result, the start value of Newton iterations.
void mufu_64(Warp& w, const Instruction& n, Mask lanes) {
  Vector t;
  const Vector& a = source(w, n, 1, t);
  const FloatSign sign(n.operands[1]);
  const bool root = n.scratch[0];
  map_active(destination(w, n, 0), lanes, [&](unsigned l) {
    const u32 given = sign(a.lane[l]);
    const double x = as_double(static_cast<u64>(given & 0x7ff00000u ? given : given & 0x80000000u) << 32);
    const u32 found = static_cast<u32>(as_bits(root ? 1.0 / std::sqrt(x) : 1.0 / x) >> 32);
    return found & 0x7ff00000u ? found : found & 0x80000000u;
  });
}

template <class Function>
Handler choose(const Instruction& n) {
  return n.has("F16") || n.has("BF16") ? mufu_half<Function> : mufu<Function>;
}

Handler decode_mufu(Instruction& n) {
  if (n.operands.size() != 2) return nullptr;
  if (!has_only(n, {"RCP", "RSQ", "SQRT", "EX2", "LG2", "SIN", "COS", "TANH", "RCP64H", "RSQ64H", "F16", "BF16"}))
    return nullptr;
  const std::string& suffix = n.operands[1].suffix;
  const bool half = n.has("F16") || n.has("BF16");
  const bool upper = suffix == "H1" || suffix == "H1_H1", lower = suffix.empty() || suffix == "H0" || suffix == "H0_H0";
  if (half ? !upper && !lower : !suffix.empty()) return nullptr;
  n.scratch[0] = half ? upper * 1u + n.has("BF16") * 2u : n.has("RSQ64H");
  if (n.has("RCP64H") || n.has("RSQ64H")) return mufu_64;
  if (n.has("RCP")) return choose<Reciprocal>(n);
  if (n.has("RSQ")) return choose<RootReciprocal>(n);
  if (n.has("SQRT")) return choose<Root>(n);
  if (n.has("EX2")) return choose<Power>(n);
  if (n.has("LG2")) return choose<Logarithm>(n);
  if (n.has("SIN")) return choose<Sine>(n);
  if (n.has("COS")) return choose<Cosine>(n);
  return n.has("TANH") ? choose<Tangent>(n) : nullptr;
}

const Opcode kMufu("MUFU", kXu, decode_mufu, "rounded from double; the hardware is within 2 ulp of that");

}  // namespace
}  // namespace ww::machine
