// Integer arithmetic: IADD3, VIADD, IMAD, LEA, IABS, VABSDIFF, IDP ...
#include "lanes.h"

namespace ww::machine {
namespace {

// Destinations: a register, then predicates for carries out. scratch[0]: index of the first source; scratch[1]: index
// of the first predicate after the sources (carries in).
unsigned sources_of(const Instruction& n) { return static_cast<unsigned>(n.scratch[0]); }

Handler with_sources(Instruction& n, unsigned count, Handler handler) {
  const unsigned first = 1 + predicates_at(n, 1);
  if (n.operands.size() < first + count) return nullptr;
  n.scratch[0] = first;
  n.scratch[1] = first + count;
  return handler;
}

u32 carry_in(const Mask* carries, unsigned l) { return is_active(carries[0], l) + is_active(carries[1], l); }

void read_carries(const Warp& w, const Instruction& n, unsigned first, Mask* carries) {
  carries[0] = carries[1] = 0;
  for (unsigned k = 0; k < 2 && first + k < n.operands.size(); k++) carries[k] = predicate(w, n.operands[first + k]);
}

// ---- IADD3: sum of three operands with up to two carries in and out; -x is computed as ~x + 1

void iadd3(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned i = sources_of(n);
  Vector ta, tb, tc;
  const Vector &a = source(w, n, i, ta), &b = source(w, n, i + 1, tb), &c = source(w, n, i + 2, tc);
  const IntegerSign sa(n.operands[i]), sb(n.operands[i + 1]), sc(n.operands[i + 2]);
  const u32 fa = sa.flip, fb = sb.flip, fc = sc.flip, ones = sa.one + sb.one + sc.one;
  map(destination(w, n, 0), destination_lanes(n, lanes),
      [&](unsigned l) { return (a.lane[l] ^ fa) + (b.lane[l] ^ fb) + (c.lane[l] ^ fc) + ones; });
}

void iadd3_carry(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned i = sources_of(n);
  lanes = destination_lanes(n, lanes);
  Vector ta, tb, tc;
  const Vector &a = source(w, n, i, ta), &b = source(w, n, i + 1, tb), &c = source(w, n, i + 2, tc);
  const IntegerSign sa(n.operands[i]), sb(n.operands[i + 1]), sc(n.operands[i + 2]);
  Mask carries[2];
  read_carries(w, n, i + 3, carries);
  u64 sum[kLanes];
  const u64 ones = sa.one + sb.one + sc.one;
  for (unsigned l = 0; l < kLanes; l++)
    sum[l] = ones + (a.lane[l] ^ sa.flip) + (b.lane[l] ^ sb.flip) + (c.lane[l] ^ sc.flip) + carry_in(carries, l);
  map(destination(w, n, 0), lanes, [&](unsigned l) { return static_cast<u32>(sum[l]); });
  for (unsigned k = 1; k < i; k++)
    set_predicate(w, n.operands[k], lanes, lanes_where([&](unsigned l) { return sum[l] >> 32 >= k; }));
}

// UIADD3.64: register pairs.
void iadd3_wide(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned i = sources_of(n);
  u64 sum[kLanes] = {};
  for (unsigned k = i; k < i + 3; k++) {
    Vector ta, tb;
    const Vector &low = source(w, n, k, ta), &high = source_high(w, n, k, tb);
    const u64 flip = n.operands[k].negated || n.operands[k].inverted ? ~u64{0} : 0, one = n.operands[k].negated;
    for (unsigned l = 0; l < kLanes; l++) sum[l] += (pair(low, high, l) ^ flip) + one;
  }
  map_wide(destination(w, n, 0), destination(w, n, 0, 1), destination_lanes(n, lanes),
           [&](unsigned l) { return sum[l]; });
}

Handler decode_iadd3(Instruction& n) {
  if (!has_only(n, {"X", "64"})) return nullptr;
  bool carries = n.has("X");
  for (unsigned k = 1; k <= predicates_at(n, 1); k++) carries |= n.operands[k].index != kPredicateTrue;
  if (n.has("64")) return carries ? nullptr : with_sources(n, 3, iadd3_wide);
  return with_sources(n, 3, carries ? iadd3_carry : iadd3);
}

void add(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb);
  const IntegerSign sa(n.operands[1]), sb(n.operands[2]);
  const u32 fa = sa.flip, fb = sb.flip, ones = sa.one + sb.one;
  map(destination(w, n, 0), destination_lanes(n, lanes),
      [&](unsigned l) { return (a.lane[l] ^ fa) + (b.lane[l] ^ fb) + ones; });
}

void add_halves(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb);
  const u32 sa = n.operands[1].negated ? ~u32{0} : 1, sb = n.operands[2].negated ? ~u32{0} : 1;
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    const u32 x = a.lane[l], y = b.lane[l];
    return ((x * sa + y * sb) & 0xffff) | ((x >> 16) * sa + (y >> 16) * sb) << 16;
  });
}

Handler decode_viadd(Instruction& n) {
  if (n.operands.size() != 3 || !has_only(n, {"16x2", "U32", "S32"})) return nullptr;
  return n.has("16x2") ? add_halves : add;
}

// ---- IMAD

void imad(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb, tc;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb), &c = source(w, n, 3, tc);
  const IntegerSign sa(n.operands[1]), sb(n.operands[2]), sc(n.operands[3]);
  const u32 f = sa.flip ^ sb.flip, fc = sc.flip, ones = (f & 1) + sc.one;
  map(destination(w, n, 0), destination_lanes(n, lanes),
      [&](unsigned l) { return ((a.lane[l] * b.lane[l]) ^ f) + (c.lane[l] ^ fc) + ones; });
}

// IMAD.MOV, IMAD.U32 and similar, with RZ as multiplicand.
void imad_move(Warp& w, const Instruction& n, Mask lanes) {
  Vector tc;
  const Vector& c = source(w, n, 3, tc);
  const IntegerSign sc(n.operands[3]);
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) { return (c.lane[l] ^ sc.flip) + sc.one; });
}

// a * b + c + carry in 64 bits, and the carry out of bit 63.
template <bool kSigned>
u64 product_sum(u32 a, u32 b, u64 c, bool negated, u32 carry, bool* overflow) {
  u64 product =
      kSigned ? static_cast<u64>(static_cast<i64>(static_cast<i32>(a)) * static_cast<i32>(b)) : static_cast<u64>(a) * b;
  if (negated) product = -product;
  const u64 sum = product + c;
  const u64 total = sum + carry;
  *overflow = sum < c || total < sum;
  return total;
}

enum : u64 { kImadHigh = 1, kImadWide = 2, kImadCarryIn = 4 };

template <bool kSigned>
void imad_wide(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned i = sources_of(n);
  lanes = destination_lanes(n, lanes);
  Vector ta, tb, tc, td;
  const Vector &a = source(w, n, i, ta), &b = source(w, n, i + 1, tb), &c = source(w, n, i + 2, tc);
  const Vector& d = source_high(w, n, i + 2, td);
  const u64 form = n.scratch[1];
  const bool negated = n.operands[i].negated != n.operands[i + 1].negated;
  const Operand& addend = n.operands[i + 2];
  const u64 flip = addend.negated || addend.inverted ? ~u64{0} : 0, one = addend.negated;
  const Mask carry = form & kImadCarryIn ? predicate(w, n.operands[i + 3]) : 0;
  Mask carried = 0;
  u64 sum[kLanes];
  if (!negated && !carry && i == 1) {
    for (unsigned l = 0; l < kLanes; l++) {
      const u64 product = kSigned ? static_cast<u64>(static_cast<i64>(static_cast<i32>(a.lane[l])) *
                                                     static_cast<i64>(static_cast<i32>(b.lane[l])))
                                  : static_cast<u64>(a.lane[l]) * b.lane[l];
      sum[l] = product + (pair(c, d, l) ^ flip) + one;
    }
  } else {
    for (unsigned l = 0; l < kLanes; l++) {
      bool overflow;
      sum[l] = product_sum<kSigned>(a.lane[l], b.lane[l], (pair(c, d, l) ^ flip) + one, negated, is_active(carry, l),
                                    &overflow);
      carried |= static_cast<Mask>(overflow) << l;
    }
  }
  if (form & kImadHigh) {
    map(destination(w, n, 0), lanes, [&](unsigned l) { return static_cast<u32>(sum[l] >> 32); });
  } else {
    map_wide(destination(w, n, 0), destination(w, n, 0, 1), lanes, [&](unsigned l) { return sum[l]; });
  }
  if (i > 1) set_predicate(w, n.operands[1], lanes, carried);
}

// The carry out of bit 31 of x + y + (0 or 1) = sum.
u32 carry_of(u32 x, u32 y, u32 sum) { return ((x & y) | ((x | y) & ~sum)) >> 31; }

// x + y + carry with operand signs applied; stores the carry out if there is a predicate for it.
void store_sum(Warp& w, const Instruction& n, Mask lanes, const Vector& x, const Vector& y, IntegerSign sx,
               IntegerSign sy, Mask carry, bool wanted) {
  const u32 fx = sx.flip, fy = sy.flip, ones = sx.one + sy.one;
  Vector sum;
  for (unsigned l = 0; l < kLanes; l++) sum.lane[l] = (x.lane[l] ^ fx) + (y.lane[l] ^ fy) + ones + is_active(carry, l);
  if (wanted) {
    const Mask out =
        lanes_where([&](unsigned l) { return carry_of(x.lane[l] ^ fx, y.lane[l] ^ fy, sum.lane[l]) != 0; });
    set_predicate(w, n.operands[1], lanes, out);
  }
  blend(destination(w, n, 0), sum, lanes);
}

// The low word, with carry in.
void imad_carry(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned i = sources_of(n);
  Vector ta, tb, tc, product;
  const Vector &a = source(w, n, i, ta), &b = source(w, n, i + 1, tb), &c = source(w, n, i + 2, tc);
  const Mask carry = n.scratch[1] & kImadCarryIn ? predicate(w, n.operands[i + 3]) : 0;
  const u32 sign = n.operands[i].negated != n.operands[i + 1].negated ? ~u32{0} : 1;
  for (unsigned l = 0; l < kLanes; l++) product.lane[l] = a.lane[l] * b.lane[l] * sign;
  store_sum(w, n, destination_lanes(n, lanes), product, c, IntegerSign(), IntegerSign(n.operands[i + 2]), carry, i > 1);
}

bool is_zero(const Operand& operand) {
  return (operand.kind == Kind::kRegister && operand.index == kRegisterZero) ||
         (operand.kind == Kind::kUniform && operand.index == kUniformZero);
}

Handler decode_imad(Instruction& n) {
  if (!has_only(n, {"MOV", "IADD", "SHL", "U32", "S32", "X", "HI", "WIDE"})) return nullptr;
  const bool wide = n.has("WIDE"), high = n.has("HI"), carry = n.has("X");
  Handler handler = imad;
  if (wide || high)
    handler = n.has("U32") ? imad_wide<false> : imad_wide<true>;
  else if (carry || predicates_at(n, 1))
    handler = imad_carry;
  else if (n.operands.size() > 3 && is_zero(n.operands[1]) && is_zero(n.operands[2]))
    handler = imad_move;
  handler = with_sources(n, 3, handler);
  if (handler && carry && n.scratch[1] >= n.operands.size()) return nullptr;
  n.scratch[1] = high * kImadHigh | wide * kImadWide | carry * kImadCarryIn;
  return handler;
}

// ---- LEA: (a << shift) + b, or the high word of the 64-bit {c, a} << shift, plus b

enum : u64 { kLeaHigh = 1, kLeaSignExtend = 2, kLeaCarryIn = 4 };

void lea(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned i = sources_of(n);
  lanes = destination_lanes(n, lanes);
  const u64 form = n.scratch[1] & 7;
  const unsigned shift = static_cast<unsigned>(n.scratch[1] >> 8);
  Vector ta, tb, tc;
  const Vector &a = source(w, n, i, ta), &b = source(w, n, i + 1, tb);
  const IntegerSign sa(n.operands[i]), sb(n.operands[i + 1]);
  Vector shifted;
  if (!(form & kLeaHigh)) {
    for (unsigned l = 0; l < kLanes; l++) shifted.lane[l] = a.lane[l] << shift;
  } else if (form & kLeaSignExtend) {
    for (unsigned l = 0; l < kLanes; l++)
      shifted.lane[l] = static_cast<u32>(static_cast<i64>(static_cast<i32>(a.lane[l])) >> (32 - shift));
  } else {
    const Vector& c = source(w, n, i + 2, tc);
    for (unsigned l = 0; l < kLanes; l++) shifted.lane[l] = static_cast<u32>(pair(a, c, l) >> (32 - shift));
  }
  const Mask carry = form & kLeaCarryIn ? predicate(w, n.operands.back()) : 0;
  store_sum(w, n, lanes, shifted, b, sa, sb, carry, i > 1);
}

Handler decode_lea(Instruction& n) {
  if (!has_only(n, {"HI", "X", "SX32"})) return nullptr;
  const unsigned first = 1 + predicates_at(n, 1);
  const u64 form = n.has("HI") * kLeaHigh | n.has("SX32") * kLeaSignExtend | n.has("X") * kLeaCarryIn;
  const unsigned shift_operand = first + (form & kLeaHigh && !(form & kLeaSignExtend) ? 3 : 2);
  if (n.operands.size() != shift_operand + 1 + (form & kLeaCarryIn ? 1 : 0)) return nullptr;
  if (n.operands[shift_operand].kind != Kind::kImmediate) return nullptr;
  n.scratch[0] = first;
  n.scratch[1] = form | (static_cast<u64>(n.operands[shift_operand].value) & 31) << 8;
  return lea;
}

// ---- Absolute values and differences, dot products

void iabs(Warp& w, const Instruction& n, Mask lanes) {
  Vector t;
  const Vector& a = source(w, n, 1, t);
  map(destination(w, n, 0), destination_lanes(n, lanes),
      [&](unsigned l) { return static_cast<i32>(a.lane[l]) < 0 ? -a.lane[l] : a.lane[l]; });
}

Handler decode_iabs(Instruction& n) { return n.operands.size() == 2 && has_only(n, {}) ? iabs : nullptr; }

void vabsdiff(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb, tc;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb), &c = source(w, n, 3, tc);
  const u32 bias = n.scratch[0] ? 0 : 0x80000000u;
  map(destination(w, n, 0), lanes, [&](unsigned l) {
    const u32 x = a.lane[l] ^ bias, y = b.lane[l] ^ bias;
    return (x > y ? x - y : y - x) + c.lane[l];
  });
}

Handler decode_vabsdiff(Instruction& n) {
  n.scratch[0] = n.has("U32");
  return n.operands.size() == 4 && has_only(n, {"U32"}) ? vabsdiff : nullptr;
}

// Four bytes each; .ACC adds the four differences to c, otherwise the result is the four differences.
void vabsdiff4(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb, tc;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb), &c = source(w, n, 3, tc);
  const u32 bias = n.scratch[0] & 1 ? 0 : 0x80808080u;
  const bool accumulate = n.scratch[0] & 2;
  map(destination(w, n, 0), lanes, [&](unsigned l) {
    u32 bytes = 0, sum = c.lane[l];
    for (unsigned k = 0; k < 32; k += 8) {
      const u32 x = ((a.lane[l] ^ bias) >> k) & 255, y = ((b.lane[l] ^ bias) >> k) & 255;
      const u32 difference = x > y ? x - y : y - x;
      bytes |= difference << k;
      sum += difference;
    }
    return accumulate ? sum : bytes;
  });
}

Handler decode_vabsdiff4(Instruction& n) {
  n.scratch[0] = (n.has("U8") ? 1 : 0) | (n.has("ACC") ? 2 : 0);
  return n.operands.size() == 4 && has_only(n, {"U8", "S8", "ACC"}) ? vabsdiff4 : nullptr;
}

i32 part(u32 word, unsigned at, unsigned bits, bool is_signed) {
  const u32 high = word << (32 - bits - at);
  return is_signed ? static_cast<i32>(high) >> (32 - bits) : static_cast<i32>(high >> (32 - bits));
}

// IDP.4A: four bytes by four bytes; IDP.2A: two 16-bit halves of a by the low or high two bytes of b.
void idp(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb, tc;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb), &c = source(w, n, 3, tc);
  const bool four = n.scratch[0] & 1, sa = n.scratch[0] & 2, sb = n.scratch[0] & 4;
  const unsigned from = n.scratch[0] & 8 ? 16 : 0;
  map_active(destination(w, n, 0), lanes, [&](unsigned l) {
    u32 sum = c.lane[l];
    for (unsigned k = 0; k < (four ? 4 : 2); k++)
      sum += static_cast<u32>(four ? part(a.lane[l], 8 * k, 8, sa) * part(b.lane[l], 8 * k, 8, sb)
                                   : part(a.lane[l], 16 * k, 16, sa) * part(b.lane[l], from + 8 * k, 8, sb));
    return sum;
  });
}

Handler decode_idp(Instruction& n) {
  if (n.operands.size() != 4 || !has_only(n, {"4A", "2A", "LO", "HI", "S8", "U8", "S16", "U16"})) return nullptr;
  if (!n.has("4A") && !n.has("2A")) return nullptr;
  const std::vector<std::string>& modifiers = n.modifiers;
  if (modifiers.size() < 3) return nullptr;
  const bool sa = modifiers[modifiers.size() - 2][0] == 'S', sb = modifiers.back()[0] == 'S';
  n.scratch[0] = (n.has("4A") ? 1 : 0) | (sa ? 2 : 0) | (sb ? 4 : 0) | (n.has("HI") ? 8 : 0);
  return idp;
}

const Opcode kIadd3("IADD3", kAlu, decode_iadd3), kUiadd3("UIADD3", kUniformPipe, decode_iadd3);
const Opcode kViadd("VIADD", kFma, decode_viadd), kUviadd("UVIADD", kUniformPipe, decode_viadd);
const Opcode kImad("IMAD", kFma, decode_imad), kUimad("UIMAD", kUniformPipe, decode_imad);
const Opcode kLea("LEA", kAlu, decode_lea), kUlea("ULEA", kUniformPipe, decode_lea);
const Opcode kIabs("IABS", kAlu, decode_iabs), kUiabs("UIABS", kUniformPipe, decode_iabs);
const Opcode kVabsdiff("VABSDIFF", kAlu, decode_vabsdiff), kVabsdiff4("VABSDIFF4", kAlu, decode_vabsdiff4);
const Opcode kIdp("IDP", kFma, decode_idp);

}  // namespace
}  // namespace ww::machine
