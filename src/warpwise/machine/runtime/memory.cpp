// Loads and stores of global, shared, local and generic memory.
#include "access.h"

namespace ww::machine {

namespace {

// `Bytes` per lane, sign-extended if `Signed`; wider values go to successive registers.
template <unsigned Bytes, bool Signed>
void load_lanes(Warp& warp, const Instruction& instruction, Mask lanes, const LanePointers& pointers) {
  if constexpr (Bytes <= 4) {
    Vector& to = destination(warp, instruction, 0);
    for_lanes(lanes, [&](unsigned l) {
      const u8* from = pointers(l);
      if constexpr (Bytes == 1)
        to.lane[l] = Signed ? static_cast<u32>(static_cast<i32>(static_cast<int8_t>(*from))) : *from;
      else if constexpr (Bytes == 2)
        to.lane[l] = Signed ? static_cast<u32>(static_cast<i32>(read_as<int16_t>(from))) : read_as<u16>(from);
      else
        to.lane[l] = read_as<u32>(from);
    });
  } else {
    Vector* to[Bytes / 4];
    for (unsigned word = 0; word < Bytes / 4; word++) to[word] = &destination(warp, instruction, 0, word);
    for_lanes(lanes, [&](unsigned l) {
      const u8* from = pointers(l);
      for (unsigned word = 0; word < Bytes / 4; word++) to[word]->lane[l] = read_as<u32>(from + 4 * word);
    });
  }
}

template <unsigned Bytes>
void store_lanes(Warp& warp, const Operand& data, Mask lanes, const LanePointers& pointers) {
  if constexpr (Bytes <= 4) {
    const Vector& from = source_word(warp, data, 0);
    for_lanes(lanes, [&](unsigned l) { std::memcpy(pointers(l), &from.lane[l], Bytes); });
  } else {
    const Vector* from[Bytes / 4];
    for (unsigned word = 0; word < Bytes / 4; word++) from[word] = &source_word(warp, data, word);
    for_lanes(lanes, [&](unsigned l) {
      u8* to = pointers(l);
      for (unsigned word = 0; word < Bytes / 4; word++) write_as<u32>(to + 4 * word, from[word]->lane[l]);
    });
  }
}

template <unsigned Bytes, bool Signed>
void load_from(Warp& warp, const Instruction& instruction, Space space, Mask lanes, const Addresses& addresses) {
  const LanePointers pointers(warp, instruction, space, lanes, addresses, Bytes);
  load_lanes<Bytes, Signed>(warp, instruction, lanes, pointers);
  record_access(warp, instruction, space, Action::kLoad, Bytes, lanes, addresses);
}

template <unsigned Bytes>
void store_to(Warp& warp, const Instruction& instruction, Space space, Mask lanes, const Addresses& addresses) {
  const LanePointers pointers(warp, instruction, space, lanes, addresses, Bytes);
  store_lanes<Bytes>(warp, instruction.operands[1], lanes, pointers);
  record_access(warp, instruction, space, Action::kStore, Bytes, lanes, addresses);
}

template <Space S, unsigned Bytes, bool Signed>
void load(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  (S == Space::kGlobal ? wide_addresses : narrow_addresses)(warp, instruction.operands[1], addresses);
  load_from<Bytes, Signed>(warp, instruction, S, lanes, addresses);
}

template <Space S, unsigned Bytes, bool>
void store(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  (S == Space::kGlobal ? wide_addresses : narrow_addresses)(warp, instruction.operands[0], addresses);
  store_to<Bytes>(warp, instruction, S, lanes, addresses);
}

// LD and ST: generic addresses.
template <Space, unsigned Bytes, bool Signed>
void load_generic(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  wide_addresses(warp, instruction.operands[1], addresses);
  const Generic parts = split_generic(lanes, addresses);
  if (parts.global) load_from<Bytes, Signed>(warp, instruction, Space::kGlobal, parts.global, addresses);
  if (parts.shared) load_from<Bytes, Signed>(warp, instruction, Space::kShared, parts.shared, addresses);
  if (parts.local) load_from<Bytes, Signed>(warp, instruction, Space::kLocal, parts.local, addresses);
}

template <Space, unsigned Bytes, bool>
void store_generic(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  wide_addresses(warp, instruction.operands[0], addresses);
  const Generic parts = split_generic(lanes, addresses);
  if (parts.global) store_to<Bytes>(warp, instruction, Space::kGlobal, parts.global, addresses);
  if (parts.shared) store_to<Bytes>(warp, instruction, Space::kShared, parts.shared, addresses);
  if (parts.local) store_to<Bytes>(warp, instruction, Space::kLocal, parts.local, addresses);
}

struct Width {
  unsigned bytes;
  bool is_signed;
};
bool width_of(const Instruction& instruction, Width& width) {
  static constexpr const char* kNames[] = {"U8", "S8", "U16", "S16", "64", "128"};
  static constexpr Width kWidthsOf[] = {{1, false}, {1, true}, {2, false}, {2, true}, {8, false}, {16, false}};
  width = {4, false};
  for (unsigned i = 0; i < 6; i++)
    if (instruction.has(kNames[i])) width = kWidthsOf[i];
  return only_modifiers(instruction, {"U8", "S8", "U16", "S16", "64", "128"});
}

// Selects the instantiation of a handler template for the access width.
#define WW_PICK_WIDTH(handler, space)                                                          \
  (width.bytes == 1   ? (width.is_signed ? handler<space, 1, true> : handler<space, 1, false>) \
   : width.bytes == 2 ? (width.is_signed ? handler<space, 2, true> : handler<space, 2, false>) \
   : width.bytes == 4 ? handler<space, 4, false>                                               \
   : width.bytes == 8 ? handler<space, 8, false>                                               \
                      : handler<space, 16, false>)

bool loads_from_memory(const Instruction& i) {
  return i.operands.size() == 2 && i.operands[0].kind == Kind::kRegister && i.operands[1].kind == Kind::kMemory;
}
bool stores_to_memory(const Instruction& i) {
  return i.operands.size() == 2 && i.operands[0].kind == Kind::kMemory &&
         (i.operands[1].kind == Kind::kRegister || i.operands[1].kind == Kind::kUniform);
}

#define WW_LOAD(name, handler, space, wide)                                                 \
  Opcode name##_opcode(#name, kLsu, [](Instruction& i) -> Handler {                         \
    Width width;                                                                            \
    if (!loads_from_memory(i) || !width_of(i, width) || i.has("E") != wide) return nullptr; \
    set_caching(i, caching_modifiers(i));                                                   \
    return WW_PICK_WIDTH(handler, space);                                                   \
  });
#define WW_STORE(name, handler, space, wide)                                               \
  Opcode name##_opcode(#name, kLsu, [](Instruction& i) -> Handler {                        \
    Width width;                                                                           \
    if (!stores_to_memory(i) || !width_of(i, width) || i.has("E") != wide) return nullptr; \
    return WW_PICK_WIDTH(handler, space);                                                  \
  });

WW_LOAD(LDG, load, Space::kGlobal, true)
WW_LOAD(LDS, load, Space::kShared, false)
WW_LOAD(LDL, load, Space::kLocal, false)
WW_LOAD(LD, load_generic, Space::kGlobal, true)
WW_STORE(STG, store, Space::kGlobal, true)
WW_STORE(STS, store, Space::kShared, false)
WW_STORE(STL, store, Space::kLocal, false)
WW_STORE(ST, store_generic, Space::kGlobal, true)

// QSPC.E.S P0, R, [R4]: true if a generic address is in shared (S), local (L) or global (G) memory.
template <char Of>
void query_space(Warp& warp, const Instruction& instruction, Mask lanes) {
  Addresses addresses;
  wide_addresses(warp, instruction.operands.back(), addresses);
  const Generic parts = split_generic(lanes, addresses);
  set_predicate(warp, instruction.operands[0], lanes,
                Of == 'S'   ? parts.shared
                : Of == 'L' ? parts.local
                            : parts.global);
}
Opcode QSPC_opcode("QSPC", kLsu, [](Instruction& i) -> Handler {
  if (i.operands.size() != 3 || i.operands[2].kind != Kind::kMemory) return nullptr;
  return i.has("S") ? query_space<'S'> : i.has("L") ? query_space<'L'> : i.has("G") ? query_space<'G'> : nullptr;
});

// Prefetches and cache control: no effect.
void nothing(Warp&, const Instruction&, Mask) {}
Opcode CCTL_opcode("CCTL", kLsu, [](Instruction&) -> Handler { return nothing; });
Opcode CCTLL_opcode("CCTLL", kLsu, [](Instruction&) -> Handler { return nothing; });
Opcode CCTLT_opcode("CCTLT", kLsu, [](Instruction&) -> Handler { return nothing; });

}  // namespace

}  // namespace ww::machine
