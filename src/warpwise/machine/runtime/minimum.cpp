// Integer minimum and maximum: IMNMX, VIMNMX, VIMNMX3, VIADDMNMX, on words and on packed 16-bit halves.
#include "lanes.h"

namespace ww::machine {
namespace {

// Minimum if the predicate operand is true, else maximum. max(x, y) = ~min(~x, ~y): x ^ flip maps both cases, signed
// and unsigned, to one comparison.
enum : u64 { kUnsigned = 1, kRelu = 2, kHalves = 4, kSum = 8, kThree = 16 };

u32 smaller(u32 a, u32 b, u32 flip) { return choose(static_cast<i32>(a ^ flip) < static_cast<i32>(b ^ flip), a, b); }

u32 smaller_halves(u32 a, u32 b, u32 flip) {
  const u32 x = a ^ flip, y = b ^ flip;
  const u32 low = choose(static_cast<i32>(x << 16) < static_cast<i32>(y << 16), a, b);
  const u32 high = choose(static_cast<i32>(x & 0xffff0000u) < static_cast<i32>(y & 0xffff0000u), a, b);
  return (low & 0xffff) | (high & 0xffff0000u);
}

u32 sum_of_halves(u32 a, u32 b) { return ((a + b) & 0xffff) | ((a & 0xffff0000u) + (b & 0xffff0000u)); }

u32 flip_of(bool minimum, bool is_unsigned, bool halves) {
  const u32 signs = halves ? 0x80008000u : 0x80000000u;
  return (is_unsigned ? signs : 0) ^ (minimum ? 0 : ~u32{0});
}

u32 relu(u32 value, bool halves) {
  if (!halves) return static_cast<i32>(value) < 0 ? 0 : value;
  return (value & 0x8000 ? 0 : value & 0xffff) | (value & 0x80000000u ? 0 : value & 0xffff0000u);
}

// min or max of two words, or of a sum and a third word.
template <bool kOfSum>
void plain(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned i = static_cast<unsigned>(n.scratch[0]);
  Vector ta, tb, tc;
  const Vector &a = source(w, n, i, ta), &b = source(w, n, i + 1, tb), &c = kOfSum ? source(w, n, i + 2, tc) : b;
  const IntegerSign sa(n.operands[i]), sb(n.operands[i + 1]);
  const u32 fa = sa.flip, fb = sb.flip, ones = sa.one + sb.one, signs = n.scratch[1] & kUnsigned ? 0x80000000u : 0;
  const Mask maximum = ~predicate(w, n.operands.back());
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    const u32 flip = signs ^ -(maximum >> l & 1);
    const u32 first = kOfSum ? (a.lane[l] ^ fa) + (b.lane[l] ^ fb) + ones : a.lane[l];
    return smaller(first, c.lane[l], flip);
  });
}

// scratch[0]: index of the first source; scratch[1]: flags.
template <bool kHalf>
void minimum(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned i = static_cast<unsigned>(n.scratch[0]);
  const u64 form = n.scratch[1];
  lanes = destination_lanes(n, lanes);
  Vector ta, tb, tc, first;
  const Vector *a = &source(w, n, i, ta), &b = source(w, n, i + 1, tb);
  const Vector& c = form & (kSum | kThree) ? source(w, n, i + 2, tc) : kZeroVector;
  const IntegerSign sa(n.operands[i]), sb(n.operands[i + 1]);
  const Mask choose = predicate(w, n.operands.back());
  const u32 low = flip_of(true, form & kUnsigned, kHalf), high = flip_of(false, form & kUnsigned, kHalf);
  const auto less = [](u32 x, u32 y, u32 flip) { return kHalf ? smaller_halves(x, y, flip) : smaller(x, y, flip); };
  const Vector* second = &b;
  if (form & kSum) {
    const u32 ones = kHalf ? (sa.one + sb.one) * 0x10001u : sa.one + sb.one;
    for (unsigned l = 0; l < kLanes; l++) {
      const u32 x = a->lane[l] ^ sa.flip, y = b.lane[l] ^ sb.flip;
      first.lane[l] = kHalf ? sum_of_halves(sum_of_halves(x, y), ones) : x + y + ones;
    }
    a = &first;
    second = &c;
  } else if (form & kThree) {
    for (unsigned l = 0; l < kLanes; l++)
      first.lane[l] = less(a->lane[l], b.lane[l], is_active(choose, l) ? low : high);
    a = &first;
    second = &c;
  }
  const bool clamp = form & kRelu;
  Vector made;
  for (unsigned l = 0; l < kLanes; l++) {
    const u32 value = less(a->lane[l], second->lane[l], is_active(choose, l) ? low : high);
    made.lane[l] = clamp ? relu(value, kHalf) : value;
  }
  // The predicate results are true if the first source was selected: for the low half, then for the high half.
  const Vector &x = *a, &y = *second;
  const auto taken = [&](u32 mask) {
    return lanes_where([&](unsigned l) {
      const u32 winner = less(x.lane[l], y.lane[l], is_active(choose, l) ? low : high);
      return ((winner ^ x.lane[l]) & mask) == 0;
    });
  };
  const bool wanted = n.operands[1].index != kPredicateTrue || n.operands[i - 1].index != kPredicateTrue;
  if (i > 1 && wanted) {
    const Mask above = taken(kHalf ? 0xffff0000u : ~u32{0}), below = taken(kHalf ? 0xffffu : ~u32{0});
    set_predicate(w, n.operands[1], lanes, below);
    if (i == 3) set_predicate(w, n.operands[2], lanes, above);
  }
  blend(destination(w, n, 0), made, lanes);
}

Handler decode(Instruction& n, u64 form) {
  if (!has_only(n, {"U32", "S32", "RELU", "S16x2", "U16x2"})) return nullptr;
  const unsigned first = 1 + predicates_at(n, 1);
  if (n.operands.size() != first + (form ? 4 : 3) || !is_predicate(n.operands.back())) return nullptr;
  const bool halves = n.has("S16x2") || n.has("U16x2");
  n.scratch[0] = first;
  n.scratch[1] = form | (n.has("U32") || n.has("U16x2")) * kUnsigned | n.has("RELU") * kRelu | halves * kHalves;
  bool wanted = false;
  for (unsigned k = 1; k < first; k++) wanted |= n.operands[k].index != kPredicateTrue;
  if (halves) return minimum<true>;
  if (wanted || n.has("RELU") || form & kThree) return minimum<false>;
  return form & kSum ? plain<true> : plain<false>;
}

Handler decode_two(Instruction& n) { return decode(n, 0); }
Handler decode_three(Instruction& n) { return decode(n, kThree); }
Handler decode_sum(Instruction& n) { return decode(n, kSum); }

const Opcode kImnmx("IMNMX", kAlu, decode_two), kVimnmx("VIMNMX", kAlu, decode_two);
const Opcode kVimnmx3("VIMNMX3", kAlu, decode_three), kViaddmnmx("VIADDMNMX", kAlu, decode_sum);
const Opcode kUimnmx("UIMNMX", kUniformPipe, decode_two), kUvimnmx("UVIMNMX", kUniformPipe, decode_two);
const Opcode kUvimnmx3("UVIMNMX3", kUniformPipe, decode_three);

}  // namespace
}  // namespace ww::machine
