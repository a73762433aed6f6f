// Shared by core.cpp, scheduler.cpp and program.cpp: decoded programs, the scheduler, the state of a run.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "machine.h"
#include "traffic.h"

namespace ww::machine {

// The fields of an instruction that the scheduler's inner loop reads, in half a cache line.
struct alignas(32) IssueEntry {
  Handler run;
  const Instruction* instruction;
  Mask guard_flip;  // exclusive-or mask: ~0 for an inverted guard
  u8 guard;         // 0..7: P0..PT, 8..15: UP0..UPT
  u8 stall;
  u8 wait_mask;
  u8 write_barrier, read_barrier;
  u8 latency;  // of its pipe
  u8 spin;     // see Instruction
};

constexpr u32 kExternals = 0xF0000000;

struct Program {
  std::vector<Instruction> instructions;
  std::vector<IssueEntry> issue_entries;
  std::vector<std::string> externals;  // driver functions, at kExternals, 16 bytes apart
  std::string error;                   // message if parsing failed
};

std::unique_ptr<Program> parse_program(const char* text, size_t bytes);
Handler decode_unsupported(Instruction& instruction);
bool is_supported(const Instruction& instruction);
std::vector<std::pair<std::string, const char*>> known_opcodes();  // and what differs from the hardware, or null

struct Fault {
  enum Kind { kFault = 1, kUnsupported = 2, kTimeout = 3, kInterrupt = 4, kNeedsAllBlocks = 5 } kind;
  u32 instruction;
  std::string message;
};

struct ConstantBank {
  const u8* data = nullptr;
  u64 bytes = 0;
};

// State of the run in addition to `launch`.
struct Run {
  const Program* program = nullptr;
  ConstantBank banks[8];
  std::vector<Region> segments;         // of global memory, sorted by address
  std::vector<Vector> thread_index[3];  // threadIdx.x, y, z: a vector per warp of a block
  bool cooperative = false, may_wait = false, sampled = false;
  double deadline = 0;
  u64 barriers_opened = 0;
  u64 repeated_polls = 0;  // iterations of polling loops that are not counted
  volatile int stop = 0;
};
extern Run run;

double now();
void check_stop();                      // throws Fault after the deadline or Ctrl-C
void fill_constants(Program& program);  // sets the broadcast values of constant operands from this launch's banks

// Scheduling
constexpr u32 kQuantum = 2048;  // warp instructions until the scheduler switches to another warp
void start_block(Block& block, u64 number);
enum class Progress { kDone, kMoved, kStuck };
Progress step_block(Block& block);  // one time slice for every runnable warp
bool next_split(Warp& warp);        // false: no lane is runnable
void wait_at(Warp& warp, Mask lanes, u32 pc, unsigned at);
void release_converged(Warp& warp);
void resume(Warp& warp, Mask lanes, u32 pc);
void update_block_barriers(Block& block);
void exit_lanes(Warp& warp, Mask lanes);  // EXIT
void update_cluster_barrier(Cluster& cluster);

}  // namespace ww::machine
