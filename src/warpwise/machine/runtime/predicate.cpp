// Integer comparisons and predicates: ISETP, PLOP3, PSETP, and predicates as bits of a register (P2R, R2P); R2UR.
#include "lanes.h"

namespace ww::machine {
namespace {

// ---- ISETP: destinations t op c and !t op c, for the comparison t and the predicate c

enum : u64 { kLess = 1, kEqual = 2, kGreater = 4 };

u64 relation(const Instruction& n) {
  static const struct {
    const char* name;
    u64 relation;
  } known[] = {{"F", 0},
               {"LT", kLess},
               {"EQ", kEqual},
               {"LE", kLess | kEqual},
               {"GT", kGreater},
               {"NE", kLess | kGreater},
               {"GE", kGreater | kEqual},
               {"T", kLess | kEqual | kGreater}};
  for (const auto& each : known)
    if (n.has(each.name)) return each.relation;
  return ~u64{0};
}

// scratch[0]: the relation; scratch[1]: the Logic, then flags: unsigned, .EX (compares upper words; if they are equal,
// the result is the predicate of the lower words).
constexpr u64 kUnsigned = 16, kExtended = 32;

void isetp(Warp& w, const Instruction& n, Mask lanes) {
  lanes = destination_lanes(n, lanes);
  Vector ta, tb;
  const Vector &a = source(w, n, 2, ta), &b = source(w, n, 3, tb);
  const IntegerSign sa(n.operands[2]), sb(n.operands[3]);
  const u32 bias = n.scratch[1] & kUnsigned ? 0x80000000u : 0;
  const u32 fa = sa.flip, fb = sb.flip, oa = sa.one, ob = sb.one;
  const u64 relation = n.scratch[0];
  const auto left = [&](unsigned l) { return static_cast<i32>(((a.lane[l] ^ fa) + oa) ^ bias); };
  const auto right = [&](unsigned l) { return static_cast<i32>(((b.lane[l] ^ fb) + ob) ^ bias); };
  const bool extended = n.scratch[1] & kExtended, strict = relation & kLess, greater = relation & kGreater;
  const bool want_equal = relation & kEqual;
  Mask found = 0;
  if (!extended && strict == want_equal && greater != strict) {
    // LE or GT
    found = lanes_where([&](unsigned l) { return left(l) > right(l); });
    if (strict) found = ~found;
  } else if (!extended && strict != want_equal && greater != strict) {
    // LT or GE
    found = lanes_where([&](unsigned l) { return left(l) < right(l); });
    if (!strict) found = ~found;
  } else {
    const Mask equal = lanes_where([&](unsigned l) { return left(l) == right(l); });
    Mask differing = 0;
    if (strict && greater)
      differing = ~equal;
    else if (strict)
      differing = lanes_where([&](unsigned l) { return left(l) < right(l); });
    else if (greater)
      differing = lanes_where([&](unsigned l) { return left(l) > right(l); });
    const Mask decided = extended ? predicate(w, n.operands[5]) : want_equal ? ~Mask{0} : 0;
    found = differing | (equal & decided);
  }
  const Mask given = predicate(w, n.operands[4]);
  const Logic logic = static_cast<Logic>(n.scratch[1] & 3);
  set_predicate(w, n.operands[0], lanes, combine(logic, found, given));
  set_predicate(w, n.operands[1], lanes, combine(logic, ~found, given));
}

Handler decode_isetp(Instruction& n) {
  if (!has_only(n, {"F", "LT", "EQ", "LE", "GT", "NE", "GE", "T", "U32", "S32", "AND", "OR", "XOR", "EX"}))
    return nullptr;
  if (n.operands.size() < 5 || predicates_at(n, 0) != 2 || !is_predicate(n.operands[4])) return nullptr;
  if (n.has("EX") && n.operands.size() != 6) return nullptr;
  n.scratch[0] = relation(n);
  n.scratch[1] = static_cast<u64>(logic_of(n)) | n.has("U32") * kUnsigned | n.has("EX") * kExtended;
  return n.scratch[0] <= 7 ? isetp : nullptr;
}

// ---- PLOP3: two functions of the same three predicates; R5.SIGN is the sign bit of R5

Mask truth(Warp& w, const Instruction& n, unsigned i) {
  const Operand& operand = n.operands[i];
  if (is_predicate(operand)) return predicate(w, operand);
  Vector t;
  const Vector& a = source(w, n, i, t);
  const Mask negative = lanes_where([&](unsigned l) { return a.lane[l] >> 31 != 0; });
  return operand.inverted || operand.negated ? ~negative : negative;
}

Mask look_up(u64 table, Mask a, Mask b, Mask c) {
  Mask result = 0;
  for (unsigned k = 0; k < 8; k++)
    if (table >> k & 1) result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  return result;
}

void plop3(Warp& w, const Instruction& n, Mask lanes) {
  lanes = destination_lanes(n, lanes);
  const Mask a = truth(w, n, 2), b = truth(w, n, 3), c = truth(w, n, 4);
  const Mask first = look_up(n.scratch[0], a, b, c), second = look_up(n.scratch[1], a, b, c);
  set_predicate(w, n.operands[0], lanes, first);
  set_predicate(w, n.operands[1], lanes, second);
}

Handler decode_plop3(Instruction& n) {
  if (n.operands.size() != 7 || !has_only(n, {"LUT"}) || predicates_at(n, 0) < 2) return nullptr;
  for (unsigned i = 2; i < 5; i++) {
    const Operand& operand = n.operands[i];
    if (!is_predicate(operand) && operand.suffix != "SIGN") return nullptr;
  }
  n.scratch[0] = static_cast<u64>(n.operands[5].value) & 255;
  n.scratch[1] = static_cast<u64>(n.operands[6].value) & 255;
  return plop3;
}

// (a op b) op c, and (!(a op b)) op c.
void psetp(Warp& w, const Instruction& n, Mask lanes) {
  lanes = destination_lanes(n, lanes);
  const Mask found =
      combine(static_cast<Logic>(n.scratch[0]), predicate(w, n.operands[2]), predicate(w, n.operands[3]));
  const Mask given = predicate(w, n.operands[4]);
  const Logic last = static_cast<Logic>(n.scratch[1]);
  set_predicate(w, n.operands[0], lanes, combine(last, found, given));
  set_predicate(w, n.operands[1], lanes, combine(last, ~found, given));
}

bool logic_named(const std::string& name, u64& logic) {
  logic = static_cast<u64>(name == "AND" ? Logic::kAnd : name == "OR" ? Logic::kOr : Logic::kXor);
  return name == "AND" || name == "OR" || name == "XOR";
}

Handler decode_psetp(Instruction& n) {
  if (n.operands.size() != 5 || predicates_at(n, 0) != 5 || n.modifiers.size() != 2) return nullptr;
  return logic_named(n.modifiers[0], n.scratch[0]) && logic_named(n.modifiers[1], n.scratch[1]) ? psetp : nullptr;
}

// ---- Predicates as bits: P2R R, PR, R, mask and R2P PR, R, mask; .B1 ... select another byte

Handler with_byte(Instruction& n, const Operand& operand, Handler handler) {
  const std::string& byte = !n.modifiers.empty() ? n.modifiers[0] : operand.suffix;
  if (!byte.empty() && (byte.size() != 2 || byte[0] != 'B' || byte[1] < '0' || byte[1] > '3')) return nullptr;
  n.scratch[0] = byte.empty() ? 0 : 8u * static_cast<unsigned>(byte[1] - '0');
  return handler;
}

void p2r(Warp& w, const Instruction& n, Mask lanes) {
  lanes = destination_lanes(n, lanes);
  Vector ta, tm;
  const Vector &a = source(w, n, 2, ta), &mask = source(w, n, 3, tm);
  const Mask* file = n.scratch[1] ? w.uniform_predicates : w.predicates;
  const unsigned by = static_cast<unsigned>(n.scratch[0]);
  map(destination(w, n, 0), lanes, [&](unsigned l) {
    u32 bits = 0;
    for (unsigned k = 0; k < 7; k++) bits |= (file[k] >> l & 1) << k;
    const u32 chosen = mask.lane[l] << by;
    return (a.lane[l] & ~chosen) | (bits << by & chosen);
  });
}

Handler decode_p2r(Instruction& n) {
  if (n.operands.size() != 4) return nullptr;
  n.scratch[1] = n.operands[1].name == "UPR";
  return n.scratch[1] || n.operands[1].name == "PR" ? with_byte(n, n.operands[0], p2r) : nullptr;
}

void r2p(Warp& w, const Instruction& n, Mask lanes) {
  Vector ta, tm;
  const Vector &a = source(w, n, 1, ta), &mask = source(w, n, 2, tm);
  const unsigned by = static_cast<unsigned>(n.scratch[0]);
  const bool uniform = n.scratch[1];
  Mask* file = uniform ? w.uniform_predicates : w.predicates;
  if (uniform) lanes = ~Mask{0};
  for (unsigned k = 0; k < 7; k++) {
    const Mask bits = lanes_where([&](unsigned l) { return a.lane[l] >> (k + by) & 1; });
    const Mask chosen = lanes_where([&](unsigned l) { return mask.lane[l] >> k & 1; }) & lanes;
    file[k] = (file[k] & ~chosen) | (bits & chosen);
  }
}

Handler decode_r2p(Instruction& n) {
  if (n.operands.size() != 3) return nullptr;
  n.scratch[1] = n.operands[0].name == "UPR";
  return n.scratch[1] || n.operands[0].name == "PR" ? with_byte(n, n.operands[1], r2p) : nullptr;
}

// ---- R2UR: the first active lane's register to a uniform register

void r2ur(Warp& w, const Instruction& n, Mask lanes) {
  const unsigned d = predicates_at(n, 0);
  Vector t;
  const u32 value = source(w, n, d + 1, t).lane[__builtin_ctz(lanes)];
  Vector& to = destination(w, n, d);
  for (unsigned l = 0; l < kLanes; l++) to.lane[l] = value;
  // The optional predicate is true if the register differs between active lanes; OR: or if it was true before.
  if (d) {
    const Vector& a = source(w, n, d + 1, t);
    const Mask before = n.has("OR") ? predicate(w, n.operands[0]) : 0;
    set_predicate(w, n.operands[0], ~Mask{0},
                  lanes_where([&](unsigned l) { return a.lane[l] != value; }) & lanes ? ~Mask{0} : before);
  }
}

Handler decode_r2ur(Instruction& n) {
  const unsigned d = predicates_at(n, 0);
  const bool known = n.operands.size() == d + 2 && has_only(n, {"FILL", "BROADCAST", "OR"}) && (d || !n.has("OR"));
  return d < 2 && known ? r2ur : nullptr;
}

const Opcode kIsetp("ISETP", kAlu, decode_isetp), kUisetp("UISETP", kUniformPipe, decode_isetp);
const Opcode kPlop3("PLOP3", kAlu, decode_plop3), kUplop3("UPLOP3", kUniformPipe, decode_plop3);
const Opcode kPsetp("PSETP", kAlu, decode_psetp), kUpsetp("UPSETP", kUniformPipe, decode_psetp);
const Opcode kP2r("P2R", kAlu, decode_p2r), kUp2ur("UP2UR", kUniformPipe, decode_p2r);
const Opcode kR2p("R2P", kAlu, decode_r2p), kUr2up("UR2UP", kUniformPipe, decode_r2p);
const Opcode kR2ur("R2UR", kAdu, decode_r2ur);

}  // namespace
}  // namespace ww::machine
