// ATOM, ATOMG, RED, REDG and ATOMS. Lanes are applied in order of their number.
#include <algorithm>

#include "access.h"
#include "footprints.h"
#include "mbarrier.h"
#include "reduction.h"

namespace ww::machine {

namespace {

// Decoded form of the instruction, in scratch[1].
struct Atomic {
  Update operation;
  Element element;
  u8 elements;
  u8 memory;    // index of the address operand
  bool flush;   // FTZ
  bool counts;  // POPC.INC: adds 1
  u8 unused[2];
  unsigned bytes() const { return bytes_of(element) * elements; }
};
static_assert(sizeof(Atomic) == sizeof(u64));
Atomic atomic_of(const Instruction& instruction) {
  Atomic atomic;
  std::memcpy(&atomic, &instruction.scratch[1], sizeof atomic);
  return atomic;
}

// Applies one lane; `old` receives the old value. Returns false if a compare-and-swap did not swap.
bool apply_lane(u8* pointer, const u8* value, const u8* compare, u8* old, const Atomic& atomic) {
  const unsigned bytes = atomic.bytes();
  std::memcpy(old, pointer, bytes);
  switch (atomic.operation) {
    case Update::kExchange:
      std::memcpy(pointer, value, bytes);
      return true;
    case Update::kCastSpin:
    case Update::kCompareExchange: {
      const bool same = std::memcmp(pointer, compare, bytes) == 0;
      if (same) std::memcpy(pointer, value, bytes);
      return same;
    }
    case Update::kArrive:
      arrive_before_sm90(pointer);
      return true;
    default:
      for (unsigned i = 0; i < atomic.elements; i++) {
        const unsigned at = i * bytes_of(atomic.element);
        apply_update(pointer + at, value + at, atomic.operation, atomic.element, atomic.flush);
      }
      return true;
  }
}

void apply_in_lane_order(Warp& warp, const Instruction& instruction, Space space, Mask lanes,
                         const Addresses& addresses) {
  const Atomic atomic = atomic_of(instruction);
  const unsigned bytes = atomic.bytes(), words = std::max(1u, bytes / 4), memory = atomic.memory;
  const bool swaps = atomic.operation == Update::kCompareExchange || atomic.operation == Update::kCastSpin;
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
  const Mask stores = atomic.operation == Update::kCastSpin ? first_of_each_bank(lanes, addresses.lane, bytes)
                                                            : lanes;  // see hardware.h
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
        register_.lane[l] = atomic.operation != Update::kCastSpin ? result[word].lane[l]
                            : word == 0                           ? swapped >> l & 1
                                                                  : 0;
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

// A generic 16-bit atomic does not access shared memory: for a shared address the predicate is false, and the code that
// follows performs the operation.
void run_generic(Warp& warp, const Instruction& instruction, Mask lanes) {
  const Atomic atomic = atomic_of(instruction);
  Addresses addresses;
  wide_addresses(warp, instruction.operands[atomic.memory], addresses);
  const Generic parts = split_generic(lanes, addresses);
  if (parts.local) fault(warp, instruction, "atomic operation on local memory");
  if (parts.global) apply_in_lane_order(warp, instruction, Space::kGlobal, parts.global, addresses);
  if (!parts.shared) return;
  if (bytes_of(atomic.element) == 2)
    set_predicate(warp, instruction.operands[0], parts.shared, 0);
  else
    apply_in_lane_order(warp, instruction, Space::kShared, parts.shared, addresses);
}

constexpr struct {
  const char* modifier;
  Element element;
  u8 elements;
} kElements[] = {{"S32", Element::kS32, 1},     {"U32", Element::kU32, 1},     {"64", Element::kU64, 1},
                 {"S64", Element::kS64, 1},     {"F32", Element::kF32, 1},     {"F64", Element::kF64, 1},
                 {"128", Element::kB128, 1},    {"F32x2", Element::kF32, 2},   {"F32x4", Element::kF32, 4},
                 {"F16x2", Element::kF16, 2},   {"F16x4", Element::kF16, 4},   {"F16x8", Element::kF16, 8},
                 {"BF16x2", Element::kBF16, 2}, {"BF16x4", Element::kBF16, 4}, {"BF16x8", Element::kBF16, 8}};

Handler decode(Instruction& i, Handler run) {
  Atomic atomic{};
  bool known = false;
  atomic.elements = 1;
  for (const std::string& modifier : i.modifiers) {
    bool understood = is_hint(modifier) || modifier == "FTZ" || modifier == "RN" || modifier == "SPIN" ||
                      modifier == "POPC" || modifier == "32";
    if (read_update(modifier, atomic.operation)) understood = known = true;
    for (const auto& each : kElements)
      if (modifier == each.modifier) atomic.element = each.element, atomic.elements = each.elements, understood = true;
    if (!understood) return nullptr;
  }
  while (atomic.memory < i.operands.size() && i.operands[atomic.memory].kind != Kind::kMemory) atomic.memory++;
  if (!known || atomic.memory == i.operands.size()) return nullptr;
  atomic.flush = i.has("FTZ");
  if (i.has("POPC")) atomic.operation = Update::kAdd, atomic.counts = true;
  const bool swaps = atomic.operation == Update::kCompareExchange || atomic.operation == Update::kCastSpin;
  const size_t values = atomic.counts || atomic.operation == Update::kArrive ? 0 : swaps ? 2 : 1;
  if (i.operands.size() != atomic.memory + 1u + values) return nullptr;
  std::memcpy(&i.scratch[1], &atomic, sizeof atomic);
  set_caching(i, atomic.counts                                  ? kIncrements
                 : atomic.operation == Update::kCastSpin        ? kCasts
                 : atomic.operation == Update::kCompareExchange ? kCompares
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
