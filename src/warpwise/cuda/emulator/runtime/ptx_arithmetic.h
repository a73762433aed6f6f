// The handlers of PTX instructions that only use registers: moves, integer and floating-point arithmetic, bit
// operations and comparisons.
#pragma once
#include "ptx_context.h"

namespace ptx {
// ---- Moves
inline void mov(Context& c, const Instruction& i) {
  const unsigned bytes = type_bytes(i.type);
  const Operand &to = i.operands[0], &from = i.operands[1];
  if (from.kind == Kind::vector) {  // pack
    const unsigned width = 8 * bytes / static_cast<unsigned>(from.parts.size());
    u64 value = 0;
    for (size_t k = 0; k < from.parts.size(); ++k)
      value |= (c.bits(from.parts[k]) & ((width < 64 ? 1ull << width : 0) - 1)) << (width * k);
    c.set_bits(to, value, bytes);
  } else if (to.kind == Kind::vector) {  // unpack
    const unsigned width = 8 * bytes / static_cast<unsigned>(to.parts.size());
    const u64 value = c.bits(from);
    for (size_t k = 0; k < to.parts.size(); ++k)
      c.set_bits(to.parts[k], value >> (width * k) & ((width < 64 ? 1ull << width : 0) - 1), width / 8);
  } else if (i.type == "f64" && from.kind == Kind::immediate && !from.is_double) {
    c.set_f64(to, static_cast<double>(static_cast<long long>(from.bits)));
  } else if (i.type == "f32" && from.kind == Kind::immediate && from.is_double) {
    c.set_f32(to, c.f32(from));
  } else {
    c.set_bits(to, i.type == "pred" ? c.predicate(from) : c.bits(from), bytes ? bytes : 8);
  }
}
inline void no_operation(Context&, const Instruction&) {}
inline void create_policy(Context& c, const Instruction& i) { c.set_bits(i.operands[0], 0); }

// ---- Integers
inline u64 truncated(u64 value, unsigned bytes) { return bytes >= 8 ? value : value & ((1ull << (8 * bytes)) - 1); }

inline u64 integer_result(const NamePart& what, const Instruction& i, u64 a, u64 b, Context& c) {
  const bool is_signed = i.type[0] == 's';
  const unsigned width = 8 * type_bytes(i.type);
  const auto sa = static_cast<long long>(a), sb = static_cast<long long>(b);
  if (what == "add") {
    if (i.has("sat")) return static_cast<u64>(std::min<long long>(std::max<long long>(sa + sb, INT_MIN), INT_MAX));
    return a + b;
  }
  if (what == "sub") {
    if (i.has("sat")) return static_cast<u64>(std::min<long long>(std::max<long long>(sa - sb, INT_MIN), INT_MAX));
    return a - b;
  }
  if (what == "mul" || what == "mad") {
    if (i.has("hi"))
      return is_signed ? static_cast<u64>(static_cast<__int128>(sa) * sb >> width)
                       : static_cast<u64>(static_cast<unsigned __int128>(a) * b >> width);
    return a * b;
  }
  if (what == "mul24" || what == "mad24") return a * b;
  if (what == "div" || what == "rem") {
    if (b == 0) c.fail(WW_UNDEFINED, "inline PTX: " + i.name + " by zero");
    if (what == "div") return is_signed ? static_cast<u64>(sa / sb) : a / b;
    return is_signed ? static_cast<u64>(sa % sb) : a % b;
  }
  if (what == "min") return is_signed ? static_cast<u64>(std::min(sa, sb)) : std::min(a, b);
  if (what == "max") return is_signed ? static_cast<u64>(std::max(sa, sb)) : std::max(a, b);
  if (what == "and") return a & b;
  if (what == "or") return a | b;
  if (what == "xor") return a ^ b;
  // A shift by the width or more shifts out every bit.
  const u64 count = b & 0xffffffffu;
  if (what == "shl") return count >= width ? 0 : a << count;
  return count >= width ? (is_signed && sa < 0 ? ~0ull : 0)
         : is_signed    ? static_cast<u64>(sa >> count)
                        : a >> count;  // shr
}

// ---- Floating point
inline float flushed(float x, const Instruction& i) {
  return i.has("ftz") && fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x;
}
inline float rounded_f32(double exact, const Instruction& i) {
  const float nearest = static_cast<float>(exact);
  const double error = exact - nearest;
  if (i.has("rz")) return ww::directed<ww::Rounding::zero>(nearest, error);
  if (i.has("rm")) return ww::directed<ww::Rounding::down>(nearest, error);
  if (i.has("rp")) return ww::directed<ww::Rounding::up>(nearest, error);
  return nearest;
}
// The smaller or larger of two numbers: a NaN yields to a number, and -0 is smaller than +0.
template <class Float>
inline Float extreme(bool smallest, Float a, Float b) {
  if (a == 0 && b == 0) return std::signbit(a) == smallest ? a : b;
  return smallest ? std::fmin(a, b) : std::fmax(a, b);
}
inline double float_operation(const NamePart& what, double a, double b, const Instruction& i) {
  if (what == "add") return a + b;
  if (what == "sub") return a - b;
  if (what == "mul") return a * b;
  if (what == "div") return a / b;
  const bool nan = i.has("NaN") && (std::isnan(a) || std::isnan(b));
  if (what == "min") return nan ? NAN : extreme(true, a, b);
  if (what == "max") return nan ? NAN : extreme(false, a, b);
  return copysign(b, a);  // copysign d, a, b: the sign of a on b
}
inline void store_float(Context& c, const Operand& to, double value, const NamePart& type, const Instruction& i) {
  if (i.has("sat")) value = value > 0 ? std::min(value, 1.0) : 0.0;
  if (i.has("relu")) value = value < 0 ? 0.0 : value;
  if (type == "f64")
    c.set_f64(to, value);
  else if (type == "f16")
    c.set_bits(to, ww::half_bits(ww::to_odd(value)), 2);
  else if (type == "bf16")
    c.set_bits(to, ww::bfloat16_bits(ww::to_odd(value)), 2);
  else
    c.set_f32(to, flushed(rounded_f32(value, i), i));
}
// Applies `operation` to the sources, or to each half of packed sources (f16x2, bf16x2).
template <class F>
inline void apply_elementwise(Context& c, const Instruction& i, F operation) {
  const size_t sources = i.operands.size() - 1;
  if (i.type == "f32x2") {
    u64 pair = 0;
    for (int lane = 0; lane < 2; ++lane) {
      double in[3] = {};
      for (size_t k = 0; k < sources && k < 3; ++k)
        in[k] = flushed(ww::bits<float>(static_cast<unsigned>(c.bits(i.operands[k + 1]) >> (32 * lane))), i);
      const float value = flushed(rounded_f32(operation(in[0], in[1], in[2]), i), i);
      pair |= static_cast<u64>(ww::bits<unsigned>(value)) << (32 * lane);
    }
    c.set_bits(i.operands[0], pair);
    return;
  }
  if (i.type != "f16x2" && i.type != "bf16x2") {
    double in[3] = {};
    for (size_t k = 0; k < sources && k < 3; ++k)
      in[k] = i.type == "f32" ? flushed(c.f32(i.operands[k + 1]), i) : c.real(c.bits(i.operands[k + 1]), i.type);
    store_float(c, i.operands[0], operation(in[0], in[1], in[2]), i.type, i);
    return;
  }
  const NamePart half = i.type == "f16x2" ? "f16" : "bf16";
  u64 packed = 0;
  for (int lane = 0; lane < 2; ++lane) {
    double in[3] = {};
    for (size_t k = 0; k < sources && k < 3; ++k)
      in[k] = c.real(c.bits(i.operands[k + 1]) >> (16 * lane) & 0xffff, half);
    double value = operation(in[0], in[1], in[2]);
    if (i.has("sat")) value = value > 0 ? std::min(value, 1.0) : 0.0;
    if (i.has("relu")) value = value < 0 ? 0.0 : value;
    const float odd = ww::to_odd(value);
    packed |= static_cast<u64>(half == "f16" ? ww::half_bits(odd) : ww::bfloat16_bits(odd)) << (16 * lane);
  }
  c.set_bits(i.operands[0], packed, 4);
}

inline void binary(Context& c, const Instruction& i) {
  const NamePart& what = i.parts[0];
  if (is_float(i.type)) {
    apply_elementwise(c, i, [&](double a, double b, double) { return float_operation(what, a, b, i); });
    return;
  }
  if (i.type == "pred") {
    const bool a = c.predicate(i.operands[1]), b = c.predicate(i.operands[2]);
    c.set_bits(i.operands[0], what == "and" ? a && b : what == "or" ? a || b : a != b, 4);
    return;
  }
  const u64 a = c.integer(i.operands[1], i.type);
  const bool shift = what == "shl" || what == "shr";
  const u64 b = shift ? c.u32(i.operands[2]) : c.integer(i.operands[2], i.type);
  const unsigned bytes = type_bytes(i.type) * (i.has("wide") ? 2 : 1);
  c.set_bits(i.operands[0], truncated(integer_result(what, i, a, b, c), bytes), bytes);
}
inline void multiply_add(Context& c, const Instruction& i) {
  if (is_float(i.type)) {
    if (i.type == "f32x2") {
      u64 pair = 0;
      for (int lane = 0; lane < 2; ++lane) {
        float in[3];
        for (size_t k = 0; k < 3; ++k)
          in[k] = ww::bits<float>(static_cast<unsigned>(c.bits(i.operands[k + 1]) >> (32 * lane)));
        pair |= static_cast<u64>(ww::bits<unsigned>(flushed(fmaf(in[0], in[1], in[2]), i))) << (32 * lane);
      }
      c.set_bits(i.operands[0], pair);
    } else if (i.type == "f32")
      c.set_f32(i.operands[0],
                flushed(i.has("rz") ? __fmaf_rz(c.f32(i.operands[1]), c.f32(i.operands[2]), c.f32(i.operands[3]))
                                    : fmaf(c.f32(i.operands[1]), c.f32(i.operands[2]), c.f32(i.operands[3])),
                        i));
    else
      apply_elementwise(c, i, [](double a, double b, double d) { return fma(a, b, d); });
    return;
  }
  const unsigned bytes = type_bytes(i.type) * (i.has("wide") ? 2 : 1);
  const u64 shape = integer_result("mad", i, c.integer(i.operands[1], i.type), c.integer(i.operands[2], i.type), c);
  const NamePart wide = i.type[0] + std::to_string(8 * bytes);
  c.set_bits(i.operands[0], truncated(shape + c.integer(i.operands[3], wide), bytes), bytes);
}
// add, sub and mad with .cc write the carry (or borrow) of the thread; addc, subc and madc also read it.
inline void with_carry(Context& c, const Instruction& i) {
  const NamePart& what = i.parts[0];
  const bool subtracts = what.starts_with("sub"), multiplies = what.starts_with("mad");
  const unsigned bytes = type_bytes(i.type);
  u64 a = c.integer(i.operands[1], i.type);
  if (multiplies) a = integer_result("mad", i, a, c.integer(i.operands[2], i.type), c);
  const u64 b = c.integer(i.operands[multiplies ? 3 : 2], i.type);
  const unsigned __int128 left = truncated(a, bytes), right = truncated(b, bytes);
  const unsigned carry = what[3] == 'c' && *ww_carry() ? 1 : 0;
  const unsigned __int128 result = subtracts ? left - right - carry : left + right + carry;
  if (i.has("cc")) *ww_carry() = static_cast<bool>(result >> (8 * bytes) & 1);
  c.set_bits(i.operands[0], truncated(static_cast<u64>(result), bytes), bytes);
}
inline void unary(Context& c, const Instruction& i) {
  const NamePart& what = i.parts[0];
  if (is_float(i.type)) {
    apply_elementwise(c, i, [&](double a, double, double) -> double {
      if (what == "neg") return -a;
      if (what == "abs") return fabs(a);
      if (what == "ex2") return i.type == "f32" ? exp2f(static_cast<float>(a)) : exp2(a);
      if (what == "lg2") return i.type == "f32" ? log2f(static_cast<float>(a)) : log2(a);
      if (what == "rcp") return 1.0 / a;
      if (what == "rsqrt") return 1.0 / sqrt(a);
      if (what == "sqrt") return sqrt(a);
      if (what == "sin") return sin(a);
      if (what == "cos") return cos(a);
      return tanh(a);
    });
    return;
  }
  const unsigned bytes = type_bytes(i.type);
  const u64 a = c.integer(i.operands[1], i.type), low = truncated(a, bytes);
  u64 result = 0;
  if (what == "neg") result = 0 - a;
  if (what == "abs") result = static_cast<long long>(a) < 0 ? 0 - a : a;
  if (what == "not") result = i.type == "pred" ? !c.predicate(i.operands[1]) : ~a;
  if (what == "cnot") result = low == 0;
  if (what == "popc") result = static_cast<u64>(__builtin_popcountll(low));
  if (what == "clz") result = low ? static_cast<u64>(__builtin_clzll(low)) - (64 - 8 * bytes) : 8 * bytes;
  if (what == "brev") result = __brevll(low) >> (64 - 8 * bytes);
  if (what == "bfind") {
    const u64 value = static_cast<long long>(a) < 0 && i.type[0] == 's' ? truncated(~a, bytes) : low;
    const unsigned at = value ? 63 - static_cast<unsigned>(__builtin_clzll(value)) : 0xffffffffu;
    result = value && i.has("shiftamt") ? 8 * bytes - 1 - at : at;
  }
  const bool count = what == "popc" || what == "clz" || what == "bfind";
  c.set_bits(i.operands[0], truncated(result, count ? 4 : bytes), count ? 4 : bytes);
}

// ---- Bits
inline void lop3(Context& c, const Instruction& i) {
  const unsigned a = c.u32(i.operands[1]), b = c.u32(i.operands[2]), d = c.u32(i.operands[3]),
                 table = c.u32(i.operands[4]);
  unsigned result = 0;
  for (unsigned row = 0; row < 8; ++row)
    if (table >> row & 1) result |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? d : ~d);
  c.set_bits(i.operands[0], result, 4);
}
inline void prmt(Context& c, const Instruction& i) {
  unsigned selector = c.u32(i.operands[3]);
  const unsigned n = selector & 3;
  if (i.has("f4e")) selector = 0x3210u + 0x1111u * n;
  if (i.has("b4e")) selector = n | ((n - 1) & 7) << 4 | ((n - 2) & 7) << 8 | ((n - 3) & 7) << 12;
  if (i.has("rc8")) selector = 0x1111u * n;
  c.set_bits(i.operands[0], ww::permuted_bytes(c.u32(i.operands[1]), c.u32(i.operands[2]), selector), 4);
}
inline void shf(Context& c, const Instruction& i) {
  const unsigned lo = c.u32(i.operands[1]), hi = c.u32(i.operands[2]), n = c.u32(i.operands[3]);
  const bool clamp = i.has("clamp");
  const unsigned result = i.has("l") ? (clamp ? __funnelshift_lc(lo, hi, n) : __funnelshift_l(lo, hi, n))
                                     : (clamp ? __funnelshift_rc(lo, hi, n) : __funnelshift_r(lo, hi, n));
  c.set_bits(i.operands[0], result, 4);
}
inline void bfe(Context& c, const Instruction& i) {
  const unsigned width = 8 * type_bytes(i.type), at = c.u32(i.operands[2]) & 255, length = c.u32(i.operands[3]) & 255;
  const u64 a = c.integer(i.operands[1], i.type);
  u64 field = at >= 64           ? (i.type[0] == 's' && static_cast<long long>(a) < 0 ? ~0ull : 0)
              : i.type[0] == 's' ? static_cast<u64>(static_cast<long long>(a) >> at)
                                 : a >> at;
  if (length < 64) field &= (1ull << length) - 1;
  if (i.type[0] == 's' && length && length < 64 && field >> (length - 1) & 1) field |= ~((1ull << length) - 1);
  c.set_bits(i.operands[0], truncated(field, width / 8), width / 8);
}
inline void bfi(Context& c, const Instruction& i) {
  const unsigned bytes = type_bytes(i.type), at = c.u32(i.operands[3]) & 255, length = c.u32(i.operands[4]) & 255;
  const u64 mask = at >= 64 ? 0 : (length >= 64 ? ~0ull : (1ull << length) - 1) << at;
  const u64 shifted = at >= 64 ? 0 : c.bits(i.operands[1]) << at;
  c.set_bits(i.operands[0], truncated((c.bits(i.operands[2]) & ~mask) | (shifted & mask), bytes), bytes);
}
inline void dp4a(Context& c, const Instruction& i) {
  const unsigned a = c.u32(i.operands[1]), b = c.u32(i.operands[2]), d = c.u32(i.operands[3]);
  const bool sa = i.type[0] == 's', sb = i.source_type.empty() ? sa : i.source_type[0] == 's';
  unsigned result = d;
  for (int k = 0; k < 4; ++k) {
    const int x = sa ? static_cast<signed char>(a >> 8 * k) : static_cast<unsigned char>(a >> 8 * k);
    const int y = sb ? static_cast<signed char>(b >> 8 * k) : static_cast<unsigned char>(b >> 8 * k);
    result += static_cast<unsigned>(x * y);
  }
  c.set_bits(i.operands[0], result, 4);
}

// ---- Comparison and selection
inline bool compares(Context& c, const Instruction& i, const Operand& x, const Operand& y) {
  const NamePart& how = i.parts[1];
  if (is_float(i.type)) {
    const double a = i.type == "f32" ? c.f32(x) : c.real(c.bits(x), i.type),
                 b = i.type == "f32" ? c.f32(y) : c.real(c.bits(y), i.type);
    const bool unordered = std::isnan(a) || std::isnan(b);
    if (how == "num") return !unordered;
    if (how == "nan") return unordered;
    if (unordered) return how[1] && how[2] == 'u' && !how[3];
    return how.starts_with("eq")   ? a == b
           : how.starts_with("ne") ? a != b
           : how.starts_with("lt") ? a < b
           : how.starts_with("le") ? a <= b
           : how.starts_with("gt") ? a > b
                                   : a >= b;
  }
  const u64 a = c.integer(x, i.type), b = c.integer(y, i.type);
  const auto sa = static_cast<long long>(a), sb = static_cast<long long>(b);
  const bool is_signed = i.type[0] == 's';
  if (how == "eq") return a == b;
  if (how == "ne") return a != b;
  if (how == "lt" || how == "lo") return is_signed ? sa < sb : a < b;
  if (how == "le" || how == "ls") return is_signed ? sa <= sb : a <= b;
  if (how == "gt" || how == "hi") return is_signed ? sa > sb : a > b;
  return is_signed ? sa >= sb : a >= b;
}
inline void setp(Context& c, const Instruction& i) {
  bool result = compares(c, i, i.operands[1], i.operands[2]), other = !result;
  if (i.operands.size() > 3) {
    const bool with = c.predicate(i.operands[3]);
    result = i.has("and") ? result && with : i.has("or") ? result || with : result != with;
    other = i.has("and") ? other && with : i.has("or") ? other || with : other != with;
  }
  c.set_bits(i.operands[0], result, 4);
  if (i.operands[0].pair) c.set_bits(i.operands[0].parts[0], other, 4);
}
inline void selp(Context& c, const Instruction& i) {
  const Operand& chosen = c.predicate(i.operands[3]) ? i.operands[1] : i.operands[2];
  c.set_bits(i.operands[0], i.type == "f32" ? ww::bits<unsigned>(c.f32(chosen)) : c.bits(chosen), type_bytes(i.type));
}
}  // namespace ptx
