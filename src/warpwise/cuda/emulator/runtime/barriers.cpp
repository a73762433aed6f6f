// Barriers: __syncthreads and its variants, PTX named barriers, barriers of thread block tiles, cuda::barrier and the
// grid barrier; and the report of a deadlock.
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "access.h"
#include "synchronise.h"

namespace ww {

namespace {

// Reports threads of one block that wait at __syncthreads() on different lines. Hardware only counts arrivals, so the
// threads pass; in CUDA the behaviour is undefined.
void check_barrier_lines(Block& block) {
  const Thread* first = nullptr;
  for (unsigned i = 0; i < block.threads; i++) {
    if (block.state[i] != ThreadState::kAtBarrier || block.thread[i].kind == WW_BAR_SYNC) continue;
    const Thread& thread = block.thread[i];
    if (!first) first = &thread;
    if (thread.line == first->line) continue;
    Report report = new_report(kBarrierDivergence);
    describe_wait(report.access, thread);
    describe_wait(report.other, *first);
    report.has_other = 1;
    set_message(report, "threads of one block wait at different barriers: %s at line %d and %s at line %d", first->what,
                ww_line_of(first->line), thread.what, ww_line_of(thread.line));
    add_report(report);
    return;
  }
}

void report_returned_threads(Block& block, const Thread& waiting) {
  Report report = new_report(kBarrierDivergence);
  describe_wait(report.access, waiting);
  report.other.action = kReturned;
  report.has_other = 1;
  copy_index(report.other.block, block.index);
  for (unsigned i = 0; i < block.threads; i++)
    if (block.state[i] == ThreadState::kDone) {
      copy_index(report.other.thread, runtime.thread_index[i]);
      break;
    }
  set_message(report, "%s is reached by %u of the block's %u threads; %u have already exited", waiting.what,
              block.at_barrier, block.threads, block.finished);
  add_report(report);
}

constexpr Address kNamedKey = 0x1000, kGroupKey = 0x10000,
                  kLastKey = kGroupKey + Address{kMaxThreads} * 2048 + kMaxThreads;

// A barrier other than the block's own, created at its first use.
Barrier& find_or_create_barrier(Block& block, Address key) {
  std::unique_ptr<Barrier>& barrier = block.barriers[key];
  if (!barrier) {
    barrier = std::make_unique<Barrier>();
    barrier->owner = &block;
  }
  return *barrier;
}

// True for a barrier in global memory, which threads of several blocks use. Such a barrier releases and acquires at its
// own address.
bool spans_blocks(const void* object) {
  const Slot* slot = slot_of(reinterpret_cast<Address>(object));
  return reinterpret_cast<Address>(object) > kLastKey && !(slot && slot->shared);
}

void arrive(Barrier& barrier, const void* object, unsigned count) {
  Thread& thread = *runtime.current;
  Block& block = *thread.block;
  if (spans_blocks(object)) {
    synchronise(reinterpret_cast<Address>(object), 8, Operation::kUpdate, kDeviceScope, kRelease, 0);
  } else {
    if (barrier.owner == &block) barrier.arrivals.push_back({thread.id, runtime.stamp});
    if (runtime.checks.races) release(thread, barrier.arrived);
  }
  barrier.pending -= count;
  if (!barrier.pending && !barrier.bytes) complete_phase(barrier, object);
  if (block.clocks.exhausted()) next_epoch(block);
  refresh_stamp();
}

}  // namespace

// After a wait: the phase's arrivals happen before the thread's next access.
void acquire_barrier(Barrier& barrier, const void* object) {
  Thread& thread = *runtime.current;
  if (spans_blocks(object)) {
    synchronise(reinterpret_cast<Address>(object), 8, Operation::kRead, kDeviceScope, kAcquire, 0);
  } else if (runtime.checks.races) {
    acquire(thread, barrier.completed);
    refresh_stamp();
  }
}

void wait_for(Barrier& barrier, const void* object, uint64_t phase, const char* what, int line, bool timed) {
  Thread& thread = *runtime.current;
  if (barrier.phase <= phase) {
    thread.object = object;
    thread.phase = phase;
    thread.what = what;
    thread.line = line;
    thread.timed_wait = timed;
    thread.timed_out = false;
    barrier.waiting++;
    park(ThreadState::kAtBarrierObject);
    barrier.waiting--;
    thread.timed_wait = false;
    if (thread.timed_out) return;
  }
  acquire_barrier(barrier, object);
}

namespace {

// Arrives at the barrier `key` (below any address) of `threads` arrivals, and waits for it unless `arrive_only`.
void synchronize_at(Address key, unsigned threads, bool arrive_only, const char* what, int line) {
  Block& block = *runtime.block;
  resolve_pending_store();
  Barrier& barrier = find_or_create_barrier(block, key);
  if (!barrier.expected) barrier.expected = barrier.next_expected = barrier.pending = threads;
  if (barrier.expected != threads) {
    if (barrier.pending != barrier.expected)
      fatal_report(new_report(kBarrierDivergence, 0, line),
                   "%s: called for %u threads, but other threads wait for %u threads at line %d", what, threads,
                   barrier.expected, ww_line_of(barrier.line));
    barrier.expected = barrier.next_expected = barrier.pending = threads;
  }
  barrier.line = line;
  const uint64_t phase = barrier.phase;
  const void* object = reinterpret_cast<const void*>(key);
  arrive(barrier, object, 1);
  if (!arrive_only) wait_for(barrier, object, phase, what, line);
}

}  // namespace

void complete_phase(Barrier& barrier, const void* object) {
  barrier.phase++;
  barrier.expected = barrier.next_expected;
  barrier.pending = barrier.expected;
  runtime.stalls = 0;
  if (runtime.checks.races) {
    if (barrier.completed.size() < barrier.arrived.size()) barrier.completed.resize(barrier.arrived.size());
    for (size_t rank = 0; rank < barrier.arrived.size(); rank++) barrier.completed[rank].join(barrier.arrived[rank]);
  }
  complete_barrier_copies(*barrier.owner, barrier);
  barrier.arrivals.clear();
  const bool of_one_block = reinterpret_cast<Address>(object) <= kLastKey;  // other blocks have the same key
  for (Block* resident : runtime.resident)
    for (unsigned i = 0; i < resident->threads && (!of_one_block || resident == barrier.owner); i++)
      if (resident->state[i] == ThreadState::kAtBarrierObject && resident->thread[i].object == object &&
          resident->thread[i].phase < barrier.phase)
        make_ready(resident->thread[i]);
}

Barrier& initialised_barrier(const void* object, const char* what, int line) {
  Block& block = owner_of_shared(reinterpret_cast<Address>(object));
  const Slot* slot = slot_of(reinterpret_cast<Address>(object));
  for (Block* resident : runtime.resident) {
    if (resident != &block && slot && slot->shared) continue;
    const auto found = resident->barriers.find(reinterpret_cast<Address>(object));
    if (found != resident->barriers.end()) return *found->second;
  }
  Report report = new_report(kUninitializedRead, 0, line);
  if (slot) describe(report, *slot, reinterpret_cast<Address>(object));
  fatal_report(report, "%s is called on a barrier before init()", what);
}

bool time_out_waits() {
  constexpr unsigned kStalls = 3;  // then the launch is in a deadlock
  bool any = false;
  if (++runtime.stalls > kStalls) return false;
  for (Block* block : runtime.resident)
    for (unsigned i = 0; i < block->threads; i++) {
      if (block->state[i] != ThreadState::kAtBarrierObject || !block->thread[i].timed_wait) continue;
      block->thread[i].timed_out = any = true;
      make_ready(block->thread[i]);
    }
  return any;
}

void try_complete_barrier(Block& block) {
  if (!block.at_barrier || block.at_barrier + block.finished < block.threads) return;
  Thread* waiting = nullptr;
  int count = 0, all = 1, any = 0;
  for (unsigned i = 0; i < block.threads; i++) {
    if (block.state[i] != ThreadState::kAtBarrier) continue;
    Thread& thread = block.thread[i];
    if (!waiting) waiting = &thread;
    count += thread.predicate != 0;
    all &= thread.predicate != 0;
    any |= thread.predicate != 0;
  }
  if (block.finished && runtime.checks.any) report_returned_threads(block, *waiting);
  if (runtime.checks.strict_barriers) check_barrier_lines(block);
  block.barrier_result = waiting->kind == 1 ? count : waiting->kind == 2 ? all : any;
  for (unsigned i = 0; i < block.threads; i++)
    if (block.state[i] == ThreadState::kAtBarrier) make_ready(block.thread[i]);
  block.at_barrier = 0;
  runtime.barriers_completed++;
  next_epoch(block);
}

void clear_barriers(Block& block) { block.barriers.clear(); }

// The missing arrivals and bytes of the barriers at which threads of the block wait.
static std::string incomplete_barriers(Block& block) {
  std::string result;
  std::vector<const void*> named;
  for (unsigned i = 0; i < block.threads && named.size() < 2; i++) {
    const Thread& thread = block.thread[i];
    if (block.state[i] != ThreadState::kAtBarrierObject || reinterpret_cast<Address>(thread.object) <= kLastKey ||
        std::count(named.begin(), named.end(), thread.object))
      continue;
    const auto found = owner_of_shared(reinterpret_cast<Address>(thread.object))
                           .barriers.find(reinterpret_cast<Address>(thread.object));
    if (found == block.barriers.end()) continue;
    const Barrier& barrier = *found->second;
    named.push_back(thread.object);
    char text[128];
    snprintf(text, sizeof text, "; phase %llu expects %u of %u arrivals%s",
             static_cast<unsigned long long>(barrier.phase), barrier.pending, barrier.expected,
             barrier.bytes > 0   ? (" and " + std::to_string(barrier.bytes) + " bytes more of bulk copies").c_str()
             : barrier.bytes < 0 ? (" and got " + std::to_string(-barrier.bytes) + " bytes more than expected").c_str()
                                 : "");
    result += text;
  }
  return result;
}

void report_deadlock(Block& block) {
  runtime.block = &block;
  Report report = new_report(kDeadlock);
  std::string message;
  unsigned named = 0;
  for (unsigned i = 0; i < block.threads; i++) {
    if (block.state[i] == ThreadState::kDone) continue;
    const Thread& thread = block.thread[i];
    unsigned first = i, alike = 0;
    for (unsigned j = 0; j < block.threads; j++) {
      const Thread& other = block.thread[j];
      if (block.state[j] != block.state[i] || other.line != thread.line || strcmp(other.what, thread.what)) continue;
      if (block.state[i] == ThreadState::kAtWarpOperation && other.mask != thread.mask) continue;
      if (!alike++) first = j;
    }
    if (first != i || ++named > 4) continue;
    char text[160], mask[32] = "", line[24] = "";
    if (block.state[i] == ThreadState::kAtWarpOperation) snprintf(mask, sizeof mask, " with mask 0x%08x", thread.mask);
    if (const int number = ww_line_of(thread.line)) snprintf(line, sizeof line, ", line %d", number);  // 0: in a header
    const ww_dim3 index = runtime.thread_index[i];
    snprintf(text, sizeof text, "%sthread (%u, %u, %u)%s %s at %s%s%s", named > 1 ? "; " : "", index.x, index.y,
             index.z, alike > 1 ? (" and " + std::to_string(alike - 1) + " more").c_str() : "",
             alike > 1 ? "wait" : "waits", thread.what, mask, line);
    message += text;
    if (named > 2) continue;
    describe_wait(named == 1 ? report.access : report.other, thread);
    report.has_other = named == 2;
  }
  message += incomplete_barriers(block);
  if (block.finished) message += "; " + std::to_string(block.finished) + " threads have exited";
  set_message(report, "%s", message.c_str());
  add_report(report);
  runtime.aborted = true;
}

}  // namespace ww

using namespace ww;

extern "C" int ww_syncthreads(int kind, int predicate, int line) {
  static const char* const names[] = {"__syncthreads()", "__syncthreads_count()", "__syncthreads_and()",
                                      "__syncthreads_or()", "bar.sync 0"};
  Thread& thread = *runtime.current;
  Block& block = *thread.block;
  thread.what = names[kind];
  thread.line = line;
  thread.kind = kind;
  thread.predicate = predicate;
  resolve_pending_store();
  block.state[thread.id] = ThreadState::kAtBarrier;
  block.at_barrier++;
  try_complete_barrier(block);
  if (block.state[thread.id] == ThreadState::kAtBarrier) park(ThreadState::kAtBarrier);
  const int result = block.barrier_result;
  preempt();
  return result;
}

extern "C" void ww_named_barrier(unsigned id, unsigned threads, int arrive_only, int line) {
  if (id > 15)
    fatal_report(new_report(kUndefinedBehaviour, 0, line),
                 "named barrier %u: a block has 16 named barriers, numbered 0 to 15", id);
  if (id == 0 && !arrive_only && (!threads || threads == runtime.threads)) {
    ww_syncthreads(WW_BAR_SYNC, 0, line);
    return;
  }
  if (threads % 32)
    fatal_report(new_report(kUndefinedBehaviour, 0, line),
                 "named barrier %u: the number of threads, %u, must be a multiple of the warp size", id, threads);
  static char names[16][16];
  snprintf(names[id], sizeof names[id], "bar.sync %u", id);
  synchronize_at(kNamedKey + id, threads ? threads : runtime.threads, arrive_only, names[id], line);
}

static Address group_key(unsigned first, unsigned threads) { return kGroupKey + Address{first} * 2048 + threads; }

extern "C" void ww_group_barrier(unsigned first, unsigned threads, int line) {
  synchronize_at(group_key(first, threads), threads, false, "a tile's sync()", line);
}

extern "C" const void* ww_group_exchange(unsigned first, unsigned threads, const void* in, unsigned bytes, int line) {
  Barrier& barrier = find_or_create_barrier(*runtime.block, group_key(first, threads));
  std::vector<char>& values = barrier.values[barrier.phase & 1];
  values.resize(std::max<size_t>(values.size(), size_t{threads} * bytes));
  memcpy(values.data() + size_t{runtime.current->id - first} * bytes, in, bytes);
  synchronize_at(group_key(first, threads), threads, false, "a tile's collective operation", line);
  return values.data();
}

extern "C" void ww_grid_sync(int line) {
  Thread& thread = *runtime.current;
  thread.what = "grid.sync()";
  thread.line = line;
  thread.block->at_grid++;
  park(ThreadState::kAtGridBarrier);
}

void ww::initialise_barrier(void* object, unsigned bytes, unsigned expected, unsigned access, void* pc, int line) {
  access_range(reinterpret_cast<Address>(object), bytes, true, reinterpret_cast<Address>(pc), access, line);
  Barrier& barrier = find_or_create_barrier(*runtime.block, reinterpret_cast<Address>(object));
  barrier = Barrier();
  barrier.owner = runtime.block;
  barrier.expected = barrier.next_expected = barrier.pending = expected;
  barrier.initialised_by = runtime.current->id;
  barrier.line = line;
}

extern "C" void ww_barrier_init(void* object, unsigned bytes, unsigned expected, int line) {
  initialise_barrier(object, bytes, expected, kPlainAccess, __builtin_return_address(0), line);
}

Barrier& ww::access_barrier(void* object, const char* what, int line, void* pc) {
  resolve_pending_store();
  access_range(reinterpret_cast<Address>(object), 4, false, reinterpret_cast<Address>(pc), kStrongAccess, line);
  return initialised_barrier(object, what, line);
}

uint64_t ww::arrive_at(Barrier& barrier, void* object, unsigned count, bool drop, int line) {
  if (count > barrier.pending)
    fatal_report(new_report(kUndefinedBehaviour, 0, line), "barrier: %u arrivals in a phase that expects only %u more",
                 count, barrier.pending);
  if (drop) barrier.next_expected--;
  const uint64_t phase = barrier.phase;
  arrive(barrier, object, count);
  return phase;
}

extern "C" uint64_t ww_barrier_arrive(void* object, unsigned count, int drop, int line) {
  return arrive_at(access_barrier(object, "arrive()", line, __builtin_return_address(0)), object, count, drop != 0,
                   line);
}

extern "C" void ww_barrier_wait(void* object, uint64_t phase, int line) {
  Barrier& barrier = access_barrier(object, "wait()", line, __builtin_return_address(0));
  deliver(barrier, object);
  wait_for(barrier, object, phase, "barrier.wait()", line);
}

extern "C" int ww_barrier_try_wait(void* object, uint64_t phase, int line) {
  Barrier& barrier = access_barrier(object, "try_wait()", line, __builtin_return_address(0));
  deliver(barrier, object);
  if (barrier.phase <= phase) {
    yield_thread();
    if (barrier.phase <= phase) return 0;
  }
  wait_for(barrier, object, phase, "barrier.try_wait()", line);
  return 1;
}

extern "C" uint64_t ww_barrier_phase(void* object, int line) {
  return access_barrier(object, "wait_parity()", line, __builtin_return_address(0)).phase;
}

extern "C" void ww_barrier_track_copies(void* object) {
  Thread& thread = *runtime.current;
  const auto found = thread.block->barriers.find(reinterpret_cast<Address>(object));
  if (found == thread.block->barriers.end()) return;
  for (Copy& copy : thread.copies)
    if (!copy.barrier) copy.barrier = found->second.get();
}
