// SYNCS and ARRIVES: mbarrier objects, 64 bits in shared memory.
//
// From sm_90 on: bits 1..20 are 2^20 - expected arrivals, bits 21..42 the pending transaction bytes (tx-count), bits
// 43..62 are 2^20 - pending arrivals, and bit 63 is the phase, which flips when both pending counts are zero.
// Bits 21..42 are an assumption: no instruction exposes them to a program.
#include "mbarrier.h"

#include "access.h"

namespace ww::machine {

namespace {

constexpr u32 kCountMask = 0xfffff, kBytesMask = 0x3fffff;
struct State {
  u32 expected, pending, bytes, phase;
};
State unpack(u64 bits) {
  const auto count = [&](unsigned shift) {
    return (kCountMask + 1 - static_cast<u32>(bits >> shift & kCountMask)) & kCountMask;
  };
  return {count(1), count(43), static_cast<u32>(bits >> 21 & kBytesMask), static_cast<u32>(bits >> 63)};
}
u64 pack(const State& state) {
  const auto count = [](u32 value) { return u64{(kCountMask + 1 - value) & kCountMask}; };
  return count(state.expected) << 1 | u64{state.bytes & kBytesMask} << 21 | count(state.pending) << 43 |
         u64{state.phase} << 63;
}

// Applies an update to the barrier, completes the phase if nothing is pending, and returns the previous state.
template <class F>
u64 update(Warp& warp, const Instruction& instruction, u32 address, F&& f) {
  u8* pointer = shared_memory(address, 8, warp, instruction);
  const u64 before = read_as<u64>(pointer);
  State state = unpack(before);
  f(state);
  if (state.pending == 0 && state.bytes == 0) state.phase ^= 1, state.pending = state.expected;
  write_as(pointer, pack(state));
  return before;
}

// SYNCS.ARRIVE.TRANS64 R, [address], R'. The modifier A<arrivals>T<bytes> gives the arrivals and the update of the
// tx-count, each 0, 1, or R for register R' (X: R' bytes have completed). Default: A1TR.
enum Amount : u8 { kZero, kOne, kGiven, kMinusGiven };
struct Arrival {
  Amount arrivals, bytes;
  bool drops;     // OPTOUT (arrive_drop): one expected arrival less from the next phase on
  bool for_warp;  // TMASK: one arrival per warp; returns the lane mask and the upper word
  u8 unused[4];
};
static_assert(sizeof(Arrival) == sizeof(u64));
u32 amount(Amount kind, u32 given) { return kind == kZero ? 0 : kind == kOne ? 1 : kind == kGiven ? given : 0 - given; }

void arrive(Warp& warp, const Instruction& instruction, Mask lanes) {
  Arrival arrival;
  std::memcpy(&arrival, &instruction.scratch[1], sizeof arrival);
  Addresses addresses;
  narrow_addresses(warp, instruction.operands[1], addresses);
  const Vector given = source_word(warp, instruction.operands[2], 0);
  Vector &low = destination(warp, instruction, 0), &high = destination(warp, instruction, 0, 1);
  u64 first = 0;
  bool begun = false;
  for_lanes(lanes, [&](unsigned l) {
    const u64 before = update(warp, instruction, static_cast<u32>(addresses.lane[l]), [&](State& state) {
      state.bytes = (state.bytes + amount(arrival.bytes, given.lane[l])) & kBytesMask;
      state.pending = (state.pending - amount(arrival.arrivals, given.lane[l])) & kCountMask;
      if (arrival.drops) state.expected--;
    });
    if (!begun) first = before, begun = true;
    low.lane[l] = arrival.for_warp ? lanes : static_cast<u32>(before);
    high.lane[l] = static_cast<u32>((arrival.for_warp ? first : before) >> 32);
  });
  record_access(warp, instruction, Space::kShared, Action::kAtomic, 8, lanes, addresses);
}

// SYNCS.PHASECHK.TRANS64 P, [address], R: P is true if the phase differs from bit 31 of R. TRYWAIT, which can
// suspend the thread on a GPU, returns at once here.
void check_phase(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  narrow_addresses(warp, instruction.operands[1], addresses);
  const Vector token = source_word(warp, instruction.operands[2], 0);
  Mask passed = 0;
  for_lanes(lanes, [&](unsigned l) {
    const u8* pointer = shared_memory(static_cast<u32>(addresses.lane[l]), 8, warp, instruction);
    passed |= static_cast<Mask>((read_as<u64>(pointer) >> 63) != token.lane[l] >> 31) << l;
  });
  set_predicate(warp, instruction.operands[0], lanes, passed);
  record_access(warp, instruction, Space::kShared, Action::kLoad, 8, lanes, addresses);
}

// SYNCS.EXCH.64 UR, [address], UR': mbarrier.init.
void exchange(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  narrow_addresses(warp, instruction.operands[1], addresses);
  const Vector low = source_word(warp, instruction.operands[2], 0),
               high = source_word(warp, instruction.operands[2], 1);
  const unsigned l = static_cast<unsigned>(__builtin_ctz(lanes));
  u8* pointer = shared_memory(static_cast<u32>(addresses.lane[l]), 8, warp, instruction);
  const u64 before = read_as<u64>(pointer);
  write_as(pointer, low.lane[l] | u64{high.lane[l]} << 32);
  for (u32& lane : destination(warp, instruction, 0, 0).lane) lane = static_cast<u32>(before);
  for (u32& lane : destination(warp, instruction, 0, 1).lane) lane = static_cast<u32>(before >> 32);
  record_access(warp, instruction, Space::kShared, Action::kAtomic, 8, Mask{1} << l, addresses);
}

void nothing(Warp&, const Instruction&, Mask) {}

Handler decode_syncs(Instruction& i) {
  if (i.has("CCTL")) return nothing;
  if (i.operands.size() != 3 || i.operands[1].kind != Kind::kMemory) return nullptr;
  if (i.has("EXCH")) return i.has("64") ? exchange : nullptr;
  if (!i.has("TRANS64")) return nullptr;
  if (i.has("PHASECHK")) return only_modifiers(i, {"PHASECHK", "TRANS64", "TRYWAIT"}) ? check_phase : nullptr;
  if (!i.has("ARRIVE")) return nullptr;
  Arrival arrival{kOne, kGiven, i.has("OPTOUT"), i.has("TMASK"), {}};
  const auto amount_of = [](char letter) {
    return letter == '0' ? kZero : letter == '1' ? kOne : letter == 'R' ? kGiven : kMinusGiven;
  };
  for (const std::string& modifier : i.modifiers) {
    if (modifier.size() == 4 && modifier[0] == 'A' && modifier[2] == 'T') {
      arrival.arrivals = amount_of(modifier[1]);
      arrival.bytes = amount_of(modifier[3]);
    } else if (modifier != "ARRIVE" && modifier != "TRANS64" && modifier != "RED" && modifier != "OPTOUT" &&
               modifier != "TMASK") {
      return nullptr;
    }
  }
  std::memcpy(&i.scratch[1], &arrival, sizeof arrival);
  return arrive;
}
Opcode SYNCS_opcode("SYNCS", kLsu, decode_syncs);

// ARRIVES.LDGSTSBAR.64 [address]: arrives when the lane's cp.async copies are complete, as they always are here.
// TRANSCNT subtracts the byte that the previous instruction added to the tx-count; ARVCNT is an arrival. Without
// either, the mbarrier has the layout of architectures before sm_90.
enum class Landing { kOld, kTransaction, kArrival };
template <Landing K>
void arrive_after_copies(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  narrow_addresses(warp, instruction.operands[0], addresses);
  for_lanes(lanes, [&](unsigned l) {
    const u32 address = static_cast<u32>(addresses.lane[l]);
    if (K == Landing::kOld)
      arrive_before_sm90(shared_memory(address, 8, warp, instruction));
    else
      update(warp, instruction, address, [](State& state) {
        if (K == Landing::kTransaction) state.bytes = (state.bytes - 1) & kBytesMask;
        if (K == Landing::kArrival) state.pending = (state.pending - 1) & kCountMask;
      });
  });
}
Opcode ARRIVES_opcode("ARRIVES", kLsu, [](Instruction& i) -> Handler {
  if (i.operands.size() != 1 || i.operands[0].kind != Kind::kMemory || !i.has("LDGSTSBAR")) return nullptr;
  return i.has("TRANSCNT") ? arrive_after_copies<Landing::kTransaction>
         : i.has("ARVCNT") ? arrive_after_copies<Landing::kArrival>
                           : arrive_after_copies<Landing::kOld>;
});

}  // namespace

// STAS.128 [R2.64], R4 (st.async): R2 is the address of the data in a block of the cluster, R3 that of its mbarrier.
template <unsigned Bytes>
void store_async(Warp& warp, const Instruction& instruction, Mask lanes) {
  const Operand& address = instruction.operands[0];
  const Vector &data = warp.registers[address.base], &barrier = warp.registers[address.base + 1];
  for_lanes(lanes, [&](unsigned l) {
    u8* place = shared_memory(data.lane[l] + static_cast<u32>(address.value), Bytes, warp, instruction);
    for (unsigned word = 0; word < Bytes / 4; word++)
      write_as(place + 4 * word, source_word(warp, instruction.operands[1], word).lane[l]);
    complete_transactions(warp, instruction, barrier.lane[l], Bytes);
  });
}
Opcode STAS_opcode("STAS", kLsu, [](Instruction& i) -> Handler {
  if (i.operands.size() != 2 || i.operands[0].kind != Kind::kMemory || !only_modifiers(i, {"64", "128"}))
    return nullptr;
  return i.has("128") ? store_async<16> : i.has("64") ? store_async<8> : store_async<4>;
});

void complete_transactions(Warp& warp, const Instruction& instruction, u32 address, u32 bytes) {
  update(warp, instruction, address, [&](State& state) { state.bytes = (state.bytes - bytes) & kBytesMask; });
}

void arrive_before_sm90(u8* pointer) {
  const u32 expected = read_as<u32>(pointer), counted = read_as<u32>(pointer + 4) + 1;
  const bool complete = (counted & 0x7fffffff) == 0;
  write_as(pointer + 4, complete ? (counted & 0x80000000) | (0x40000000 + expected) : counted);
}

}  // namespace ww::machine
