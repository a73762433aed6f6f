// The state of a launch: threads, warps, blocks and what the hot paths read. One launch runs at a time.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "abi.h"
#include "arena.h"
#include "clocks.h"
#include "report.h"

namespace ww {

constexpr unsigned kMaxWarps = kMaxThreads / 32;

enum class State : uint8_t { kNew, kReady, kAtBarrier, kAtWarp, kConverging, kAtObject, kAtGrid, kDone };

struct Block;
struct Barrier;

// An asynchronous copy that has not landed. Its bytes were taken when it was issued.
struct Copy {
  Address to, from;
  uint32_t bytes, from_bytes;
  uint32_t group;    // of the issuing thread, counted by its commits
  Barrier* barrier;  // lands when this barrier's phase completes, if one tracks it
  int line;
  Address pc;
  std::vector<char> data;
};

// One warp operation in progress. Deposits stay until every lane that took part begins another one.
struct WarpOperation {
  uint32_t mask, arrived, holders;
  bool open;
  int line;
  const char* what;
  unsigned stride;
  std::vector<char> deposits;
};

struct Warp {
  uint32_t exists, exited;
  bool woken;                            // an operation completed while its lanes ran
  unsigned converging;                   // lanes that wait to see who else comes
  std::deque<WarpOperation> operations;  // grows as needed; elements never move
};

struct Thread {
  void* stack_pointer;
  char* stack;
  Block* block;
  unsigned id;
  const char* what;  // what it waits for, and where
  int line;
  uint32_t mask;
  int predicate, kind;
  const void* object;
  uint64_t phase;
  WarpOperation *held, *waiting;
  uint32_t copy_group;
  std::vector<Copy> copies;
};

// A barrier of some threads: cuda::barrier by its address, PTX named barriers and group barriers by made-up keys.
struct Barrier {
  uint32_t expected, next_expected, pending;
  uint64_t phase;
  bool counts_arrivals_only;  // a named barrier: everyone who comes is counted
  uint32_t epoch;             // of the counts: older ones are ordered anyway
  Counts arriving, completed;
  struct Arrival {
    unsigned thread;
    uint64_t stamp;
  };
  std::vector<Arrival> arrivals;  // of this phase, for the copies bound to it
  std::vector<char> deposits[2];  // of a group's exchange, by the phase's parity: nobody is a whole phase ahead
  int line;
};

struct SharedVariable {
  ww_site* site;
  unsigned slot;
};

struct Block {
  ww_dim3 index;
  uint64_t number;    // linear index in the grid
  uint64_t instance;  // unique in the process: what ww_site::launch caches
  unsigned threads, finished, at_barrier, at_grid;
  uint32_t epoch, first_epoch;
  bool strong_seen;  // some thread read a flag (an atomic or a volatile access) since the last barrier
  int barrier_result;
  unsigned quiet_passes;  // passes in a row in which threads only polled
  Clocks clocks;
  Warp warps[kMaxWarps];
  State state[kMaxThreads];
  Thread thread[kMaxThreads];
  std::vector<SharedVariable> shared;
  size_t static_shared;
  std::unordered_map<Address, std::unique_ptr<Barrier>> barriers;
};

enum class Order : int { kForward, kReverse, kShuffle };
enum class Stop : int { kNone, kTimeout, kInterrupt };

struct Checks {
  bool any, races, uninitialised, strict_barriers;
};

// A store of a value that may turn out to be the one that is there already: judged once it has happened.
struct PendingStore {
  Address address;
  unsigned bytes;
  char before[16];
  Report report;
};

using Entry = void (*)(void**);

struct World {
  // Read at every access.
  int64_t budget;      // accesses until the next look at the clock and at other threads
  uint64_t stamp;      // epoch << 40 | thread << 30 | clock << 19 of the running thread
  uint32_t epoch;      // of the running block
  uint32_t floors[2];  // accesses of older epochs do not matter: [0] global memory, [1] shared memory
  bool pending_store, interleaved, clocks_used;
  Address text;  // where the kernel's code begins
  Thread* current;
  Block* block;

  void* scheduler;  // the fiber of the OS thread that launched
  Entry entry;
  void** arguments;
  ww_dim3 grid, dim;
  unsigned threads;
  uint64_t blocks, finished_blocks;
  ww_dim3 thread_index[kMaxThreads];
  size_t dynamic_shared;
  size_t shared_limit;  // static and dynamic, for a block
  Checks checks;
  Order order;
  uint32_t seed;
  size_t max_findings;
  double started, deadline, timeout;
  int strong_budget;  // atomics and volatile accesses until the thread lets others run
  bool polled;        // the running thread gave way because it polls
  bool preempted;     // some thread of the pass had to be stopped: no check will ever stop it
  bool aborted;
  volatile int stop;  // a Stop, set by signal handlers
  uint64_t resumes, barriers_passed;
  uint32_t last_epoch;
  PendingStore pending;
  std::vector<Report> reports;
  std::string text_output;
  uint64_t text_dropped;

  std::vector<Block*> alive;
  std::vector<std::unique_ptr<Block>> blocks_kept;         // to be used again
  std::vector<std::pair<uint32_t, uint64_t>> epoch_owner;  // (first epoch, block number), ascending
  std::vector<uint32_t> fence_epochs;                      // by block number: its last device-wide fence
  std::vector<unsigned> free_shared_slots;
};

extern World world;

constexpr int64_t kAccessBudget = 1 << 16;
constexpr int kStrongBudget = 64;

double now();
inline uint64_t make_stamp(uint32_t epoch, unsigned thread, uint32_t clock) {
  return uint64_t{epoch} << 40 | uint64_t{thread} << 30 | uint64_t{clock} << 19;
}
void refresh_stamp();

// grid.cpp
void run_grid();

// epochs.cpp
void next_epoch(Block& block);  // what the block has done so far is ordered before what follows
ww_dim3 block_index_of(uint32_t epoch);
uint64_t block_number_of(uint32_t epoch);
void copy_index(uint32_t* to, ww_dim3 from);

// scheduler.cpp
void park(State state);  // the running thread waits in `state`; returns once it is resumed
void give_way();         // lets other threads run
void make_ready(Thread& thread);
[[noreturn]] void leave_launch();
// The return address into the kernel's code that lies nearest to `from` on the thread's stack, or 0.
Address place_on_stack(const Thread& thread, Address from);
// `caller` is asked for a line where `pc` has none; either may be 0.
void report_timeout(Address pc, Address caller = 0);

// barriers.cpp
void check_barrier(Block& block);  // completes the block's barrier if nobody is missing
void report_deadlock(Block& block);
void forget_barriers(Block& block);
void describe_wait(Side& side, const Thread& thread);

// warp.cpp
void lane_exits(Thread& thread);
bool release_converged(Block& block, unsigned first);  // no other lane can come: those at one line go on together
void release_held(Thread& thread);

// async_copy.cpp
void land_barrier_copies(Block& block, Barrier& barrier);

// services.cpp
void start_shared(Block& block);
void end_shared(Block& block);

// signals.cpp
// Whether this is a kernel's thread. A library's own functions and initialisers call the hooks too, at any time.
bool runs_kernel();

// modules.cpp
void enter_module(Address entry);
// What a checked access outside arena and stacks may touch; reports what it may not.
void check_module_access(Address address, size_t bytes, bool write, Address pc, int line);
bool in_kernel_code(Address pc);
Address load_bias();  // of the kernel's library: code address minus address in the file

}  // namespace ww
