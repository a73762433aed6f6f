// What the core's own files share: decoded programs, the scheduler's entry points, the state of one run.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "machine.h"
#include "traffic.h"

namespace ww::machine {

// What the inner loop needs of an instruction, in half a cache line.
struct alignas(32) Slot {
  Handler run;
  const Instruction* instruction;
  Mask guard_flip;  // what turns the guard's register into the guard
  u8 guard;         // 0..7: P0..PT, 8..15: UP0..UPT
  u8 stall;
  u8 wait_mask;
  u8 write_barrier, read_barrier;
  u8 latency;  // of its unit
};

constexpr u32 kExternals = 0xF0000000;

struct Program {
  std::vector<Instruction> instructions;
  std::vector<Slot> slots;
  std::vector<std::string> externals;  // functions of the driver, from kExternals on, 16 bytes apart
  std::string refusal;                 // why `parse` failed
};

std::unique_ptr<Program> parse_program(const char* text, size_t bytes);
Handler decode_unsupported(Instruction& instruction);
bool is_supported(const Instruction& instruction);

struct Fault {
  enum Kind { kFault = 1, kUnsupported = 2, kTimeout = 3, kInterrupt = 4, kNeedsAllBlocks = 5 } kind;
  u32 instruction;
  std::string message;
};

struct ConstantBank {
  const u8* data = nullptr;
  u64 bytes = 0;
};

// State of the run beside `launch`, which handlers of the core look at.
struct Run {
  const Program* program = nullptr;
  ConstantBank banks[8];
  std::vector<Region> segments;         // of global memory, by address
  std::vector<Vector> thread_index[3];  // threadIdx, a vector for each warp of a block
  bool cooperative = false, may_wait = false, sampled = false;
  double deadline = 0;
  u64 barriers_opened = 0;
  volatile int stop = 0;
};
extern Run run;

double now();
void check_stop();                      // throws Fault when the time is up or Ctrl-C came
void fill_constants(Program& program);  // broadcast values of operands, for this launch's banks

// Scheduling
constexpr u32 kQuantum = 2048;  // warp instructions until another warp's turn
void start_block(Block& block, u64 number);
enum class Progress { kDone, kMoved, kStuck };
Progress step_block(Block& block);  // a turn for every warp that can run
bool next_split(Warp& warp);        // false: no lanes can run
void wait_at(Warp& warp, Mask lanes, u32 pc, unsigned at);
void release_converged(Warp& warp);
void resume(Warp& warp, Mask lanes, u32 pc);
void settle_block_barriers(Block& block);
void leave(Warp& warp, Mask lanes);  // EXIT

}  // namespace ww::machine
