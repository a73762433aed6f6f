// Loads from constant banks: LDC per lane, ULDC and LDCU per warp.
#include <cstring>

#include "core.h"

namespace ww::machine {
namespace {

struct Width {
  u8 bytes;
  bool is_signed;
};
Width width_of(const Instruction& instruction) {
  if (instruction.has("U8")) return {1, false};
  if (instruction.has("S8")) return {1, true};
  if (instruction.has("U16")) return {2, false};
  if (instruction.has("S16")) return {2, true};
  if (instruction.has("64")) return {8, false};
  if (instruction.has("128")) return {16, false};
  return {4, false};
}

template <unsigned words>
void load_fixed(Warp& warp, const Instruction& instruction, Mask lanes) {
  const Operand& source = instruction.operands[1];
  for (unsigned word = 0; word < words; word++) {
    Vector& target = destination(warp, instruction, 0, word);
    const Vector& value = word ? source.broadcast_high : source.broadcast;
    for_lanes(lanes, [&](unsigned l) { target.lane[l] = value.lane[l]; });
  }
}

void load_words(Warp& warp, const Instruction& instruction, Mask lanes, u32 (*const address)[kLanes]) {
  const unsigned bytes = static_cast<unsigned>(instruction.scratch[0]);
  const bool is_signed = instruction.scratch[1];
  const Operand& source = instruction.operands[1];
  Vector words[4];
  for_lanes(lanes, [&](unsigned l) {
    const u8* pointer = constant_memory(source.bank, (*address)[l], bytes, warp, instruction);
    u32 value[4] = {};
    memcpy(value, pointer, bytes);
    if (is_signed)
      value[0] = bytes == 1 ? static_cast<u32>(static_cast<int8_t>(value[0]))
                            : static_cast<u32>(static_cast<int16_t>(value[0]));
    for (unsigned word = 0; word < 4; word++) words[word].lane[l] = value[word];
  });
  for (unsigned word = 0; word < (bytes + 3) / 4; word++) {
    Vector& target = destination(warp, instruction, 0, word);
    for_lanes(lanes, [&](unsigned l) { target.lane[l] = words[word].lane[l]; });
  }
}

void load_based(Warp& warp, const Instruction& instruction, Mask lanes) {
  const Operand& source = instruction.operands[1];
  const Vector& base = warp.registers[source.base];
  const Vector& uniform = warp.uniforms[source.uniform_base];
  u32 addresses[kLanes];
  for (unsigned l = 0; l < kLanes; l++) addresses[l] = base.lane[l] + uniform.lane[l] + static_cast<u32>(source.value);
  load_words(warp, instruction, lanes, &addresses);
}

// Uniform registers are broadcast vectors: all lanes are written, regardless of the active mask.
template <Handler handler>
void for_warp(Warp& warp, const Instruction& instruction, Mask) {
  handler(warp, instruction, ~Mask{0});
}

Handler decode_load(Instruction& instruction) {
  const Width width = width_of(instruction);
  if (instruction.operands.size() != 2 || instruction.operands[1].kind != Kind::kConstant) return nullptr;
  if (is_fixed(instruction.operands[1]) && width.bytes == 4) return load_fixed<1>;
  if (is_fixed(instruction.operands[1]) && width.bytes == 8) return load_fixed<2>;
  instruction.scratch[0] = width.bytes;
  instruction.scratch[1] = width.is_signed;
  return load_based;
}

Handler decode_uniform_load(Instruction& instruction) {
  const Handler plain = decode_load(instruction);
  if (plain == load_fixed<1>) return for_warp<load_fixed<1>>;
  if (plain == load_fixed<2>) return for_warp<load_fixed<2>>;
  return plain ? for_warp<load_based> : nullptr;
}

const Opcode opcodes[] = {{"LDC", kAdu, decode_load},
                          {"ULDC", kUniformPipe, decode_uniform_load},
                          {"LDCU", kUniformPipe, decode_uniform_load}};

}  // namespace
}  // namespace ww::machine
