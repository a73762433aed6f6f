// ATOM, ATOMG, RED, REDG and ATOMS. Lanes are applied in order of their number.
#include <algorithm>
#include <cmath>

#include "access.h"
#include "footprints.h"
#include "formats.h"
#include "mbarrier.h"

namespace ww::machine {

namespace {

enum Operation : u8 { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor, kExchange, kCompareExchange, kCastSpin, kArrive };
enum Element : u8 { kU32, kS32, kU64, kS64, kF32, kF64, kF16, kBF16, kB128 };
constexpr u8 kElementBytes[] = {4, 4, 8, 8, 4, 8, 2, 2, 16};

// Decoded form of the instruction, in scratch[1].
struct Atomic {
  Operation operation;
  Element element;
  u8 elements;
  u8 memory;    // index of the address operand
  bool flush;   // FTZ
  bool counts;  // POPC.INC: adds 1
  u8 unused[2];
  unsigned bytes() const { return kElementBytes[element] * elements; }
};
static_assert(sizeof(Atomic) == sizeof(u64));
Atomic atomic_of(const Instruction& instruction) {
  Atomic atomic;
  std::memcpy(&atomic, &instruction.scratch[1], sizeof atomic);
  return atomic;
}

template <class T>
T integer_result(Operation operation, T old, T value) {
  switch (operation) {
    case kAdd:
      return old + value;
    case kMin:
      return std::min(old, value);
    case kMax:
      return std::max(old, value);
    case kInc:
      return old >= value ? 0 : old + 1;
    case kDec:
      return old == 0 || old > value ? value : old - 1;
    case kAnd:
      return old & value;
    case kOr:
      return old | value;
    case kXor:
      return old ^ value;
    default:
      return value;
  }
}
template <class T>
T float_result(Operation operation, T old, T value) {
  return operation == kMin ? std::fmin(old, value) : operation == kMax ? std::fmax(old, value) : old + value;
}
float flushed(float value, bool flush) {
  return flush && std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

template <class T>
void replace(u8* pointer, const u8* value, Operation operation) {
  write_as<T>(pointer, integer_result(operation, read_as<T>(pointer), read_as<T>(value)));
}

void combine(u8* pointer, const u8* value, const Atomic& atomic) {
  switch (atomic.element) {
    case kU32:
      return replace<u32>(pointer, value, atomic.operation);
    case kS32:
      return replace<i32>(pointer, value, atomic.operation);
    case kU64:
      return replace<u64>(pointer, value, atomic.operation);
    case kS64:
      return replace<i64>(pointer, value, atomic.operation);
    case kF32: {
      const float old = flushed(read_as<float>(pointer), atomic.flush),
                  added = flushed(read_as<float>(value), atomic.flush);
      return write_as(pointer, flushed(float_result(atomic.operation, old, added), atomic.flush));
    }
    case kF64:
      return write_as(pointer, float_result(atomic.operation, read_as<double>(pointer), read_as<double>(value)));
    case kF16: {
      const float sum =
          float_result(atomic.operation, half_to_float(read_as<u16>(pointer)), half_to_float(read_as<u16>(value)));
      return write_as(pointer, static_cast<u16>(float_to_half(sum)));
    }
    case kBF16: {
      const float sum =
          float_result(atomic.operation, bfloat_to_float(read_as<u16>(pointer)), bfloat_to_float(read_as<u16>(value)));
      return write_as(pointer, static_cast<u16>(float_to_bfloat(sum)));
    }
    case kB128:
      std::memcpy(pointer, value, 16);
  }
}

// Applies one lane; `old` receives the old value. Returns false if a compare-and-swap did not swap.
bool apply_lane(u8* pointer, const u8* value, const u8* compare, u8* old, const Atomic& atomic) {
  const unsigned bytes = atomic.bytes();
  std::memcpy(old, pointer, bytes);
  switch (atomic.operation) {
    case kExchange:
      std::memcpy(pointer, value, bytes);
      return true;
    case kCastSpin:
    case kCompareExchange: {
      const bool same = std::memcmp(pointer, compare, bytes) == 0;
      if (same) std::memcpy(pointer, value, bytes);
      return same;
    }
    case kArrive:
      arrive_before_sm90(pointer);
      return true;
    default:
      for (unsigned i = 0; i < atomic.elements; i++) {
        const unsigned at = i * kElementBytes[atomic.element];
        combine(pointer + at, value + at, atomic);
      }
      return true;
  }
}

void apply_in_lane_order(Warp& warp, const Instruction& instruction, Space space, Mask lanes,
                         const Addresses& addresses) {
  const Atomic atomic = atomic_of(instruction);
  const unsigned bytes = atomic.bytes(), words = std::max(1u, bytes / 4), memory = atomic.memory;
  const bool swaps = atomic.operation == kCompareExchange || atomic.operation == kCastSpin;
  const bool has_value = instruction.operands.size() > memory + 1u;
  const Vector* value[4] = {};
  const Vector* compare[4] = {};
  for (unsigned word = 0; word < words && has_value; word++) {
    value[word] = &source_word(warp, instruction.operands[memory + (swaps ? 2 : 1)], word);
    compare[word] = &source_word(warp, instruction.operands[memory + 1], word);
  }
  const LanePointers pointers(warp, instruction, space, lanes, addresses, bytes);
  Vector result[4];
  Mask swapped = 0;
  const Mask stores =
      atomic.operation == kCastSpin ? first_of_each_bank(lanes, addresses.lane, bytes) : lanes;  // see hardware.h
  for_lanes(stores, [&](unsigned l) {
    u32 given[4] = {1, 0, 0, 0}, expected[4] = {}, old[4] = {};
    if (has_value)
      for (unsigned word = 0; word < words; word++)
        given[word] = value[word]->lane[l], expected[word] = compare[word]->lane[l];
    const bool done = apply_lane(pointers(l), reinterpret_cast<u8*>(given), reinterpret_cast<u8*>(expected),
                                 reinterpret_cast<u8*>(old), atomic);
    swapped |= static_cast<Mask>(done) << l;
    for (unsigned word = 0; word < words; word++) result[word].lane[l] = old[word];
  });
  for (unsigned i = 0; i < memory; i++) {
    const Operand& to = instruction.operands[i];
    if (to.kind == Kind::kPredicate) {
      set_predicate(warp, to, lanes, swapped);
      continue;
    }
    for (unsigned word = 0; word < words; word++) {
      Vector& register_ = destination(warp, instruction, i, word);
      // CAST.SPIN returns 1 if it stored.
      for_lanes(lanes, [&](unsigned l) {
        register_.lane[l] = atomic.operation != kCastSpin ? result[word].lane[l] : word == 0 ? swapped >> l & 1 : 0;
      });
    }
  }
  const bool reduces = memory == 0;
  record_access(warp, instruction, space, reduces ? Action::kReduction : Action::kAtomic, bytes, lanes, addresses);
}

void run_global(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  wide_addresses(warp, instruction.operands[atomic_of(instruction).memory], addresses);
  apply_in_lane_order(warp, instruction, Space::kGlobal, lanes, addresses);
}

void run_shared(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  narrow_addresses(warp, instruction.operands[atomic_of(instruction).memory], addresses);
  apply_in_lane_order(warp, instruction, Space::kShared, lanes, addresses);
}

// A generic 16-bit atomic on a shared address is left to the code after it: the predicate result is false.
void run_generic(Warp& warp, const Instruction& instruction, Mask lanes) {
  const Atomic atomic = atomic_of(instruction);
  Addresses addresses;
  wide_addresses(warp, instruction.operands[atomic.memory], addresses);
  const Generic parts = split_generic(lanes, addresses);
  if (parts.local) fault(warp, instruction, "atomic operation on local memory");
  if (parts.global) apply_in_lane_order(warp, instruction, Space::kGlobal, parts.global, addresses);
  if (!parts.shared) return;
  if (kElementBytes[atomic.element] == 2)
    set_predicate(warp, instruction.operands[0], parts.shared, 0);
  else
    apply_in_lane_order(warp, instruction, Space::kShared, parts.shared, addresses);
}

constexpr struct {
  const char* modifier;
  Operation operation;
} kOperations[] = {
    {"ADD", kAdd},       {"MIN", kMin},      {"MAX", kMax}, {"INC", kInc},       {"DEC", kDec},
    {"AND", kAnd},       {"OR", kOr},        {"XOR", kXor}, {"EXCH", kExchange}, {"CAS", kCompareExchange},
    {"CAST", kCastSpin}, {"ARRIVE", kArrive}};
constexpr struct {
  const char* modifier;
  Element element;
  u8 elements;
} kElements[] = {{"S32", kS32, 1},     {"U32", kU32, 1},     {"64", kU64, 1},     {"S64", kS64, 1},
                 {"F32", kF32, 1},     {"F64", kF64, 1},     {"128", kB128, 1},   {"F32x2", kF32, 2},
                 {"F32x4", kF32, 4},   {"F16x2", kF16, 2},   {"F16x4", kF16, 4},  {"F16x8", kF16, 8},
                 {"BF16x2", kBF16, 2}, {"BF16x4", kBF16, 4}, {"BF16x8", kBF16, 8}};

Handler decode(Instruction& i, Handler run) {
  Atomic atomic{};
  bool known = false;
  atomic.elements = 1;
  for (const std::string& modifier : i.modifiers) {
    bool understood = is_hint(modifier) || modifier == "FTZ" || modifier == "RN" || modifier == "SPIN" ||
                      modifier == "POPC" || modifier == "32";
    for (const auto& each : kOperations)
      if (modifier == each.modifier) atomic.operation = each.operation, understood = known = true;
    for (const auto& each : kElements)
      if (modifier == each.modifier) atomic.element = each.element, atomic.elements = each.elements, understood = true;
    if (!understood) return nullptr;
  }
  while (atomic.memory < i.operands.size() && i.operands[atomic.memory].kind != Kind::kMemory) atomic.memory++;
  if (!known || atomic.memory == i.operands.size()) return nullptr;
  atomic.flush = i.has("FTZ");
  if (i.has("POPC")) atomic.operation = kAdd, atomic.counts = true;
  const bool swaps = atomic.operation == kCompareExchange || atomic.operation == kCastSpin;
  const size_t values = atomic.counts || atomic.operation == kArrive ? 0 : swaps ? 2 : 1;
  if (i.operands.size() != atomic.memory + 1u + values) return nullptr;
  std::memcpy(&i.scratch[1], &atomic, sizeof atomic);
  set_caching(i, atomic.counts                          ? kIncrements
                 : atomic.operation == kCastSpin        ? kCasts
                 : atomic.operation == kCompareExchange ? kCompares
                                                        : kCached);
  return run;
}

Opcode ATOMG_opcode("ATOMG", kLsu, [](Instruction& i) { return decode(i, run_global); });
Opcode ATOM_opcode("ATOM", kLsu, [](Instruction& i) { return decode(i, run_generic); });
Opcode REDG_opcode("REDG", kLsu, [](Instruction& i) { return decode(i, run_global); });
Opcode RED_opcode("RED", kLsu, [](Instruction& i) { return decode(i, run_global); });
Opcode ATOMS_opcode("ATOMS", kLsu, [](Instruction& i) { return decode(i, run_shared); });

}  // namespace

}  // namespace ww::machine
