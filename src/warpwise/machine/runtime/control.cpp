// Branches, calls, convergence barriers, block barriers, exit, and instructions without effect in the interpreter.
#include "core.h"

namespace ww::machine {
namespace {

// ---- Branches

void branch_to(Warp& warp, Mask lanes, u32 target) {
  if (lanes == warp.running) {
    warp.pc = target;
    return;
  }
  warp.splits.push_back({lanes, target});
  warp.running &= ~lanes;
}

void branch(Warp& warp, const Instruction& instruction, Mask lanes) {
  branch_to(warp, lanes, static_cast<u32>(instruction.scratch[0]));
}

void branch_if(Warp& warp, const Instruction& instruction, Mask lanes) {
  const Mask taken = lanes & predicate(warp, instruction.operands[0]);
  if (taken) branch_to(warp, taken, static_cast<u32>(instruction.scratch[0]));
}

// BRA.U.ANY: all active lanes branch if the condition is true in any of them.
void branch_any(Warp& warp, const Instruction& instruction, Mask) {
  branch_to(warp, warp.running, static_cast<u32>(instruction.scratch[0]));
}

// The lanes of the mask in a uniform register that have not exited and are not active.
Mask missing_lanes(Warp& warp, const Instruction& instruction) {
  const Operand& operand = instruction.operands[0];
  Vector temporary;
  const u32 value = source(warp, instruction, 0, temporary).lane[0];
  return (operand.inverted ? ~value : value) & warp.alive & ~warp.running;
}
void branch_if_diverged(Warp& warp, const Instruction& instruction, Mask lanes) {
  if (missing_lanes(warp, instruction)) branch_to(warp, lanes, static_cast<u32>(instruction.scratch[0]));
}
void branch_if_converged(Warp& warp, const Instruction& instruction, Mask lanes) {
  if (!missing_lanes(warp, instruction)) branch_to(warp, lanes, static_cast<u32>(instruction.scratch[0]));
}

const Operand* label_of(const Instruction& instruction) {
  for (const Operand& operand : instruction.operands)
    if (operand.kind == Kind::kLabel) return &operand;
  return nullptr;
}

Handler decode_branch(Instruction& instruction) {
  const Operand* label = label_of(instruction);
  if (!label || &instruction.operands.back() != label) return nullptr;
  instruction.scratch[0] = static_cast<u64>(label->value);
  if (instruction.operands.size() == 1) return instruction.has("ANY") ? branch_any : branch;
  if (instruction.operands.size() != 2) return nullptr;
  if (instruction.has("DIV")) return branch_if_diverged;
  if (instruction.has("CONV")) return branch_if_converged;
  const Kind kind = instruction.operands[0].kind;
  return kind == Kind::kPredicate || kind == Kind::kUniformPredicate ? branch_if : nullptr;
}

// ---- Indirect jumps: target = scratch[0] + register operand number scratch[1], in bytes.

// Driver functions. vprintf prints nothing here. By the ABI the return address is in R20.
void call_driver(Warp& warp, const Instruction& instruction, Mask lanes, u32 address) {
  const size_t number = (address - kExternals) / 16;
  const std::string name = number < run.program->externals.size() ? run.program->externals[number] : "?";
  if (name == "__assertfail") fault(warp, instruction, "device-side assert failed");
  const u32 back = warp.registers[20].lane[__builtin_ctz(lanes)] / 16;
  if (name != "vprintf" || back >= launch.instructions)
    throw Fault{Fault::kUnsupported, instruction.index, "unsupported driver function " + name};
  for_lanes(lanes, [&](unsigned l) { warp.registers[4].lane[l] = 0; });
  branch_to(warp, lanes, back);
}

void jump(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector temporary;
  const Vector& offset = source(warp, instruction, static_cast<unsigned>(instruction.scratch[1]), temporary);
  for (Mask rest = lanes; rest;) {
    const u32 first = offset.lane[__builtin_ctz(rest)];
    Mask same = 0;
    for_lanes(rest, [&](unsigned l) { same |= Mask{offset.lane[l] == first} << l; });
    const u32 target = static_cast<u32>(instruction.scratch[0]) + first;
    if (target >= kExternals) {
      call_driver(warp, instruction, same, target);
      rest &= ~same;
      if (!warp.running) next_split(warp);
      continue;
    }
    if (target % 16 || target / 16 >= launch.instructions)
      fault(warp, instruction, "jump to 0x%x, outside the program", target);
    rest &= ~same;
    branch_to(warp, same, target / 16);
    if (!warp.running) next_split(warp);
  }
}

bool is_value(const Operand& operand) {
  return operand.kind == Kind::kRegister || operand.kind == Kind::kUniform || operand.kind == Kind::kConstant ||
         operand.kind == Kind::kImmediate;
}

// BRX R4 -0x300 is relative to the next instruction; CALL, JMP and RET to the label or the start of the program.
Handler decode_jump(Instruction& instruction) {
  const auto& operands = instruction.operands;
  const Operand* label = label_of(instruction);
  if (operands.empty()) return nullptr;
  if (operands.size() == 1 && label) {
    instruction.scratch[0] = static_cast<u64>(label->value);
    return branch;
  }
  if (!is_value(operands[0])) return nullptr;
  const bool relative = instruction.opcode == "BRX" || instruction.opcode == "BRXU";
  i64 base = relative ? instruction.address + 16 : label && instruction.has("REL") ? label->value * 16 : 0;
  if (operands.size() == 2 && operands[1].kind == Kind::kImmediate) base += operands[1].value;
  instruction.scratch[0] = static_cast<u64>(base);
  instruction.scratch[1] = 0;
  return jump;
}

void load_address(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector &low = destination(warp, instruction, 0), &high = destination(warp, instruction, 0, 1);
  for_lanes(lanes, [&](unsigned l) {
    low.lane[l] = static_cast<u32>(instruction.scratch[0]);
    high.lane[l] = 0;
  });
}
Handler decode_load_address(Instruction& instruction) {
  const Operand* label = label_of(instruction);
  instruction.scratch[0] = label ? static_cast<u64>(label->value) * 16 : instruction.address;
  return load_address;
}

// ---- Convergence barriers

unsigned barrier_of(const Instruction& instruction) { return static_cast<unsigned>(instruction.scratch[0]); }

void set_barrier(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector& barrier = warp.convergence[barrier_of(instruction)];
  for_lanes(lanes, [&](unsigned l) { barrier.lane[l] = lanes; });
}

void synchronise(Warp& warp, Mask lanes, unsigned at) {
  const Vector& barrier = warp.convergence[at];
  const Mask wanted = barrier.lane[__builtin_ctz(lanes)] & warp.alive;
  if (lanes == warp.running && !(wanted & ~lanes)) return;
  const u32 pc = warp.pc;
  for (Mask rest = lanes; rest;) {  // lanes that wait at the same barrier
    const u32 mask = barrier.lane[__builtin_ctz(rest)];
    Mask same = 0;
    for_lanes(rest, [&](unsigned l) { same |= Mask{barrier.lane[l] == mask} << l; });
    rest &= ~same;
    wait_at(warp, same, pc, at);
  }
  release_converged(warp);
}

void converge(Warp& warp, const Instruction& instruction, Mask lanes) {
  synchronise(warp, lanes, barrier_of(instruction));
}

void synchronise_warp(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector temporary;
  Vector& wanted = warp.convergence[kWarpSync];
  if (instruction.scratch[0]) {
    for_lanes(lanes, [&](unsigned l) { wanted.lane[l] = ~Mask{0}; });
  } else {
    const Vector& masks = source(warp, instruction, 0, temporary);
    for_lanes(lanes, [&](unsigned l) { wanted.lane[l] = masks.lane[l]; });
  }
  synchronise(warp, lanes, kWarpSync);
}

void break_barrier(Warp& warp, const Instruction& instruction, Mask lanes) {
  if (instruction.scratch[1]) lanes &= predicate(warp, instruction.operands[0]);
  Vector& barrier = warp.convergence[barrier_of(instruction)];
  for (unsigned l = 0; l < kLanes; l++) barrier.lane[l] = lanes >> l & 1 ? 0 : barrier.lane[l] & ~lanes;
  release_converged(warp);
}

void barrier_to_register(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector& barrier = warp.convergence[instruction.operands[1].index];
  Vector& target = destination(warp, instruction, 0);
  for_lanes(lanes, [&](unsigned l) {
    target.lane[l] = barrier.lane[l];
    if (instruction.scratch[0]) barrier.lane[l] = 0;
  });
}

void register_to_barrier(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector temporary;
  Vector& barrier = warp.convergence[instruction.operands[0].index];
  const Vector& value = source(warp, instruction, 1, temporary);
  for_lanes(lanes, [&](unsigned l) { barrier.lane[l] = value.lane[l]; });
}

bool is_convergence_barrier(const Operand& operand) {
  return operand.kind == Kind::kBarrier && operand.name == "B" && operand.index < kConvergenceBarriers;
}

template <Handler handler>
Handler decode_barrier(Instruction& instruction) {
  for (const Operand& operand : instruction.operands)
    if (is_convergence_barrier(operand)) {
      instruction.scratch[0] = operand.index;
      instruction.scratch[1] = instruction.operands[0].kind == Kind::kPredicate;
      return handler;
    }
  return nullptr;
}

Handler decode_bmov(Instruction& instruction) {
  const auto& operands = instruction.operands;
  if (operands.size() != 2 || instruction.has("64")) return nullptr;
  instruction.scratch[0] = instruction.has("CLEAR");
  if (operands[0].kind == Kind::kRegister && is_convergence_barrier(operands[1])) return barrier_to_register;
  return is_convergence_barrier(operands[0]) && is_value(operands[1]) ? register_to_barrier : nullptr;
}

Handler decode_warpsync(Instruction& instruction) {
  instruction.scratch[0] = instruction.has("ALL");
  if (!instruction.scratch[0] && (instruction.operands.empty() || !is_value(instruction.operands[0]))) return nullptr;
  return synchronise_warp;
}

// ---- Block barriers: scratch[0] is 1 + the index of the thread-count operand (0: none), scratch[1] that of the
// predicate operand.

constexpr u64 kConjunction = 256;  // in scratch[1]: BAR.RED.AND
unsigned operand_of(u64 packed) { return static_cast<unsigned>(packed & (kConjunction - 1)) - 1; }

struct BlockBarrier {
  unsigned number;
  u32 expected;
};
BlockBarrier block_barrier(Warp& warp, const Instruction& instruction, Mask lanes) {
  Vector temporary;
  const unsigned lane = static_cast<unsigned>(__builtin_ctz(lanes));
  const u32 number = source(warp, instruction, 0, temporary).lane[lane];
  if (number >= 16) fault(warp, instruction, "barrier %u; expected 0 to 15", number);
  u32 expected = 0;
  if (instruction.scratch[0])
    expected = source(warp, instruction, operand_of(instruction.scratch[0]), temporary).lane[lane];
  return {number, expected};
}

void wait_for_block(Warp& warp, const Instruction& instruction, Mask lanes) {
  const BlockBarrier named = block_barrier(warp, instruction, lanes);
  Barrier& barrier = warp.block->barriers[named.number];
  barrier.expected = named.expected;
  if (instruction.scratch[1]) {
    const Mask votes = lanes & predicate(warp, instruction.operands[operand_of(instruction.scratch[1])]);
    barrier.lanes += static_cast<u32>(__builtin_popcount(votes));
    barrier.all &= votes == lanes;
    barrier.any |= votes != 0;
    barrier.conjunction = instruction.scratch[1] & kConjunction;
  }
  wait_at(warp, lanes, warp.pc, kBlockBarrier + named.number);
  update_block_barriers(*warp.block);
}

void arrive_at_block(Warp& warp, const Instruction& instruction, Mask lanes) {
  const BlockBarrier named = block_barrier(warp, instruction, lanes);
  Barrier& barrier = warp.block->barriers[named.number];
  barrier.expected = named.expected;
  barrier.threads += kLanes;
  update_block_barriers(*warp.block);
}

Handler decode_bar(Instruction& instruction) {
  if (instruction.operands.empty() || !is_value(instruction.operands[0])) return nullptr;
  for (unsigned i = 1; i < instruction.operands.size(); i++) {
    const Operand& operand = instruction.operands[i];
    const bool is_predicate = operand.kind == Kind::kPredicate || operand.kind == Kind::kUniformPredicate;
    if (!is_predicate && !is_value(operand)) return nullptr;
    instruction.scratch[is_predicate ? 1 : 0] = i + 1;
  }
  if (instruction.has("ARV")) return arrive_at_block;
  if (instruction.has("RED")) {
    if (!instruction.scratch[1]) return nullptr;
    if (instruction.has("AND")) instruction.scratch[1] |= kConjunction;
    return wait_for_block;
  }
  instruction.scratch[1] = 0;
  return instruction.has("SYNC") || instruction.has("SYNCALL") ? wait_for_block : nullptr;
}

// B2R.RESULT R0, P0: the count in the register, the AND or OR reduction in the predicate.
void barrier_result(Warp& warp, const Instruction& instruction, Mask lanes) {
  for (unsigned i = 0; i < instruction.operands.size(); i++) {
    const Operand& operand = instruction.operands[i];
    if (operand.kind == Kind::kPredicate) {
      set_predicate(warp, operand, lanes, warp.barrier_holds ? ~Mask{0} : 0);
    } else {
      Vector& target = destination(warp, instruction, i);
      for_lanes(lanes, [&](unsigned l) { target.lane[l] = warp.barrier_result; });
    }
  }
}
Handler decode_b2r(Instruction& instruction) { return instruction.has("RESULT") ? barrier_result : nullptr; }

// ---- Exit, yield, trap, and instructions without effect

void exit(Warp& warp, const Instruction&, Mask lanes) { exit_lanes(warp, lanes); }
Handler decode_exit(Instruction& instruction) { return instruction.operands.size() > 1 ? nullptr : exit; }

void yield(Warp& warp, const Instruction&, Mask) { warp.budget = 1; }
Handler decode_yield(Instruction&) { return yield; }

void no_operation(Warp&, const Instruction&, Mask) {}
Handler decode_no_operation(Instruction&) { return no_operation; }

// UCGABAR_ARV and UCGABAR_WAIT: barrier.cluster.arrive and .wait.
void arrive_at_cluster(Warp& warp, const Instruction&, Mask lanes) {
  Cluster& cluster = *warp.block->cluster;
  warp.at_cluster |= lanes;
  warp.cluster_phase = cluster.phase;
  cluster.latest = std::max(cluster.latest, warp.cycle);
  update_cluster_barrier(cluster);
}
void wait_for_cluster(Warp& warp, const Instruction&, Mask lanes) {
  if (warp.cluster_phase == warp.block->cluster->phase) wait_at(warp, lanes, warp.pc, kClusterBarrier);
}
Handler decode_cluster_arrive(Instruction&) { return arrive_at_cluster; }
Handler decode_cluster_wait(Instruction&) { return wait_for_cluster; }

// USETMAXREG.TRY_ALLOC UP, count: UP is true if the registers are allocated. Here the allocation always succeeds.
void allocate_registers(Warp& warp, const Instruction& instruction, Mask) {
  set_predicate(warp, instruction.operands[0], ~Mask{0}, ~Mask{0});
}
Handler decode_setmaxreg(Instruction& i) { return i.has("TRY_ALLOC") ? allocate_registers : no_operation; }

void trap(Warp& warp, const Instruction& instruction, Mask) {
  fault(warp, instruction, "trap: __trap() or a failed device-side assert");
}
Handler decode_trap(Instruction&) { return trap; }

const Opcode opcodes[] = {
    {"BRA", kCbu, decode_branch},
    {"BRX", kCbu, decode_jump},
    {"BRXU", kCbu, decode_jump},
    {"JMP", kCbu, decode_jump},
    {"JMX", kCbu, decode_jump},
    {"CALL", kCbu, decode_jump},
    {"RET", kCbu, decode_jump},
    {"LEPC", kAlu, decode_load_address},
    {"BSSY", kCbu, decode_barrier<set_barrier>},
    {"BSYNC", kCbu, decode_barrier<converge>},
    {"BREAK", kCbu, decode_barrier<break_barrier>},
    {"BMOV", kCbu, decode_bmov},
    {"WARPSYNC", kCbu, decode_warpsync},
    {"BAR", kAdu, decode_bar},
    {"B2R", kAdu, decode_b2r},
    {"EXIT", kCbu, decode_exit},
    {"KILL", kCbu, decode_exit},
    {"YIELD", kCbu, decode_yield},
    {"NANOSLEEP", kCbu, decode_yield},
    {"BPT", kCbu, decode_trap},
    // Execution is in order and memory is coherent: fences and flushes have no effect.
    {"NOP", kAlu, decode_no_operation},
    {"MEMBAR", kLsu, decode_no_operation},
    {"ERRBAR", kLsu, decode_no_operation},
    {"CGAERRBAR", kLsu, decode_no_operation},
    {"FENCE", kLsu, decode_no_operation},
    {"PMTRIG", kAlu, decode_no_operation},
    {"PREEXIT", kCbu, decode_no_operation},
    {"ACQBULK", kCbu, decode_no_operation},
    {"WARPGROUP", kCbu, decode_no_operation},
    {"USETMAXREG", kUniformPipe, decode_setmaxreg},
    {"UCGABAR_ARV", kUniformPipe, decode_cluster_arrive},
    {"UCGABAR_WAIT", kUniformPipe, decode_cluster_wait},
};

}  // namespace
}  // namespace ww::machine
