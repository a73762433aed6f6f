// The machine: warps of 32 lanes that execute SASS instruction by instruction, and count what each does.
//
// Every opcode registers one decoder. Decoding happens once a program and picks a handler for the modifiers; a handler
// runs for a warp with the mask of lanes that are active and whose guard holds (never 0), reads operands as vectors of
// 32 lanes and writes its destinations in those lanes only.
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
using Mask = u32;  // bit l stands for lane l

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
  kImmediate,         // `value`: the bits of 0x3f800000, 1.5, -QNAN ...; floats arrive as float32 bits
  kConstant,          // c[bank][offset]: `bank`, `value`; with a register or uniform base, `base` or `uniform_base`
  kMemory,  // [R2.64+UR4+0x10]: `base` (wide: `base_wide`), `uniform_base`, `value` the displacement; desc[] is dropped
  kSpecial,  // SR_TID.X: `name`
  kBarrier,  // B0, the convergence barriers; also SB0, scoreboards
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
  std::string suffix;  // H0_H0, H1_H1, B1, X4, ROW, COL ...: what follows the register's dot, without reuse and 64
  // Filled by the core for immediates (once a program) and constants without a base (once a launch): a broadcast value,
  // negation and inversion NOT applied.
  Vector broadcast, broadcast_high;  // high: bits 32..63 of a 64-bit constant operand
};

struct Control {  // the scheduling bits of an instruction word
  u8 stall;       // cycles until the next instruction of the warp may issue
  u8 yields;
  u8 write_barrier, read_barrier;  // 0..5, or 7 for none
  u8 wait_mask;                    // scoreboards to wait for
};

struct Warp;
struct Block;
struct Instruction;
using Handler = void (*)(Warp&, const Instruction&, Mask lanes);

struct Instruction {
  Handler run = nullptr;
  u32 index = 0;                       // in the program: of its counters
  u32 address = 0;                     // bytes from the function's start
  Operand guard;                       // kPredicate or kUniformPredicate; PT if there is none
  std::string opcode;                  // "LDG"
  std::vector<std::string> modifiers;  // "E", "128", "CONSTANT"
  std::vector<Operand> operands;       // destinations first, as the disassembler prints them
  Control control{};
  std::string text;
  u64 scratch[2] = {0, 0};  // a decoder may leave what its handler needs: a width, an immediate LUT, ...
  u8 unit = 0;              // a Unit, set by the decoder's registration
  bool has(const char* modifier) const;
};

// The pipe that issues an instruction, as ncu names them (sm__inst_executed_pipe_*).
enum Unit : u8 { kAlu, kFma, kFp16, kFp64, kXu, kLsu, kTex, kUniformUnit, kTensor, kAdu, kCbu, kUnits };

// ---- Registering opcodes

using Decoder = Handler (*)(Instruction&);  // nullptr: this spelling is not supported
struct Opcode {
  Opcode(const char* name, Unit unit, Decoder decode);  // one static object an opcode, in the file that implements it
};

// ---- What counters there are. Python mirrors this (counts.py, in the same order): all u64.

struct InstructionCounts {
  u64 executed;          // warp instructions, those with every lane predicated off included
  u64 threads;           // active lanes, summed
  u64 threads_on;        // active lanes whose guard holds, summed
  u64 requests;          // memory instructions with at least one lane on
  u64 bytes;             // lanes on x access width
  u64 tags;              // 128-byte lines of a request, summed: what the L1 tag stage looks up
  u64 sectors;           // 32-byte sectors of a request, summed (global and local memory)
  u64 ideal_sectors;     // ceil(distinct bytes / 32) of a request, summed
  u64 l1_hits;           // sectors that the model of L1 holds
  u64 l2_sectors;        // sectors that go on to L2
  u64 wavefronts;        // passes of the shared-memory data stage
  u64 ideal_wavefronts;  // what they would be without bank conflicts
  u64 conflicts;         // bank conflicts as ncu counts them
  u64 stall_cycles;  // cycles a lone warp waits before this instruction, by the scheduling bits and nominal latencies
  u64 l2_hits;       // sectors of l2_sectors that the model of L2 held
  u64 dram_sectors;  // sectors fetched from DRAM: what L2 lacked, and what comes with it
};

// ---- State

struct Uniforms {  // the uniform registers and predicates
  Vector registers[64];
  Mask predicates[8];
};
struct Split {  // lanes at one place
  Mask lanes;
  u32 pc;                                              // an instruction index
  std::shared_ptr<const Uniforms> uniforms = nullptr;  // if they were interrupted: what they go on with
};

constexpr unsigned kConvergenceBarriers = 16, kWarpSync = 16, kBlockBarrier = 17;  // what lanes wait at
struct Waiting {  // lanes that wait, and where they go on
  Mask lanes;
  u32 pc;
  u8 at;  // B0..B15, kWarpSync, or kBlockBarrier + the barrier's number
};

struct CopyGroups {  // asynchronous copies, for the latency model
  static constexpr u32 kKept = 16;
  u64 open = 0;         // when the last copy since the last LDGDEPBAR lands
  u64 landed[kKept]{};  // when those of each closed group have landed, a ring
  u32 count = 0;        // of closed groups
};

struct Warp {
  Vector* registers;           // 256; [255] is RZ and stays 0
  Vector* uniforms;            // 64, broadcast; [63] is URZ and stays 0
  Mask predicates[8];          // [7] is PT, all ones
  Mask uniform_predicates[8];  // all ones or 0; [7] is UPT
  Block* block;
  u32 number;   // in the block
  Mask exists;  // lanes that are threads
  Mask alive;   // of those, the ones that have not exited
  // Divergence and convergence barriers: the core's.
  std::vector<Split> splits;  // lanes that could run, but do not right now
  std::vector<Waiting> waiting;
  Vector* convergence;  // B0..B15 and WARPSYNC: for every lane, the lanes that it waits for
  Mask running;         // lanes that execute right now
  u32 pc;               // of the running lanes, already that of the next instruction while a handler runs; handlers of
                        // control flow set it, all others leave it alone
  u32 arrived;          // block barriers that this warp was counted at, a bit each
  u32 budget;           // instructions until another warp's turn
  u32 latency;          // of the instruction that runs: its unit's, unless its handler (or note_request) sets it
  u64 cycle;            // of a lone warp, for the latency model: when the next instruction could issue at the earliest
  u64 ready;            // when the scheduling bits of the last instruction allow it to
  u64 scoreboard[8];    // the cycle at which each clears
  CopyGroups copies;
  u8* local;           // local memory: launch.local_bytes a lane, one lane behind the other
  u32 barrier_result;  // of the last BAR.RED: lanes whose predicate held
  bool barrier_holds;  // and whether it held in all lanes (AND) or any (OR)
  bool done;
};

struct Barrier {  // a named barrier of a block
  u32 threads;    // that have arrived, in whole warps
  u32 expected;   // 0: all threads that have not exited
  u32 lanes;      // whose predicate held (BAR.RED)
  bool all, any, conjunction;
};

struct Block {
  u32 x, y, z;  // blockIdx
  u8* shared;   // shared memory from shared address 0 on: 1 KiB reserved (sm_90), static, dynamic
  u32 shared_bytes;
  u64 number;  // linear index in the grid
  std::vector<Warp> warps;
  u32 warps_alive;
  Barrier barriers[16];
  u64 executed;  // warp instructions so far
};

// The launch that runs.
struct Launch {
  u32 grid[3], block[3];
  u32 architecture;  // 90 for sm_90
  u32 instructions;  // of the program
  u32 warps;         // of a block
  u64 blocks;        // of the grid, and those that are to run
  u64 blocks_to_run;
  u32 reserved_shared;        // bytes at shared address 0 that are not the kernel's
  u32 shared_bytes;           // of a block, the reserved ones included
  u32 dynamic_shared;         // what the launch asked for
  u32 local_bytes;            // of a thread
  u32 multiprocessors;        // of the device
  u32 resident_blocks;        // on one multiprocessor
  u64 l1_bytes, l2_bytes;     // a block's share of what L1 has left beside shared memory, and all of L2
  InstructionCounts* counts;  // one for each instruction
};
extern Launch launch;
inline InstructionCounts& counts(const Instruction& instruction) { return launch.counts[instruction.index]; }

// ---- Operands

extern const Vector kZeroVector;

const Vector& unusual_source(Warp& warp, const Instruction& instruction, unsigned i, Vector& temporary, unsigned word);
inline bool is_fixed(const Operand& operand) {
  return operand.kind == Kind::kImmediate ||
         (operand.kind == Kind::kConstant && operand.base == kRegisterZero && operand.uniform_base == kUniformZero);
}
// The 32 lanes of source `i` as 32-bit words, before negation, absolute value and inversion: handlers apply those.
// Register, uniform, immediate and constant operands; a constant with a base is loaded into `temporary`.
inline const Vector& source(Warp& warp, const Instruction& instruction, unsigned i, Vector& temporary) {
  const Operand& operand = instruction.operands[i];
  if (operand.kind == Kind::kRegister) return warp.registers[operand.index];
  if (operand.kind == Kind::kUniform) return warp.uniforms[operand.index];
  if (is_fixed(operand)) return operand.broadcast;
  return unusual_source(warp, instruction, i, temporary, 0);
}
// The upper word of a 64-bit source: R5 for R4, bits 32..63 of a constant or a sign-extended immediate.
inline const Vector& source_high(Warp& warp, const Instruction& instruction, unsigned i, Vector& temporary) {
  const Operand& operand = instruction.operands[i];
  if (operand.kind == Kind::kRegister)
    return warp.registers[operand.index == kRegisterZero ? kRegisterZero : operand.index + 1];
  if (operand.kind == Kind::kUniform)
    return warp.uniforms[operand.index == kUniformZero ? kUniformZero : operand.index + 1];
  if (is_fixed(operand)) return operand.broadcast_high;
  return unusual_source(warp, instruction, i, temporary, 1);
}
// A predicate operand's lanes, inversion applied.
inline Mask predicate(const Warp& warp, const Operand& operand) {
  const Mask value =
      operand.kind == Kind::kUniformPredicate ? warp.uniform_predicates[operand.index] : warp.predicates[operand.index];
  return operand.inverted ? ~value : value;
}
// The destination register `i` (plus `word` for wide results); RZ gives a place that nobody reads.
extern Vector nowhere;
inline Vector& destination(Warp& warp, const Instruction& instruction, unsigned i, unsigned word = 0) {
  const Operand& operand = instruction.operands[i];
  if (operand.kind == Kind::kRegister)
    return operand.index == kRegisterZero ? nowhere : warp.registers[operand.index + word];
  if (operand.kind == Kind::kUniform)
    return operand.index == kUniformZero ? nowhere : warp.uniforms[operand.index + word];
  return nowhere;
}
inline void set_predicate(Warp& warp, const Operand& operand, Mask lanes, Mask value) {
  Mask* file = operand.kind == Kind::kUniformPredicate ? warp.uniform_predicates : warp.predicates;
  if (operand.index == kPredicateTrue) return;
  if (operand.kind == Kind::kUniformPredicate)
    file[operand.index] = value & lanes ? ~Mask{0} : 0;
  else
    file[operand.index] = (file[operand.index] & ~lanes) | (value & lanes);
}

// f(l) for every lane of `lanes`; the full mask is a plain loop, which vectorises.
template <class F>
inline __attribute__((always_inline)) void for_lanes(Mask lanes, F&& f) {
  if (lanes == ~Mask{0}) {
    for (unsigned l = 0; l < kLanes; l++) f(l);
  } else {
    for (Mask rest = lanes; rest; rest &= rest - 1) f(static_cast<unsigned>(__builtin_ctz(rest)));
  }
}

// ---- Memory

// A generic address in these 4 GiB windows is a shared or local one in its lower 32 bits; any other is global.
constexpr u64 kSharedWindow = 0x7E01ull << 32, kLocalWindow = 0x7E02ull << 32;
inline bool in_shared_window(u64 generic) { return generic >> 32 == kSharedWindow >> 32; }
inline bool in_local_window(u64 generic) { return generic >> 32 == kLocalWindow >> 32; }

struct Segment {  // bytes of global memory that belong together
  u64 address, bytes;
  u8* host;
};
extern Segment recent_segment;  // where the last access went
u8* find_global(u64 address, unsigned bytes, const Warp& warp, const Instruction& instruction);
// Host pointer to `bytes` at a global address; ends the launch with a fault if they belong to no buffer.
inline u8* global_memory(u64 address, unsigned bytes, const Warp& warp, const Instruction& instruction) {
  const u64 offset = address - recent_segment.address;
  if (__builtin_expect(offset < recent_segment.bytes && recent_segment.bytes - offset >= bytes, 1))
    return recent_segment.host + offset;
  return find_global(address, bytes, warp, instruction);
}
[[noreturn]] void shared_fault(u32 address, unsigned bytes, const Warp& warp, const Instruction& instruction);
// The upper 8 bits of a shared address name a block of the cluster: always this one.
inline u8* shared_memory(u32 address, unsigned bytes, const Warp& warp, const Instruction& instruction) {
  address &= 0xFFFFFF;
  if (__builtin_expect(address < launch.reserved_shared || address + bytes > warp.block->shared_bytes, 0))
    shared_fault(address, bytes, warp, instruction);
  return warp.block->shared + address;
}
// Local memory of a lane: each lane has its own bytes; ncu sees it interleaved by 4-byte words (traffic.cpp).
u8* local_memory(u32 address, unsigned bytes, unsigned lane, const Warp& warp, const Instruction& instruction);
// Bytes of a constant bank (parameters, __constant__ variables, compiler constants).
const u8* constant_memory(unsigned bank, u32 offset, unsigned bytes, const Warp& warp, const Instruction& instruction);

enum class Space : u8 { kGlobal, kShared, kLocal };
enum class Action : u8 { kLoad, kStore, kAtomic, kReduction, kAsyncCopy };
// What one memory instruction asks for. Implemented in traffic.cpp: updates the instruction's counters, the models of
// L1 and L2, keeps the first and the worst request for pictures, and returns the latency in cycles.
struct Request {
  Space space;
  Action action;
  u8 bytes;  // a lane's: 1, 2, 4, 8, 16
  Mask lanes;
  const u64* addresses;  // 32; those of lanes that are off are not looked at
};
u32 note_request(Warp& warp, const Instruction& instruction, const Request& request);

// ---- Faults

[[noreturn]] void fault(const Warp& warp, const Instruction& instruction, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

}  // namespace ww::machine
