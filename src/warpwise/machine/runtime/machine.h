// A SIMT interpreter of SASS: warps of 32 lanes execute instructions and update the counters of each instruction.
//
// Each opcode registers a decoder. A decoder runs once per instruction of a program and selects a handler for the
// modifiers. A handler runs for one warp, with the mask of active lanes whose guard predicate is true (never 0). It
// reads operands as vectors of 32 lanes and writes its destinations in these lanes only.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ww::machine {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;
using i64 = int64_t;
using Mask = u32;  // bit l: lane l

constexpr unsigned kLanes = 32;
constexpr unsigned kRegisterZero = 255, kUniformZero = 63, kPredicateTrue = 7;

// One 32-bit register of a warp.
struct alignas(64) Vector {
  u32 lane[kLanes];
};

enum class Kind : u8 {
  kNone,
  kRegister,          // R5: `index`; `wide` for R4.64
  kUniform,           // UR4
  kPredicate,         // P0, !P0 (`inverted`); index 7 is PT
  kUniformPredicate,  // UP0
  kImmediate,         // `value`: the bits of 0x3f800000, 1.5, -QNAN ...; floats as float32 bits
  kConstant,          // c[bank][offset]: `bank`, `value`; with a register or uniform base, `base` or `uniform_base`
  kMemory,   // [R2.64+UR4+0x10]: `base` (wide: `base_wide`), `uniform_base`, `value`: displacement; desc[] is ignored
  kSpecial,  // SR_TID.X: `name`
  kBarrier,  // B0: convergence barriers; SB0: scoreboards
  kLabel,    // a branch target: `value` is an instruction index
  kOther,    // anything else: `name`
};

struct Operand {
  Kind kind = Kind::kNone;
  u8 index = 0, bank = 0;
  u8 base = kRegisterZero, uniform_base = kUniformZero;
  bool negated = false, absolute = false, inverted = false;  // -x, |x|, and ~x or !p
  bool wide = false, base_wide = false;
  i64 value = 0;
  std::string name;    // of a special register or of an unclassified operand
  std::string suffix;  // H0_H0, H1_H1, B1, X4, ROW, COL ...: the register's suffixes except .reuse and .64
  // Broadcast value of an immediate (set once per program) or a constant without a base (set once per launch), before
  // negation and inversion.
  Vector broadcast, broadcast_high;  // high: bits 32..63 of a 64-bit constant operand
};

struct Control {  // the scheduling bits of an instruction
  u8 stall;       // cycles until the next instruction of the warp can issue
  u8 yields;
  u8 write_barrier, read_barrier;  // scoreboards to set: 0..5, or 7 for none
  u8 wait_mask;                    // scoreboards to wait for
};

struct Warp;
struct Block;
struct Instruction;
using Handler = void (*)(Warp&, const Instruction&, Mask lanes);

struct Instruction {
  Handler run = nullptr;
  u32 index = 0;                       // in the program
  u32 address = 0;                     // bytes from the program's start
  Operand guard;                       // kPredicate or kUniformPredicate; PT if unguarded
  std::string opcode;                  // "LDG"
  std::vector<std::string> modifiers;  // "E", "128", "CONSTANT"
  std::vector<Operand> operands;       // destinations first, as nvdisasm prints them
  Control control{};
  u8 spin = 0;  // 1: in a loop that polls memory until another thread writes it; 2: the branch that ends it
  std::string text;
  u64 scratch[2] = {0, 0};  // decoded by the decoder for its handler: a width, an immediate LUT, ...
  u8 pipe = 0;              // a Pipe, set by the decoder's registration
  // What differs from the hardware; null: results are equal. Set by the decoder or by its registration.
  const char* approximate = nullptr;
  bool reaches_cluster = false;  // the upper 8 bits of its shared addresses select a block of the cluster
  bool has(const char* modifier) const;
};

// The pipe that executes an instruction, named as in ncu's sm__inst_executed_pipe_*.
enum Pipe : u8 { kAlu, kFma, kFp16, kFp64, kXu, kLsu, kTex, kUniformPipe, kTensor, kAdu, kCbu, kPipes };

// ---- Registering opcodes

using Decoder = Handler (*)(Instruction&);  // nullptr: these modifiers are not supported
struct Opcode {
  // One static object per opcode. `approximate`: what differs from the hardware; see Instruction.
  Opcode(const char* name, Pipe pipe, Decoder decode, const char* approximate = nullptr);
};

// ---- Counters of an instruction, all u64. counts.py lists them in the same order.

struct InstructionCounts {
  u64 executed;          // warp instructions, including those with all lanes predicated off
  u64 threads;           // sum of active lanes
  u64 threads_on;        // sum of active lanes whose guard predicate is true
  u64 requests;          // memory instructions with at least one lane predicated on
  u64 bytes;             // sum of lanes predicated on x access width
  u64 tags;              // sum of the 128-byte lines per request: L1 tag look-ups
  u64 sectors;           // sum of the 32-byte sectors per request (global and local memory)
  u64 ideal_sectors;     // sum of ceil(distinct bytes / 32) per request
  u64 l1_hits;           // sectors that hit in the L1 model
  u64 l2_sectors;        // sectors requested from L2
  u64 wavefronts;        // shared-memory wavefronts
  u64 ideal_wavefronts;  // the same without bank conflicts
  u64 conflicts;         // bank conflicts as ncu counts them
  u64 stall_cycles;      // cycles that a warp alone on an SM waits before this instruction (scheduling bits, latencies)
  u64 l2_hits;           // sectors of l2_sectors that hit in the L2 model
  u64 dram_sectors;      // sectors fetched from DRAM: L2 misses and their neighbours in the 64-byte fetch
  u64 off4, off8, off16;  // requests to global memory with an address that is not a multiple of 4, 8, 16 bytes
};

// ---- State

struct Uniforms {  // the uniform registers and predicates
  Vector registers[64];
  Mask predicates[8];
};
struct Split {  // a divergent group of lanes with a common pc
  Mask lanes;
  u32 pc;                                              // an instruction index
  std::shared_ptr<const Uniforms> uniforms = nullptr;  // saved uniform registers, if the group was preempted
};

constexpr unsigned kConvergenceBarriers = 16, kWarpSync = 16, kBlockBarrier = 17,
                   kClusterBarrier = kBlockBarrier + 16;  // see Waiting::at
struct Waiting {                                          // lanes that wait, and the pc at which they resume
  Mask lanes;
  u32 pc;
  u8 at;  // B0..B15, kWarpSync, kBlockBarrier + the barrier's number, or kClusterBarrier
};

struct CopyGroups {  // cp.async groups, for the latency model
  static constexpr u32 kMaxGroups = 16;
  u64 open = 0;              // cycle at which the copies since the last LDGDEPBAR complete
  u64 landed[kMaxGroups]{};  // cycle at which each committed group completes: a ring buffer
  u32 count = 0;             // committed groups
};

struct Warp {
  Vector* registers;           // 256; [255] is RZ and stays 0
  Vector* uniforms;            // 64, broadcast; [63] is URZ and stays 0
  Mask predicates[8];          // [7] is PT, all ones
  Mask uniform_predicates[8];  // all ones or 0; [7] is UPT
  Block* block;
  u32 number;   // in the block
  Mask exists;  // lanes with a thread (the last warp of a block can be partial)
  Mask alive;   // lanes that have not exited
  // Divergence and convergence, see scheduler.cpp.
  std::vector<Split> splits;  // runnable lanes that are not running
  std::vector<Waiting> waiting;
  Vector* convergence;  // B0..B15 and WARPSYNC: for each lane, the mask of lanes that it waits for
  Mask running;         // active lanes
  Mask repeating;       // lanes in a later iteration of a loop that polls
  u32 pc;               // of the active lanes; while a handler runs, that of the next instruction. Only control-flow
                        // handlers change it
  u32 arrived;          // a bit per block barrier: this warp has arrived
  Mask at_cluster;      // lanes that have arrived at the cluster's barrier, in its phase `cluster_phase`
  u64 cluster_phase;
  u32 budget;         // instructions until the scheduler switches to another warp
  u32 latency;        // of the current instruction: its pipe's, unless its handler or record_request sets it
  u64 cycle;          // latency model of a warp alone on an SM: earliest issue cycle of the next instruction
  u64 ready;          // issue cycle that the stall count of the last instruction allows
  u64 scoreboard[8];  // cycle at which each scoreboard clears
  CopyGroups copies;
  u8* local;           // local memory: launch.local_bytes per lane, lane after lane
  u32 barrier_result;  // of the last BAR.RED: number of lanes whose predicate is true
  bool barrier_holds;  // of the last BAR.RED: true in all lanes (AND) or in any lane (OR)
  bool done;
};

struct Barrier {  // a named barrier of a block
  u32 threads;    // arrived threads, counted in whole warps
  u32 expected;   // thread count; 0: all threads that have not exited
  u32 lanes;      // lanes whose predicate is true (BAR.RED)
  bool all, any, conjunction;
};

// A thread block cluster: its blocks by rank, and the phase of its barrier.
struct Cluster {
  std::vector<Block*> blocks;
  u64 phase = 0;
  u64 latest = 0;  // cycle of the last arrival of the phase
};

struct Block {
  u32 x, y, z;  // blockIdx
  Cluster* cluster;
  u32 rank;    // in the cluster
  u8* shared;  // shared memory from address 0: reserved (1 KiB from sm_90 on), static, dynamic
  u32 shared_bytes;
  u64 number;  // linear index in the grid
  std::vector<Warp> warps;
  u32 warps_alive;
  Barrier barriers[16];
  u64 executed;  // warp instructions so far
};

// The current launch.
struct LaunchState {
  u32 grid[3], block[3], cluster[3];
  u32 architecture;  // 90 for sm_90
  u32 instructions;  // of the program
  u32 warps;         // per block
  u64 blocks;        // in the grid
  u64 blocks_to_run;
  u32 reserved_shared;        // bytes at shared address 0 reserved by the system
  u32 shared_bytes;           // per block, including the reserved bytes
  u32 dynamic_shared;         // bytes, the launch parameter
  u32 local_bytes;            // per thread
  u32 sm_count;               // of the device
  u32 resident_blocks;        // per SM
  u64 l1_bytes, l2_bytes;     // a block's share of L1 without shared memory; the whole L2
  InstructionCounts* counts;  // one per instruction
};
extern LaunchState launch;
inline InstructionCounts& counts(const Instruction& instruction) { return launch.counts[instruction.index]; }

// ---- Operands

extern const Vector kZeroVector;

const Vector& indirect_source(Warp& warp, const Instruction& instruction, unsigned i, Vector& temporary, unsigned word);
inline bool is_fixed(const Operand& operand) {
  return operand.kind == Kind::kImmediate ||
         (operand.kind == Kind::kConstant && operand.base == kRegisterZero && operand.uniform_base == kUniformZero);
}
// Source `i` in 32 lanes as 32-bit words, before negation, absolute value and inversion, which handlers apply. For
// register, uniform, immediate and constant operands; a constant with a base is loaded into `temporary`.
inline const Vector& source(Warp& warp, const Instruction& instruction, unsigned i, Vector& temporary) {
  const Operand& operand = instruction.operands[i];
  if (operand.kind == Kind::kRegister) return warp.registers[operand.index];
  if (operand.kind == Kind::kUniform) return warp.uniforms[operand.index];
  if (is_fixed(operand)) return operand.broadcast;
  return indirect_source(warp, instruction, i, temporary, 0);
}
// The upper word of a 64-bit source: R5 for R4, bits 32..63 of a constant or a sign-extended immediate.
inline const Vector& source_high(Warp& warp, const Instruction& instruction, unsigned i, Vector& temporary) {
  const Operand& operand = instruction.operands[i];
  if (operand.kind == Kind::kRegister)
    return warp.registers[operand.index == kRegisterZero ? kRegisterZero : operand.index + 1];
  if (operand.kind == Kind::kUniform)
    return warp.uniforms[operand.index == kUniformZero ? kUniformZero : operand.index + 1];
  if (is_fixed(operand)) return operand.broadcast_high;
  return indirect_source(warp, instruction, i, temporary, 1);
}
// The lanes in which a predicate operand is true, with inversion applied.
inline Mask predicate(const Warp& warp, const Operand& operand) {
  const Mask value =
      operand.kind == Kind::kUniformPredicate ? warp.uniform_predicates[operand.index] : warp.predicates[operand.index];
  return operand.inverted ? ~value : value;
}
// Destination register `i` (plus `word` for wide results); for RZ a vector that is never read.
extern Vector discarded;
inline Vector& destination(Warp& warp, const Instruction& instruction, unsigned i, unsigned word = 0) {
  const Operand& operand = instruction.operands[i];
  if (operand.kind == Kind::kRegister)
    return operand.index == kRegisterZero ? discarded : warp.registers[operand.index + word];
  if (operand.kind == Kind::kUniform)
    return operand.index == kUniformZero ? discarded : warp.uniforms[operand.index + word];
  return discarded;
}
inline void set_predicate(Warp& warp, const Operand& operand, Mask lanes, Mask value) {
  Mask* file = operand.kind == Kind::kUniformPredicate ? warp.uniform_predicates : warp.predicates;
  if (operand.index == kPredicateTrue) return;
  if (operand.kind == Kind::kUniformPredicate)
    file[operand.index] = value & lanes ? ~Mask{0} : 0;
  else
    file[operand.index] = (file[operand.index] & ~lanes) | (value & lanes);
}

// Calls f(l) for every lane of `lanes`. The loop for a full mask vectorises.
template <class F>
inline __attribute__((always_inline)) void for_lanes(Mask lanes, F&& f) {
  if (lanes == ~Mask{0}) {
    for (unsigned l = 0; l < kLanes; l++) f(l);
  } else {
    for (Mask rest = lanes; rest; rest &= rest - 1) f(static_cast<unsigned>(__builtin_ctz(rest)));
  }
}

// ---- Memory

// Generic addresses in these 4 GiB windows are shared or local addresses (lower 32 bits); all others are global.
constexpr u64 kSharedWindow = 0x7E01ull << 32, kLocalWindow = 0x7E02ull << 32;
inline bool in_shared_window(u64 generic) { return generic >> 32 == kSharedWindow >> 32; }
inline bool in_local_window(u64 generic) { return generic >> 32 == kLocalWindow >> 32; }

struct Segment {  // a contiguous range of global memory
  u64 address, bytes;
  u8* host;
};
extern Segment recent_segment;  // segment of the last access
u8* find_global(u64 address, unsigned bytes, const Warp& warp, const Instruction& instruction);
// Host pointer to `bytes` at a global address; faults if they are not in one segment.
inline u8* global_memory(u64 address, unsigned bytes, const Warp& warp, const Instruction& instruction) {
  const u64 offset = address - recent_segment.address;
  if (__builtin_expect(offset < recent_segment.bytes && recent_segment.bytes - offset >= bytes, 1))
    return recent_segment.host + offset;
  return find_global(address, bytes, warp, instruction);
}
[[noreturn]] void shared_fault(u32 address, unsigned bytes, const Warp& warp, const Instruction& instruction);
// The upper 8 bits of a shared address are a block's rank in the cluster; instructions local to the block ignore them.
const Block& block_of_rank(u32 rank, const Warp& warp, const Instruction& instruction);
inline u8* shared_memory(u32 address, unsigned bytes, const Warp& warp, const Instruction& instruction) {
  const Block* block = warp.block;
  if (__builtin_expect(instruction.reaches_cluster && address >> 24 != block->rank, 0))
    block = &block_of_rank(address >> 24, warp, instruction);
  address &= 0xFFFFFF;
  if (__builtin_expect(address < launch.reserved_shared || address + bytes > block->shared_bytes, 0))
    shared_fault(address, bytes, warp, instruction);
  return block->shared + address;
}
// Local memory of a lane, contiguous here; traffic.cpp models the hardware's interleaving of 4-byte words.
u8* local_memory(u32 address, unsigned bytes, unsigned lane, const Warp& warp, const Instruction& instruction);
// Host pointer into a constant bank (parameters, __constant__ variables, compiler constants).
const u8* constant_memory(unsigned bank, u32 offset, unsigned bytes, const Warp& warp, const Instruction& instruction);

enum class Space : u8 { kGlobal, kShared, kLocal };
enum class Action : u8 { kLoad, kStore, kAtomic, kReduction, kAsyncCopy };
// One request of a memory instruction. record_request (traffic.cpp) updates the instruction's counters and the L1 and
// L2 models, samples the first and the worst request, and returns the latency in cycles.
struct Request {
  Space space;
  Action action;
  u8 bytes;  // per lane: 1, 2, 4, 8, 16
  Mask lanes;
  const u64* addresses;  // 32; those of inactive lanes are ignored
};
u32 record_request(Warp& warp, const Instruction& instruction, const Request& request);

// ---- Faults

[[noreturn]] void fault(const Warp& warp, const Instruction& instruction, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

}  // namespace ww::machine
