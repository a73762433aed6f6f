// Shared by the floating-point handlers: host rounding modes, flush-to-zero, canonical NaNs, comparisons.
#pragma once
#include <cfenv>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "lanes.h"

namespace ww::machine {

constexpr u32 kCanonicalNan = 0x7fffffffu;  // result of single-precision instructions for NaN

// ---- Modifiers of an instruction, decoded into scratch[0]

enum class Round : u8 { kNearest, kDown, kUp, kZero };

inline Round round_of(const Instruction& n) {
  if (n.has("RM") || n.has("FLOOR")) return Round::kDown;
  if (n.has("RP") || n.has("CEIL")) return Round::kUp;
  if (n.has("RZ") || n.has("TRUNC")) return Round::kZero;
  return Round::kNearest;
}

// Sets the host's rounding mode for the lifetime of the object. Pass results through `keep`: otherwise the compiler can
// move the computation out of this scope.
class Rounding {
 public:
  explicit Rounding(Round mode) : on_(mode != Round::kNearest) {
    if (on_) set(mode);
    barrier();
  }
  ~Rounding() {
    barrier();
    if (on_) set(Round::kNearest);
  }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;
  template <class T>
  static void keep(T& value) {
    __asm__ volatile("" : : "r"(&value) : "memory");
  }

 private:
  static void barrier() { __asm__ volatile("" : : : "memory"); }
  static void set(Round mode) {
#if defined(__SSE__)
    static const unsigned bits[] = {0x0000, 0x2000, 0x4000, 0x6000};
    _mm_setcsr((_mm_getcsr() & ~0x6000u) | bits[static_cast<unsigned>(mode)]);
#else
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    std::fesetround(modes[static_cast<unsigned>(mode)]);
#endif
  }
  bool on_;
};

// ---- Single words

inline u32 flushed(u32 bits) { return choose((bits & 0x7f800000u) != 0, bits, bits & 0x80000000u); }
// Maps a float to a signed integer with the order -NaN, -inf, ... -0, +0, ... inf, NaN.
inline i32 order(u32 bits) { return static_cast<i32>(bits ^ (static_cast<u32>(static_cast<i32>(bits) >> 31) >> 1)); }
inline bool is_nan(u32 bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }
inline u32 canonical(float value) { return value != value ? kCanonicalNan : as_bits(value); }
inline u32 positive(u32 bits) {
  return choose((order(bits) < 0) & !is_nan(bits), 0, bits);
}  // max(x, 0); NaN is unchanged
inline float saturated(float value) { return value > 0.0f ? value < 1.0f ? value : 1.0f : 0.0f; }  // of a NaN: 0

// Minimum of two floats, with -0 < +0. If one is NaN, returns the other; if both are NaN (with `strict` = 1: if either
// is), returns the canonical NaN. The maximum is the negated minimum of the negated operands.
inline u32 float_minimum(u32 a, u32 b, u32 strict) {
  const u32 smaller = choose(order(a) < order(b), a, b);
  const u32 number = choose(is_nan(a), b, choose(is_nan(b), a, smaller));
  const u32 bad =
      static_cast<u32>(is_nan(number)) | (strict & (static_cast<u32>(is_nan(a)) | static_cast<u32>(is_nan(b))));
  return number ^ ((number ^ kCanonicalNan) & -bad);
}

// ---- Comparisons

enum : u64 { kBelow = 1, kSame = 2, kAbove = 4, kUnordered = 8, kNoRelation = ~u64{0} };

inline u64 float_relation(const Instruction& n) {
  static const char* const names[16] = {"F",   "LT",  "EQ",  "LE",  "GT",  "NE",  "GE",  "NUM",
                                        "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T"};
  for (u64 k = 0; k < 16; k++)
    if (n.has(names[k])) return k;
  return kNoRelation;
}

// The lanes in which the floating-point values left(l) and right(l) satisfy the relation.
template <class Left, class Right>
inline Mask compare(u64 relation, Left&& left, Right&& right) {
  // A relation that holds for unordered operands is the complement of an ordered one.
  const bool invert = relation & kUnordered;
  Mask found = 0;
  switch (invert ? ~relation & 7 : relation) {
    case kBelow:
      found = lanes_where([&](unsigned l) { return left(l) < right(l); });
      break;
    case kSame:
      found = lanes_where([&](unsigned l) { return left(l) == right(l); });
      break;
    case kBelow | kSame:
      found = lanes_where([&](unsigned l) { return left(l) <= right(l); });
      break;
    case kAbove:
      found = lanes_where([&](unsigned l) { return left(l) > right(l); });
      break;
    case kBelow | kAbove:
      found = lanes_where([&](unsigned l) { return left(l) < right(l) || left(l) > right(l); });
      break;
    case kAbove | kSame:
      found = lanes_where([&](unsigned l) { return left(l) >= right(l); });
      break;
    case kBelow | kSame | kAbove:
      found = lanes_where([&](unsigned l) { return left(l) == left(l) && right(l) == right(l); });
      break;
    default:
      break;
  }
  return invert ? ~found : found;
}

}  // namespace ww::machine
