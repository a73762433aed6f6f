// Shifts and funnel shifts (SHF), and bit operations: BMSK, SGXT, FLO, POPC, BREV.
#include "lanes.h"

namespace ww::machine {
namespace {

// ---- SHF: {high, low} shifted; the result is the upper (.HI) or the lower word

enum : u64 { kLeft = 1, kSigned = 2, kDouble = 4, kWrap = 8, kUpper = 16 };

u32 amount_of(u32 given, u64 form) {
  const u32 bits = form & kDouble ? 64 : 32;
  return form & kWrap ? given & (bits - 1) : given < bits ? given : bits;
}

// Operands: low word, amount, high word.
template <bool kTowardsLeft, bool kArithmetic>
void funnel(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb, tc;
  const Vector &low = source(w, n, 1, ta), &amount = source(w, n, 2, tb), &high = source(w, n, 3, tc);
  const u64 form = n.scratch[0];
  const unsigned word = form & kUpper ? 32 : 0;
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    const u64 value = pair(low, high, l);
    const u32 by = amount_of(amount.lane[l], form), near = by < 63 ? by : 63;
    u64 moved;
    if (kTowardsLeft)
      moved = by > 63 ? 0 : value << near;
    else if (kArithmetic)
      moved = static_cast<u64>(static_cast<i64>(value) >> near);
    else
      moved = by > 63 ? 0 : value >> near;
    return static_cast<u32>(moved >> word);
  });
}

// The two forms used for shifts of one word.
void left(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, 1, ta), &amount = source(w, n, 2, tb);
  const bool wrap = n.scratch[0] & kWrap;
  const u32 mask = wrap ? 31 : ~u32{0};
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    const u32 by = amount.lane[l] & mask;
    return by < 32 ? a.lane[l] << (by & 31) : 0;
  });
}

template <unsigned kFrom, bool kArithmetic>
void right(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, kFrom, ta), &amount = source(w, n, 2, tb);
  const u32 mask = n.scratch[0] & kWrap ? n.scratch[0] & kDouble ? 63 : 31 : ~u32{0};
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    const u32 by = amount.lane[l] & mask;
    if (kArithmetic) return static_cast<u32>(static_cast<i32>(a.lane[l]) >> (by < 31 ? by : 31));
    return by < 32 ? a.lane[l] >> (by & 31) : 0;
  });
}

Handler decode_shf(Instruction& n) {
  if (n.operands.size() != 4 || !has_only(n, {"L", "R", "U32", "S32", "U64", "S64", "W", "HI"})) return nullptr;
  const bool is_signed = n.has("S32") || n.has("S64"), wide = n.has("U64") || n.has("S64");
  const u64 form =
      n.has("L") * kLeft | is_signed * kSigned | wide * kDouble | n.has("W") * kWrap | n.has("HI") * kUpper;
  n.scratch[0] = form;
  if (form & kLeft) return form & (kUpper | kDouble) ? funnel<true, false> : left;
  if (form & kUpper) return is_signed ? right<3, true> : right<3, false>;
  return is_signed ? funnel<false, true> : funnel<false, false>;
}

Handler decode_shl(Instruction& n) {
  n.scratch[0] = n.has("W") * kWrap;
  return n.operands.size() == 3 && has_only(n, {"W", "U32"}) ? left : nullptr;
}

Handler decode_shr(Instruction& n) {
  n.scratch[0] = n.has("W") * kWrap;
  if (n.operands.size() != 3 || !has_only(n, {"W", "U32", "S32"})) return nullptr;
  return n.has("U32") ? right<1, false> : right<1, true>;
}

// ---- Bit fields

// `width` ones from bit `position` on; clamped at bit 31, or position and width modulo 32 (.W).
void bmsk(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &position = source(w, n, 1, ta), &width = source(w, n, 2, tb);
  const bool wrap = n.scratch[0];
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    const u32 from = wrap ? position.lane[l] & 31 : position.lane[l];
    const u32 bits = wrap ? width.lane[l] & 31 : width.lane[l];
    const u32 ones = bits > 31 ? ~u32{0} : (u32{1} << (bits & 31)) - 1;
    return from > 31 ? 0 : ones << (from & 31);
  });
}

Handler decode_bmsk(Instruction& n) {
  n.scratch[0] = n.has("W");
  return n.operands.size() == 3 && has_only(n, {"W", "C"}) ? bmsk : nullptr;
}

// The low `width` bits of a, zero- or sign-extended.
void sgxt(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, 1, ta), &width = source(w, n, 2, tb);
  const bool wrap = n.scratch[0] & 1, is_signed = n.scratch[0] & 2;
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    const u32 bits = wrap ? width.lane[l] & 31 : width.lane[l];
    const u32 by = bits < 32 ? 32 - bits : 0;
    const u32 up = by > 31 ? 0 : a.lane[l] << (by & 31);
    const u32 down = by < 31 ? by : 31;
    return is_signed ? static_cast<u32>(static_cast<i32>(up) >> down) : up >> down >> (by - down);
  });
}

Handler decode_sgxt(Instruction& n) {
  n.scratch[0] = n.has("W") | (n.has("U32") ? 0u : 2u);
  return n.operands.size() == 3 && has_only(n, {"W", "C", "U32", "S32"}) ? sgxt : nullptr;
}

// ---- Bit counting

u32 inverted(const Operand& operand) { return operand.inverted ? ~u32{0} : 0; }

// Position of the leading one (leading zero of a negative number), or ~0; .SH: its distance from bit 31.
void flo(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned i = 1 + predicates_at(n, 1);
  lanes = destination_lanes(n, lanes);
  Vector t;
  const Vector& a = source(w, n, i, t);
  const bool is_signed = n.scratch[0] & 1, distance = n.scratch[0] & 2;
  const u32 flip = inverted(n.operands[i]);
  Vector made;
  for_lanes(lanes, [&](unsigned l) {
    const u32 given = a.lane[l] ^ flip, bits = is_signed && static_cast<i32>(given) < 0 ? ~given : given;
    const u32 zeros = bits ? static_cast<u32>(__builtin_clz(bits)) : 0;
    made.lane[l] = !bits ? ~u32{0} : distance ? zeros : 31 - zeros;
  });
  for_lanes(lanes, [&](unsigned l) { destination(w, n, 0).lane[l] = made.lane[l]; });
  if (i > 1) {
    Mask found = 0;
    for_lanes(lanes, [&](unsigned l) { found |= static_cast<Mask>(made.lane[l] != ~u32{0}) << l; });
    set_predicate(w, n.operands[1], lanes, found);
  }
}

Handler decode_flo(Instruction& n) {
  n.scratch[0] = (n.has("U32") ? 0u : 1u) | (n.has("SH") ? 2u : 0u);
  return n.operands.size() >= 2 && has_only(n, {"U32", "S32", "SH"}) ? flo : nullptr;
}

void popc(Warp& w, const Instruction& n, Mask lanes) {
  Vector t;
  const Vector& a = source(w, n, 1, t);
  const u32 flip = inverted(n.operands[1]);
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    u32 x = a.lane[l] ^ flip;
    x -= x >> 1 & 0x55555555u;
    x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
  });
}

Handler decode_popc(Instruction& n) { return n.operands.size() == 2 && has_only(n, {}) ? popc : nullptr; }

void brev(Warp& w, const Instruction& n, Mask lanes) {
  Vector t;
  const Vector& a = source(w, n, 1, t);
  const u32 flip = inverted(n.operands[1]);
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    u32 x = a.lane[l] ^ flip;
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
  });
}

Handler decode_brev(Instruction& n) { return n.operands.size() == 2 && has_only(n, {}) ? brev : nullptr; }

const Opcode kShf("SHF", kAlu, decode_shf), kUshf("USHF", kUniformPipe, decode_shf);
const Opcode kShl("SHL", kAlu, decode_shl), kUshl("USHL", kUniformPipe, decode_shl);
const Opcode kShr("SHR", kAlu, decode_shr), kUshr("USHR", kUniformPipe, decode_shr);
const Opcode kBmsk("BMSK", kAlu, decode_bmsk), kUbmsk("UBMSK", kUniformPipe, decode_bmsk);
const Opcode kSgxt("SGXT", kAlu, decode_sgxt), kUsgxt("USGXT", kUniformPipe, decode_sgxt);
const Opcode kFlo("FLO", kXu, decode_flo), kUflo("UFLO", kUniformPipe, decode_flo);
const Opcode kPopc("POPC", kXu, decode_popc), kUpopc("UPOPC", kUniformPipe, decode_popc);
const Opcode kBrev("BREV", kXu, decode_brev), kUbrev("UBREV", kUniformPipe, decode_brev);

}  // namespace
}  // namespace ww::machine
