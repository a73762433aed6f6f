// Bitwise logic, byte permutation, selection and moves: LOP3, PRMT, SEL, FSEL, MOV.
#include "lanes.h"

namespace ww::machine {
namespace {

// ---- LOP3: a function of three bits given by a look-up table; bit 4a + 2b + c is f(a, b, c)

// Destinations: an optional predicate (result != 0), then the register at operand index scratch[0].
void set_nonzero(Warp& w, const Instruction& n, Mask lanes, const Vector& made) {
  const Mask found = lanes_where([&](unsigned l) { return made.lane[l] != 0; });
  const Mask given = predicate(w, n.operands.back());
  set_predicate(w, n.operands[0], lanes, n.has("PAND") ? found & given : found | given);
}

template <class F>
inline __attribute__((always_inline)) void bitwise(Warp& w, const Instruction& n, Mask lanes, F&& f) {
  const unsigned d = static_cast<unsigned>(n.scratch[0]);
  lanes = destination_lanes(n, lanes);
  Vector ta, tb, made;
  const Vector &a = source(w, n, d + 1, ta), &b = source(w, n, d + 2, tb);
  for (unsigned l = 0; l < kLanes; l++) made.lane[l] = f(a.lane[l], b.lane[l]);
  if (d) set_nonzero(w, n, lanes, made);
  blend(destination(w, n, d), made, lanes);
}

void bit_and(Warp& w, const Instruction& n, Mask lanes) {
  bitwise(w, n, lanes, [](u32 a, u32 b) { return a & b; });
}
void bit_or(Warp& w, const Instruction& n, Mask lanes) {
  bitwise(w, n, lanes, [](u32 a, u32 b) { return a | b; });
}
void bit_xor(Warp& w, const Instruction& n, Mask lanes) {
  bitwise(w, n, lanes, [](u32 a, u32 b) { return a ^ b; });
}

// The look-up table as a polynomial over GF(2): f = k0 ^ k1 c ^ k2 b ^ k3 bc ^ k4 a ^ ...
u64 polynomial(u64 table) {
  for (unsigned variable = 1; variable < 8; variable *= 2)
    for (unsigned k = 0; k < 8; k++)
      if (k & variable) table ^= (table >> (k - variable) & 1) << k;
  return table;
}

void lop3(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned d = static_cast<unsigned>(n.scratch[0]);
  lanes = destination_lanes(n, lanes);
  Vector ta, tb, tc, made;
  const Vector &a = source(w, n, d + 1, ta), &b = source(w, n, d + 2, tb), &c = source(w, n, d + 3, tc);
  u32 k[8];
  for (unsigned i = 0; i < 8; i++) k[i] = n.scratch[1] >> i & 1 ? ~u32{0} : 0;
  for (unsigned l = 0; l < kLanes; l++) {
    const u32 x = a.lane[l], y = b.lane[l], z = c.lane[l];
    made.lane[l] =
        k[0] ^ (z & k[1]) ^ (y & (k[2] ^ (z & k[3]))) ^ (x & (k[4] ^ (z & k[5]) ^ (y & (k[6] ^ (z & k[7])))));
  }
  if (d) set_nonzero(w, n, lanes, made);
  blend(destination(w, n, d), made, lanes);
}

Handler decode_lop3(Instruction& n) {
  if (!has_only(n, {"LUT", "PAND", "POR"})) return nullptr;
  const unsigned d = predicates_at(n, 0);
  if (d > 1 || n.operands.size() != d + 6 || n.operands[d + 4].kind != Kind::kImmediate) return nullptr;
  for (unsigned i = d + 1; i < d + 4; i++)
    if (n.operands[i].inverted || n.operands[i].negated) return nullptr;
  const u64 table = static_cast<u64>(n.operands[d + 4].value) & 255;
  n.scratch[0] = d;
  n.scratch[1] = polynomial(table);
  return table == 0xc0 ? bit_and : table == 0xfc ? bit_or : table == 0x3c ? bit_xor : lop3;
}

// LOP and LOP32I: the function is a modifier.
Handler decode_lop(Instruction& n) {
  if (n.operands.size() != 3 || !has_only(n, {"AND", "OR", "XOR"})) return nullptr;
  n.scratch[0] = 0;
  return n.has("AND") ? bit_and : n.has("OR") ? bit_or : n.has("XOR") ? bit_xor : nullptr;
}

// ---- PRMT: each byte of the result is one of the eight bytes of {b, a}, or its sign bit replicated

u32 pick(u64 bytes, u32 selector) {
  u32 result = 0;
  for (unsigned i = 0; i < 4; i++) {
    const u32 which = selector >> (4 * i) & 15, byte = bytes >> (8 * (which & 7)) & 255;
    result |= (which & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * i);
  }
  return result;
}

// Converts the selector of the other modes (F4E, B4E, RC8, ECL, ECR, RC16) to one of the default mode.
enum class Mode : u64 { kIndex, kForward, kBackward, kReplicateByte, kClampLeft, kClampRight, kReplicateHalf };

u32 selector_of(Mode mode, u32 given) {
  const u32 from = given & 3;
  u32 selector = 0;
  for (u32 i = 0; i < 4; i++) {
    u32 which = 0;
    switch (mode) {
      case Mode::kIndex:
        return given;
      case Mode::kForward:
        which = from + i;
        break;
      case Mode::kBackward:
        which = (from - i) & 7;
        break;
      case Mode::kReplicateByte:
        which = from;
        break;
      case Mode::kClampLeft:
        which = i > from ? i : from;
        break;
      case Mode::kClampRight:
        which = i < from ? i : from;
        break;
      case Mode::kReplicateHalf:
        which = (from & 1) * 2 + (i & 1);
        break;
    }
    selector |= which << (4 * i);
  }
  return selector;
}

void prmt(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, ts, tb;
  const Vector &a = source(w, n, 1, ta), &s = source(w, n, 2, ts), &b = source(w, n, 3, tb);
  const Mode mode = static_cast<Mode>(n.scratch[0]);
  map_active(destination(w, n, 0), destination_lanes(n, lanes),
             [&](unsigned l) { return pick(pair(a, b, l), selector_of(mode, s.lane[l])); });
}

// Immediate selector, in scratch[0]: source word and shift of each byte.
void prmt_fixed(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 3, tb);
  const u32 selector = static_cast<u32>(n.scratch[0]);
  const Vector* from[4];
  u32 by[4];
  for (unsigned i = 0; i < 4; i++) {
    from[i] = selector >> (4 * i) & 4 ? &b : &a;
    by[i] = 8 * (selector >> (4 * i) & 3);
  }
  const Vector &p = *from[0], &q = *from[1], &r = *from[2], &s = *from[3];
  const auto joined = [&](unsigned l) {
    return (p.lane[l] >> by[0] & 255) | (q.lane[l] >> by[1] & 255) << 8 | (r.lane[l] >> by[2] & 255) << 16 |
           (s.lane[l] >> by[3]) << 24;
  };
  // Bytes with a replicated sign bit.
  u32 signs = 0;
  for (unsigned i = 0; i < 4; i++) signs |= (selector >> (4 * i) & 8 ? 255u : 0u) << (8 * i);
  if (!signs) {
    map(destination(w, n, 0), destination_lanes(n, lanes), joined);
  } else {
    map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
      const u32 bytes = joined(l);
      return (bytes & ~signs) | ((bytes >> 7 & 0x01010101u) * 255 & signs);
    });
  }
}

// Selectors of whole halves: 0x7632, 0x5410 ...
void prmt_halves(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 3, tb);
  const u32 selector = static_cast<u32>(n.scratch[0]);
  const Vector &p = selector & 4 ? b : a, &q = selector >> 8 & 4 ? b : a;
  const u32 right = selector & 2 ? 16 : 0, left = selector >> 8 & 2 ? 0 : 16, keep = left ? ~u32{0} : 0xffff0000u;
  map(destination(w, n, 0), destination_lanes(n, lanes),
      [&](unsigned l) { return (p.lane[l] >> right & 0xffff) | (q.lane[l] & keep) << left; });
}

Handler decode_prmt(Instruction& n) {
  if (n.operands.size() != 4 || !has_only(n, {"F4E", "B4E", "RC8", "ECL", "ECR", "RC16", "IDX"})) return nullptr;
  const Mode mode = n.has("F4E")    ? Mode::kForward
                    : n.has("B4E")  ? Mode::kBackward
                    : n.has("RC8")  ? Mode::kReplicateByte
                    : n.has("ECL")  ? Mode::kClampLeft
                    : n.has("ECR")  ? Mode::kClampRight
                    : n.has("RC16") ? Mode::kReplicateHalf
                                    : Mode::kIndex;
  n.scratch[0] = static_cast<u64>(mode);
  if (n.operands[2].kind != Kind::kImmediate) return prmt;
  const u32 selector = selector_of(mode, static_cast<u32>(n.operands[2].value)) & 0xffff;
  n.scratch[0] = selector;
  const bool halves = (selector & 0x9999) == 0x1010;
  const bool low = (selector >> 4 & 6) == (selector & 6), high = (selector >> 12 & 6) == (selector >> 8 & 6);
  return halves && low && high ? prmt_halves : prmt_fixed;
}

// ---- Selection and moves

void select(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb);
  const Mask first = predicate(w, n.operands[3]);
  map(destination(w, n, 0), destination_lanes(n, lanes),
      [&](unsigned l) { return choose(is_active(first, l), a.lane[l], b.lane[l]); });
}

void select_signed(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb);
  const FloatSign sa(n.operands[1]), sb(n.operands[2]);
  const Mask first = predicate(w, n.operands[3]);
  const u32 flush = static_cast<u32>(n.scratch[0]);
  map(destination(w, n, 0), destination_lanes(n, lanes), [&](unsigned l) {
    const u32 chosen = choose(is_active(first, l), sa(a.lane[l]), sb(b.lane[l]));
    return choose((chosen & 0x7f800000u) != 0, chosen, chosen & flush);
  });
}

void select_wide(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb, tc, td;
  const Vector &a = source(w, n, 1, ta), &b = source(w, n, 2, tb);
  const Vector &c = source_high(w, n, 1, tc), &d = source_high(w, n, 2, td);
  const Mask first = predicate(w, n.operands[3]);
  map_wide(destination(w, n, 0), destination(w, n, 0, 1), destination_lanes(n, lanes),
           [&](unsigned l) { return is_active(first, l) ? pair(a, c, l) : pair(b, d, l); });
}

Handler decode_sel(Instruction& n) {
  if (n.operands.size() != 4 || !is_predicate(n.operands[3]) || !has_only(n, {"64"})) return nullptr;
  return n.has("64") ? select_wide : select;
}

Handler decode_fsel(Instruction& n) {
  if (n.operands.size() != 4 || !is_predicate(n.operands[3]) || !has_only(n, {"FTZ"})) return nullptr;
  n.scratch[0] = n.has("FTZ") ? 0x80000000u : ~u32{0};
  const Operand &a = n.operands[1], &b = n.operands[2];
  const bool plain = !a.negated && !a.absolute && !b.negated && !b.absolute && !n.has("FTZ");
  return plain ? select : select_signed;
}

void move(Warp& w, const Instruction& n, Mask lanes) {
  Vector t;
  blend(destination(w, n, 0), source(w, n, 1, t), destination_lanes(n, lanes));
}

void move_wide(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tb;
  const Vector low = source(w, n, 1, ta), high = source_high(w, n, 1, tb);
  blend(destination(w, n, 0), low, destination_lanes(n, lanes));
  blend(destination(w, n, 0, 1), high, destination_lanes(n, lanes));
}

Handler decode_mov(Instruction& n) {
  if (n.operands.size() < 2 || !has_only(n, {"64", "U32"})) return nullptr;
  if (n.operands[1].kind != Kind::kImmediate && n.operands[1].kind != Kind::kRegister &&
      n.operands[1].kind != Kind::kUniform && n.operands[1].kind != Kind::kConstant)
    return nullptr;
  return n.has("64") ? move_wide : move;
}

const Opcode kLop3("LOP3", kAlu, decode_lop3), kUlop3("ULOP3", kUniformPipe, decode_lop3);
const Opcode kLop("LOP", kAlu, decode_lop), kLop32i("LOP32I", kAlu, decode_lop);
const Opcode kUlop("ULOP", kUniformPipe, decode_lop), kUlop32i("ULOP32I", kUniformPipe, decode_lop);
const Opcode kPrmt("PRMT", kAlu, decode_prmt), kUprmt("UPRMT", kUniformPipe, decode_prmt);
const Opcode kSel("SEL", kAlu, decode_sel), kUsel("USEL", kUniformPipe, decode_sel);
const Opcode kFsel("FSEL", kAlu, decode_fsel), kUfsel("UFSEL", kUniformPipe, decode_fsel);
const Opcode kMov("MOV", kAlu, decode_mov), kMov32i("MOV32I", kAlu, decode_mov);
const Opcode kUmov("UMOV", kUniformPipe, decode_mov);

}  // namespace
}  // namespace ww::machine
