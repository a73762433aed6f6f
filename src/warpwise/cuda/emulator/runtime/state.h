// The state of a launch: threads, warps, blocks, barriers and the Runtime structure that the hot paths read. One launch
// runs at a time in a process. The functions that the runtime's files share are declared at the end.
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

enum class ThreadState : uint8_t {
  kNew,
  kReady,
  kAtBarrier,
  kAtWarpOperation,
  kConverging,
  kAtBarrierObject,
  kAtGridBarrier,
  kDone
};

struct Block;
struct Barrier;

// A pending asynchronous copy. `data` holds the source's bytes, read when the copy was issued.
struct Copy {
  Address to, from;
  uint32_t bytes, from_bytes;
  uint32_t group;    // number of commits by the issuing thread before the copy
  Barrier* barrier;  // if not null, the copy completes with this barrier's phase
  int line;
  Address pc;
  std::vector<char> data;
};

// A warp operation (__syncwarp, shuffle, vote, ...). The lanes' values stay valid until every participating lane starts
// another operation; `readers` counts the lanes that have not.
struct WarpOperation {
  uint32_t mask, arrived, readers;
  bool open;
  int line;
  const char* what;
  unsigned stride;
  std::vector<char> values;
};

struct Warp {
  uint32_t exists, exited;
  bool woken;                            // a lane of the warp has become ready during the pass
  unsigned converging;                   // lanes that wait in ww_converged_lanes
  std::deque<WarpOperation> operations;  // a deque: pointers to elements stay valid as it grows
};

struct Thread {
  void* stack_pointer;
  char* stack;
  Block* block;
  unsigned id;
  const char* what;  // the operation that the thread waits at; `line` is its line
  int line;
  uint32_t mask;
  int predicate, kind;
  const void* object;
  uint64_t phase;
  WarpOperation *last_operation, *waiting_operation;
  uint32_t copy_group;
  std::vector<Copy> copies;
};

// A barrier of some threads of a block: a cuda::barrier, keyed by its address; a PTX named barrier or the barrier of a
// tile, keyed by a small number.
struct Barrier {
  uint32_t expected, next_expected, pending;
  uint64_t phase;
  uint32_t epoch;  // of the clocks: in a later epoch they are stale
  VectorClock arrived_clock, completed_clock;
  struct Arrival {
    unsigned thread;
    uint64_t stamp;
  };
  std::vector<Arrival> arrivals;  // of the current phase
  std::vector<char> values[2];    // of ww_group_exchange, double-buffered by the parity of the phase
  int line;
};

struct SharedVariable {
  ww_site* site;
  unsigned slot;
};

struct Block {
  ww_dim3 index;
  uint64_t number;    // linear block index
  uint64_t instance;  // unique in the process; see ww_site::block_instance
  unsigned threads, finished, at_barrier, at_grid;
  uint32_t epoch, first_epoch;
  bool strong_access_seen;  // a thread has made a strong access since the last barrier
  int barrier_result;
  unsigned polling_passes;  // consecutive passes in which threads only polled
  VectorClocks clocks;
  Warp warps[kMaxWarps];
  ThreadState state[kMaxThreads];
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

// A racing write whose report is pending: it is dropped if the write leaves the bytes unchanged, since two writes of
// the same value are benign.
struct PendingStore {
  Address address;
  unsigned bytes;
  char before[16];
  Report report;
};

using Entry = void (*)(void**);

struct Runtime {
  // Hot: read at every access.
  int64_t budget;                                // accesses until the thread yields and checks for a timeout
  uint64_t stamp;                                // of the running thread: epoch << 40 | thread << 30 | clock << 19
  uint32_t epoch;                                // of the running block
  uint32_t epoch_floor[2];                       // accesses of older epochs are ordered: [0] global, [1] shared memory
  bool pending_store, interleaved, clocks_used;  // interleaved: several blocks have been resident at once
  Address text;                                  // start of the kernel's code
  Thread* current;
  Block* block;

  void* scheduler;  // saved fiber of the OS thread that runs the launch
  Entry entry;
  void** arguments;
  ww_dim3 grid, dim;
  unsigned threads;
  uint64_t blocks, finished_blocks;
  ww_dim3 thread_index[kMaxThreads];
  size_t dynamic_shared;
  size_t shared_limit;  // of a block: static and dynamic
  Checks checks;
  Order order;
  uint32_t seed;
  size_t max_findings;
  double started, deadline, timeout;
  int strong_budget;  // strong accesses until the thread yields
  bool polled;        // the running thread yielded because it polls
  bool preempted;     // the timer preempted a thread of the pass
  bool aborted;
  volatile int stop;  // a Stop, set by the signal handlers
  uint64_t resumes, barriers_completed;
  uint32_t last_epoch;
  PendingStore pending;
  std::vector<Report> reports;
  std::string text_output;
  uint64_t text_dropped;

  std::vector<Block*> resident;
  std::vector<std::unique_ptr<Block>> block_pool;          // for reuse
  std::vector<std::pair<uint32_t, uint64_t>> epoch_owner;  // (first epoch, block number), ascending
  std::vector<uint32_t> fence_epochs;                      // by block number: the epoch of its last device-wide fence
  std::vector<unsigned> free_shared_slots;
};

extern Runtime runtime;

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
void next_epoch(Block& block);  // orders all of the block's accesses so far before those that follow
ww_dim3 block_index_of(uint32_t epoch);
uint64_t block_number_of(uint32_t epoch);
void copy_index(uint32_t* to, ww_dim3 from);

// scheduler.cpp
void park(ThreadState state);  // suspends the running thread in `state` until it is resumed
void yield_thread();           // lets other threads run
void make_ready(Thread& thread);
[[noreturn]] void abort_launch();
// The innermost return address into the kernel's code on the thread's stack, from address `from` on, or 0.
Address innermost_kernel_pc(const Thread& thread, Address from);
// `caller` gives the line if `pc` has no line information. Either may be 0.
void report_timeout(Address pc, Address caller = 0);

// barriers.cpp
void try_complete_barrier(Block& block);  // completes the block's barrier if all its threads wait or have exited
void report_deadlock(Block& block);
void clear_barriers(Block& block);
void describe_wait(Side& side, const Thread& thread);

// warp.cpp
void on_lane_exit(Thread& thread);
// Resumes the lanes that wait in ww_converged_lanes; those at the same line are converged. Call it once no other lane
// of the warp that starts at thread `first` can arrive.
bool release_converging_lanes(Block& block, unsigned first);
void release_last_operation(Thread& thread);

// async_copy.cpp
void complete_barrier_copies(Block& block, Barrier& barrier);

// services.cpp
void start_shared(Block& block);
void end_shared(Block& block);

// signals.cpp
// True on the fiber of a CUDA thread. A library's initialisers and other instrumented functions call the hooks as well.
bool on_kernel_fiber();

// modules.cpp
void select_module(Address entry);
// Checks an access outside the arena and the stacks: only global variables of the kernel's library are in bounds.
void check_module_access(Address address, size_t bytes, bool write, Address pc, int line);
bool in_kernel_code(Address pc);
Address load_bias();  // of the kernel's library: an address in memory minus its address in the file

}  // namespace ww
