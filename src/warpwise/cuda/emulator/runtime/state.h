// The state of a launch: threads, warps, blocks, barriers and the Runtime structure that the hot paths read. One launch
// runs at a time in a process. The functions that the runtime's files share are declared at the end.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "abi_hopper.h"
#include "arena.h"
#include "clocks.h"
#include "knowledge.h"
#include "readers.h"
#include "report.h"
#include "warps.h"

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
  kAtClusterBarrier,
  kAtWarpgroup,
  kDone
};

struct Block;
struct Barrier;

// The accesses of a block's threads that happen before a thread's next access: those of epochs before `epoch`, and
// those of `epoch` up to `clock`. A proxy fence follows those of epochs before `fenced_epoch`, and those of `epoch` up
// to `fenced`.
struct Seen {
  uint32_t epoch = 0, fenced_epoch = 0;
  VectorClock clock, fenced;
  Knowledge known, observed[2];  // see Thread
  void join(const Seen& from);
  void begin(uint32_t epoch);  // resets the clocks if they are of another epoch
};

// What a thread releases with one scope, computed at `clock` of `epoch` from `known`.
struct Released {
  uint32_t epoch = 0, clock = 0;
  Knowledge known, all;
};

// A read of a released word where the scope of the release or of the acquire is too small; it explains a race.
struct FailedSynchronisation {
  int line;  // of the release, or -1
  Knowledge released;
  bool narrow_access, by_reader, tried;
};

// A bulk copy (TMA) into shared memory, which completes when its barrier is waited for. `data` are the bytes, with
// their swizzle, read when the copy was issued.
struct BulkCopy {
  Address to;
  std::vector<char> data;
  ww_combine combine;  // of a reduction
};

// A bulk copy from shared to global memory; its bytes in flight in global memory.
struct BulkStore {
  Address to;
  size_t bytes;
  uint32_t group;  // number of commits by the issuing thread before the copy
};

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

struct Thread {
  void* stack_pointer;
  char* stack;
  Block* block;
  unsigned id;
  const char* what;  // the operation that the thread waits at; `line` is its line
  int line;
  Address ptx;          // see Runtime::ptx
  Address last_access;  // place in the kernel of its last access
  Address access_before_operation;
  uint32_t mask;
  int predicate, kind;
  const void* object;
  uint64_t phase;
  WarpOperation *last_operation, *waiting_operation;
  uint32_t copy_group;
  std::vector<Copy> copies;
  bool timed_wait, timed_out;      // waits at mbarrier.try_wait, which may return false
  bool carry, arrived_at_cluster;  // PTX's CC.CF; since its last wait for the cluster's barrier
  uint64_t cluster_phase;          // at its arrival
  uint32_t wgmma_awaited;          // groups that it waits for, at the state kAtWarpgroup
  uint64_t wgmmas;                 // number of wgmma instructions executed
  bool wgmma_fenced;
  uint32_t wgmma_group, bulk_group;  // commits of wgmma and of bulk copies
  uint32_t wgmma_waited;             // groups of wgmma that the thread has waited for
  uint32_t bulk_base;                // `bulk_group` when the clocks of the agents started
  uint32_t fenced_epoch;             // accesses of epochs before it are followed by a proxy fence
  std::vector<BulkStore> stores;
  uint32_t bulk_waited;          // groups of bulk copies whose reads the thread has waited for
  uint32_t bulk_last;            // the group, from 1, of its last bulk copy that reads shared memory, or 0
  Address bulk_place;            // the place of this copy in the kernel
  Knowledge known;               // what happens before its next access
  Knowledge observed[2];         // by scope: what was released at words that it has read; its next fence acquires it
  Released released[2];          // by scope
  bool takes_lock;               // a compare-and-swap has read a released word, and no fence follows
  Address lock;                  // the word that a compare-and-swap has changed, until the thread writes it again; or 0
  std::vector<Address> section;  // volatile words that it has accessed since
  Address suspect_word;          // word / 4 of its last read that races with an atomic, see expected_reads.h
  uint64_t suspect_location;
  bool narrow_fence;  // a fence of scope block followed a read of what another block has released
};

// A barrier of some threads of a block: a cuda::barrier or mbarrier, keyed by its address; a PTX named barrier or the
// barrier of a tile, keyed by a small number.
struct Barrier {
  uint32_t expected, next_expected, pending;
  uint64_t phase;
  Block* owner;
  unsigned waiting;                      // threads that wait for it
  int64_t bytes;                         // of bulk copies that the current phase expects; below 0 if they came first
  std::vector<BulkCopy> incoming;        // not complete yet
  bool fenced;                           // its initialisation is visible to the async proxy and to other blocks
  unsigned initialised_by;               // the thread
  unsigned agent;                        // represents these copies in the clocks; 0 if none
  std::vector<Seen> arrived, completed;  // by the block's rank in the cluster
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

// The accesses of an earlier epoch, by thread, that precede a proxy fence of the same epoch.
struct FencedEpoch {
  uint32_t epoch;
  VectorClock clock;
};

// A thread block cluster and its barrier.
struct Cluster {
  ww_dim3 shape;
  std::vector<Block*> blocks;  // by rank; null once the block has exited
  std::vector<uint64_t> numbers;
  uint32_t first_epoch;
  unsigned threads, exited, arrived;
  unsigned exited_after_arrival;  // arrived in this phase and then exited: in `exited` from the next phase on
  uint64_t phase;
  bool relaxed;  // an arrival of this phase is not a release
};

// The operands of a wgmma, decoded by the first thread of the warpgroup that executes it.
struct WgmmaOperands {
  unsigned readers = 0;  // threads that have used them
  bool begun = false, decoded = false;
  std::vector<float> a, b;
};

struct Warpgroup {
  std::deque<WgmmaOperands> operands;
  unsigned waiting = 0;                             // threads in the state kAtWarpgroup
  uint64_t first = 0;                               // number of the wgmma whose operands are at the front
  std::map<uint32_t, std::vector<Seen>> committed;  // by group: what its threads did before they committed it
  uint32_t group = 0;                               // commits when the clocks of the agents started
};
constexpr unsigned kWarpgroupThreads = 128;

struct Block {
  ww_dim3 index;
  uint64_t number;    // linear block index
  uint64_t instance;  // unique in the process; see ww_site::block_instance
  unsigned threads, finished, at_barrier, at_grid;
  uint32_t epoch, first_epoch;
  bool synchronises;             // a thread has read a word at which another has released
  bool has_fenced;               // a thread has executed a fence
  Extent fenced[2];              // by scope: what fences of earlier epochs follow; epoch 0: none
  Knowledge proxy_fenced;        // what happened before proxy fences of its threads
  FailedSynchronisation failed;  // the latest
  std::unordered_map<Address, uint64_t> observed_writes;  // strong writes of other threads, by word
  int barrier_result;
  unsigned polling_passes;  // consecutive passes in which threads only polled
  VectorClocks clocks;
  ReaderSets readers;  // of the epoch
  Warp warps[kMaxWarps];
  ThreadState state[kMaxThreads];
  Thread thread[kMaxThreads];
  std::vector<SharedVariable> shared;
  size_t static_shared;
  size_t shared_offset;  // of the next variable in the 256 KiB window of wgmma descriptors
  std::shared_ptr<Cluster> cluster;
  unsigned rank;                           // in the cluster
  std::vector<std::vector<Seen>> remote;   // by thread and rank: of the cluster's other blocks
  std::vector<FencedEpoch> fenced_epochs;  // the latest, at most kFencedEpochs
  Warpgroup warpgroups[kMaxThreads / kWarpgroupThreads];
  std::unordered_map<Address, uint8_t> swizzles;  // by 128 bytes of shared memory: of the bulk copy that loaded them
  unsigned load_agents, store_agents;             // in use
  uint32_t agents_epoch;                          // operations of agents in epochs before it count as ordered
  std::unordered_map<unsigned, unsigned> store_agent;  // by thread
  std::unordered_map<Address, std::unique_ptr<Barrier>> barriers;
  std::unordered_map<Address, uint64_t> acquired_maps;  // tensor maps that it has acquired, and their state then
};

// kPreempt: as kShuffle, and blocks and threads are preempted at atomics, volatile accesses, fences and barriers.
enum class Order : int { kForward, kReverse, kShuffle, kPreempt };
enum class Stop : int { kNone, kTimeout, kInterrupt };

struct Checks {
  bool any, races, uninitialised, strict_barriers;
};

// A write whose effect is known only after it. A race is dropped if the write leaves the bytes unchanged, since two
// writes of the same value are benign. An atomic that changes nothing, such as a compare-and-swap that fails, is a
// read.
struct PendingStore {
  enum Kind { kRace, kSuspectedRace, kAtomic } kind;  // kSuspectedRace: see volatile_data.h
  Address address;
  unsigned bytes;
  char before[16];
  Report report;
  uint64_t read;                       // kSuspectedRace: the other access
  bool compares, is_narrow;            // kAtomic: a compare-and-swap; of scope block
  uint64_t stamp, writes[4], rest[4];  // kAtomic: its own stamp, and the words' writes before
};

using Entry = void (*)(void**);

struct Runtime {
  // Hot: read at every access.
  int64_t budget;                                // accesses until the thread yields and checks for a timeout
  uint64_t stamp;                                // of the running thread: epoch << 40 | thread << 30 | clock << 19
  uint32_t epoch;                                // of the running block
  uint32_t epoch_floor[2];                       // accesses of older epochs are ordered: [0] global, [1] shared memory
  bool pending_store, interleaved, clocks_used;  // interleaved: several blocks have been resident at once
  bool synchronised;                             // a thread has released at a word
  Address last_access;                           // of the running thread
  bool synchronises_partly;  // the kernel can synchronise some threads of a block, other than by __syncthreads()
  bool clustered;            // blocks of a cluster of several are resident
  Address text;              // start of the kernel's code
  Address ptx;  // where the running thread executes inline PTX, or 0; reports have this place, not that of their `line`
  Thread* current;
  Block* block;

  void* scheduler;  // saved fiber of the OS thread that runs the launch
  Entry entry;
  void** arguments;
  ww_dim3 grid, dim;
  ww_dim3 cluster;  // of the launch attribute; a kernel with __cluster_dims__ starts its clusters itself
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
  bool leaves_block;  // after the pass another block runs; see preempt
  bool aborted;
  bool locating;      // a thread's stack is being unwound
  volatile int stop;  // a Stop, set by the signal handlers
  uint64_t resumes, barriers_completed;
  unsigned stalls;                                       // times that all threads waited, since a barrier completed
  std::unordered_map<uint64_t, uint32_t> proxy_fenced;   // by number of the block: epoch of its last proxy fence
  std::unordered_map<uint64_t, uint32_t> maps_released;  // by number of the block: epoch of its last release of maps
  std::unordered_set<uint64_t> started_early;            // numbers of blocks that started with another of their cluster
  uint32_t last_epoch;
  PendingStore pending;
  std::vector<Report> reports;
  std::string text_output;
  uint64_t text_dropped;

  std::vector<Block*> resident;
  std::vector<std::unique_ptr<Block>> block_pool;          // for reuse
  std::vector<std::pair<uint32_t, uint64_t>> epoch_owner;  // (first epoch, block number), ascending
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
void start_block(uint64_t number);
Address device_address(Address host);  // of an argument's byte, or 0

// cluster.cpp
void join_launched_cluster(Block& block);  // at the start of a block: the cluster of the launch attribute
void leave_cluster(Block& block);          // at the end of a block
void on_cluster_exit(Thread& thread);
Block& owner_of_shared(Address address);  // the block of the cluster in whose shared memory the address is
int rank_of_epoch(uint32_t epoch);        // in the running block's cluster, or -1
// Transfers of happens-before: from the thread to a barrier or a warp operation, and back.
void release(Thread& thread, std::vector<Seen>& into);
void acquire(Thread& thread, const std::vector<Seen>& from);
void join_remote(Block& block, const std::vector<unsigned>& threads);  // among threads of a block

// epochs.cpp
void next_epoch(Block& block);  // orders all of the block's accesses so far before those that follow
ww_dim3 block_index_of(uint32_t epoch);
uint64_t block_number_of(uint32_t epoch);
void copy_index(uint32_t* to, ww_dim3 from);

// scheduler.cpp
void park(ThreadState state);  // suspends the running thread in `state` until it is resumed
void yield_thread();           // lets other threads run
void preempt();                // may let other threads and blocks run, if the order is kPreempt
void make_ready(Thread& thread);
[[noreturn]] void abort_launch();
struct Callers;
void report_timeout(const Callers& where);  // of the running thread

// barriers.cpp
void try_complete_barrier(Block& block);  // completes the block's barrier if all its threads wait or have exited
void report_deadlock(Block& block);
void clear_barriers(Block& block);
void describe_wait(Side& side, const Thread& thread);
// Lets the threads that wait at mbarrier.try_wait return false; true if there are any.
bool time_out_waits();
void complete_phase(Barrier& barrier, const void* object);
Barrier& initialised_barrier(const void* object, const char* what, int line);
void initialise_barrier(void* object, unsigned bytes, unsigned expected, unsigned access, void* pc, int line);
Barrier& access_barrier(void* object, const char* what, int line, void* pc);
uint64_t arrive_at(Barrier& barrier, void* object, unsigned count, bool drop, int line);
// Waits until phase `phase` is complete. `timed`: the wait may end before, with Thread::timed_out.
void wait_for(Barrier& barrier, const void* object, uint64_t phase, const char* what, int line, bool timed = false);
void acquire_barrier(Barrier& barrier, const void* object);  // the phase before happens before what follows

// warp.cpp
void on_lane_exit(Thread& thread);
// Resumes the lanes that wait in ww_converged_lanes; those at the same line are converged. Call it once no other lane
// of the warp that starts at thread `first` can arrive.
bool release_converging_lanes(Block& block, unsigned first);
void release_last_operation(Thread& thread);

// async_copy.cpp
void complete_barrier_copies(Block& block, Barrier& barrier);

// bulk_copy.cpp
void deliver(Barrier& barrier, const void* object);  // completes the bulk copies of its current phase

void check_pending_stores(Thread& thread);  // at its exit

// services.cpp
SharedVariable& shared_variable(Block& block, const SharedVariable& like);  // the same variable of another block
void start_shared(Block& block);
void end_shared(Block& block);

// signals.cpp
// True on the fiber of a CUDA thread. A library's initialisers and other instrumented functions call the hooks as well.
bool on_kernel_fiber();

// modules.cpp
void select_module(Address entry);
// Checks an access outside the arena and the stacks: only global variables of the kernel's library are in bounds.
void check_module_access(Address address, size_t bytes, bool write, Address pc, unsigned flags, int line);
Slot* module_slot(Address address);  // the shadow memory of a __device__ variable, or null
void clear_module_shadow();
void constant_is_set(Address entry, Address address);
bool in_kernel_code(Address pc), in_constant_memory(Address address);  // a __constant__ variable of the kernel
Address load_bias();  // of the kernel's library: an address in memory minus its address in the file

}  // namespace ww
