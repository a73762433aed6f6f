// Parses the program text from Python (program.py), and holds the registry of opcodes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "core.h"
#include "lanes.h"

namespace ww::machine {
namespace {

struct Entry {
  Pipe pipe;
  Decoder decode;
  const char* approximate;
};
std::map<std::string, Entry>& registry() {
  static std::map<std::string, Entry> entries;
  return entries;
}

// Latency in cycles of the variable-latency instructions of each pipe: fp64, xu, lsu (SHFL) and tensor measured on an
// H200 (latency.cu), the others from published microbenchmarks.
constexpr u8 kPipeLatency[kPipes] = {4, 4, 6, 8, 17, 24, 100, 12, 24, 24, 6};

// Tab-separated fields of a line.
class Fields {
 public:
  Fields(const char* at, const char* end) : at_(at), end_(end) {}
  std::string text() {
    const char* tab = static_cast<const char*>(memchr(at_, '\t', end_ - at_));
    const char* stop = tab ? tab : end_;
    std::string found(at_, stop);
    at_ = tab ? tab + 1 : end_;
    return found;
  }
  i64 number() { return strtoll(text().c_str(), nullptr, 10); }

 private:
  const char *at_, *end_;
};

Operand parse_operand(Fields fields) {
  Operand operand;
  operand.kind = static_cast<Kind>(fields.number());
  operand.index = static_cast<u8>(fields.number());
  operand.bank = static_cast<u8>(fields.number());
  operand.base = static_cast<u8>(fields.number());
  operand.uniform_base = static_cast<u8>(fields.number());
  const i64 flags = fields.number();
  operand.negated = flags & 1, operand.absolute = flags & 2, operand.inverted = flags & 4;
  operand.wide = flags & 8, operand.base_wide = flags & 16;
  operand.value = fields.number();
  operand.name = fields.text();
  operand.suffix = fields.text();
  return operand;
}

std::vector<std::string> split_modifiers(const std::string& joined) {
  std::vector<std::string> found;
  for (size_t start = 0; start < joined.size();) {
    const size_t dot = std::min(joined.find('.', start), joined.size());
    found.push_back(joined.substr(start, dot - start));
    start = dot + 1;
  }
  return found;
}

void broadcast(Vector& vector, u32 value) {
  for (u32& lane : vector.lane) lane = value;
}

void run_unsupported(Warp&, const Instruction& instruction, Mask) {
  throw Fault{Fault::kUnsupported, instruction.index, "unsupported instruction " + instruction.text};
}

// Generic shared addresses and those of mapa contain a block's rank; LDS, STS and ATOMS access the warp's own block.
bool reaches_cluster(const Instruction& instruction) {
  static const char* const kOpcodes[] = {"LD", "ST", "ATOM", "RED", "STAS", "UTMALDG", "UBLKCP", "UBLKRED"};
  if (instruction.opcode == "SYNCS") return instruction.has("RED");
  return std::any_of(std::begin(kOpcodes), std::end(kOpcodes),
                     [&](const char* opcode) { return instruction.opcode == opcode; });
}

void decode(Instruction& instruction) {
  const auto found = registry().find(instruction.opcode);
  if (found != registry().end()) {
    instruction.pipe = found->second.pipe;
    instruction.run = found->second.decode(instruction);
    instruction.reaches_cluster = reaches_cluster(instruction);
    if (!instruction.approximate) instruction.approximate = found->second.approximate;
  }
  if (!instruction.run) instruction.run = run_unsupported;
}

IssueEntry issue_entry(const Instruction& instruction) {
  IssueEntry entry{};
  entry.run = instruction.run;
  entry.instruction = &instruction;
  entry.guard = static_cast<u8>(instruction.guard.index + (instruction.guard.kind == Kind::kUniformPredicate ? 8 : 0));
  entry.guard_flip = instruction.guard.inverted ? ~Mask{0} : 0;
  entry.stall = std::max<u8>(instruction.control.stall, 1);
  entry.wait_mask = instruction.control.wait_mask;
  entry.write_barrier = instruction.control.write_barrier;
  entry.read_barrier = instruction.control.read_barrier;
  entry.latency = kPipeLatency[instruction.pipe];
  entry.spin = instruction.spin;
  return entry;
}

}  // namespace

// Not inline: decoders call them hundreds of times, and inlining them costs a sixth of the compile time.
bool Instruction::has(const char* modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

bool has_only(const Instruction& instruction, std::initializer_list<const char*> known) {
  return std::all_of(instruction.modifiers.begin(), instruction.modifiers.end(), [&](const std::string& modifier) {
    return std::find(known.begin(), known.end(), modifier) != known.end();
  });
}

Opcode::Opcode(const char* name, Pipe pipe, Decoder decode, const char* approximate) {
  registry()[name] = {pipe, decode, approximate};
}

std::vector<std::pair<std::string, const char*>> known_opcodes() {
  std::vector<std::pair<std::string, const char*>> known;
  for (const auto& [name, entry] : registry()) known.emplace_back(name, entry.approximate);
  return known;
}

bool is_supported(const Instruction& instruction) { return instruction.run != run_unsupported; }

std::unique_ptr<Program> parse_program(const char* text, size_t bytes) {
  auto program = std::make_unique<Program>();
  size_t operands_left = 0;
  bool guard_is_next = false;
  for (const char *at = text, *end = text + bytes; at < end;) {
    const char* newline = static_cast<const char*>(memchr(at, '\n', end - at));
    const char* stop = newline ? newline : end;
    Fields fields(at, stop);
    at = stop + 1;
    const std::string kind = fields.text();
    if (kind == "X") {
      program->externals.push_back(fields.text());
    } else if (kind == "I") {
      Instruction instruction;
      instruction.index = static_cast<u32>(program->instructions.size());
      instruction.address = static_cast<u32>(fields.number());
      Control& control = instruction.control;
      control.stall = static_cast<u8>(fields.number());
      control.yields = static_cast<u8>(fields.number());
      control.write_barrier = static_cast<u8>(fields.number());
      control.read_barrier = static_cast<u8>(fields.number());
      control.wait_mask = static_cast<u8>(fields.number());
      instruction.spin = static_cast<u8>(fields.number());
      operands_left = static_cast<size_t>(fields.number());
      instruction.operands.reserve(operands_left);
      instruction.opcode = fields.text();
      instruction.modifiers = split_modifiers(fields.text());
      instruction.text = fields.text();
      program->instructions.push_back(std::move(instruction));
      guard_is_next = true;
    } else {
      Instruction& instruction = program->instructions.back();
      (guard_is_next ? instruction.guard : instruction.operands.emplace_back()) = parse_operand(fields);
      guard_is_next = false;
    }
  }
  for (Instruction& instruction : program->instructions) {
    for (Operand& operand : instruction.operands)
      if (operand.kind == Kind::kImmediate) {
        broadcast(operand.broadcast, static_cast<u32>(operand.value));
        broadcast(operand.broadcast_high, static_cast<u32>(operand.value >> 32));
      }
    decode(instruction);
  }
  for (const Instruction& instruction : program->instructions)
    program->issue_entries.push_back(issue_entry(instruction));
  return program;
}

void fill_constants(Program& program) {
  for (Instruction& instruction : program.instructions)
    for (Operand& operand : instruction.operands) {
      if (operand.kind != Kind::kConstant || !is_fixed(operand) || operand.bank >= 8) continue;
      u32 words[2] = {0, 0};
      const ConstantBank& bank = run.banks[operand.bank];
      const u64 start = static_cast<u64>(operand.value);
      if (start < bank.bytes) memcpy(words, bank.data + start, std::min<u64>(sizeof words, bank.bytes - start));
      broadcast(operand.broadcast, words[0]);
      broadcast(operand.broadcast_high, words[1]);
    }
}

}  // namespace ww::machine
