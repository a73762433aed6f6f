// Barriers: __syncthreads and its kin, named and group barriers, cuda::barrier, the grid-wide one; and deadlocks.
#include <stdio.h>
#include <string.h>

#include <algorithm>

#include "access.h"

namespace ww {

void describe_wait(Side& side, const Thread& thread) {
  copy_index(side.thread, world.thread_index[thread.id]);
  copy_index(side.block, thread.block->index);
  side.action = kWait;
  side.line = thread.line;
  snprintf(side.label, sizeof side.label, "%s", thread.what);
}

namespace {

// Threads that wait at different lines work on today's hardware, which counts arrivals, but not by CUDA's rules.
void check_lines(Block& block) {
  const Thread* first = nullptr;
  for (unsigned i = 0; i < block.threads; i++) {
    if (block.state[i] != State::kAtBarrier) continue;
    const Thread& thread = block.thread[i];
    if (!first) first = &thread;
    if (thread.line == first->line) continue;
    Report report = new_report(kBarrierDivergence);
    describe_wait(report.access, thread);
    describe_wait(report.other, *first);
    report.has_other = 1;
    set_message(report, "threads of one block wait at different barriers: %s at line %d, %s at line %d", first->what,
                first->line, thread.what, thread.line);
    add_report(report);
    return;
  }
}

void check_returned(Block& block, const Thread& waiting) {
  Report report = new_report(kBarrierDivergence);
  describe_wait(report.access, waiting);
  report.other.action = kReturned;
  report.has_other = 1;
  copy_index(report.other.block, block.index);
  for (unsigned i = 0; i < block.threads; i++)
    if (block.state[i] == State::kDone) {
      copy_index(report.other.thread, world.thread_index[i]);
      break;
    }
  set_message(report, "%s reached by %u of %u threads; %u had already returned", waiting.what, block.at_barrier,
              block.threads, block.finished);
  add_report(report);
}

constexpr Address kNamedKey = 0x1000, kGroupKey = 0x10000,
                  kLastKey = kGroupKey + Address{kMaxThreads} * 2048 + kMaxThreads;

// Barriers other than the block's: who is at them and what they have learned.
Barrier& barrier_at(Block& block, Address key) {
  std::unique_ptr<Barrier>& barrier = block.barriers[key];
  if (!barrier) barrier = std::make_unique<Barrier>();
  return *barrier;
}

// A barrier in global memory is met by several blocks, whose threads' clocks have nothing in common.
bool across_blocks(const void* object) {
  const Slot* slot = slot_of(reinterpret_cast<Address>(object));
  return reinterpret_cast<Address>(object) > kLastKey && !(slot && slot->shared);
}

void forget_old_counts(const Block& block, Barrier& barrier) {
  if (barrier.epoch == block.epoch) return;
  barrier.epoch = block.epoch;
  barrier.arriving.clear();
  barrier.completed.clear();
}

void complete_phase(Block& block, Barrier& barrier, const void* object) {
  barrier.phase++;
  barrier.expected = barrier.next_expected;
  barrier.pending = barrier.expected;
  if (world.checks.races) {
    if (barrier.completed.size() < barrier.arriving.size()) barrier.completed.resize(barrier.arriving.size());
    for (size_t i = 0; i < barrier.arriving.size(); i++)
      if (barrier.arriving[i] > barrier.completed[i]) barrier.completed[i] = barrier.arriving[i];
  }
  land_barrier_copies(block, barrier);
  barrier.arrivals.clear();
  for (Block* alive : world.alive)
    for (unsigned i = 0; i < alive->threads; i++)
      if (alive->state[i] == State::kAtObject && alive->thread[i].object == object &&
          alive->thread[i].phase < barrier.phase)
        make_ready(alive->thread[i]);
}

void arrive(Block& block, Barrier& barrier, const void* object, unsigned count) {
  Thread& thread = *world.current;
  if (across_blocks(object)) {
    ww_fence(1);
  } else {
    barrier.arrivals.push_back({thread.id, world.stamp});
    forget_old_counts(block, barrier);
    if (world.checks.races) block.clocks.release(thread.id, barrier.arriving);
  }
  barrier.pending -= count;
  if (!barrier.pending) complete_phase(block, barrier, object);
  if (block.clocks.exhausted()) next_epoch(block);
  refresh_stamp();
}

void wait_for(Block& block, Barrier& barrier, const void* object, uint64_t phase, const char* what, int line) {
  Thread& thread = *world.current;
  if (barrier.phase <= phase) {
    thread.object = object;
    thread.phase = phase;
    thread.what = what;
    thread.line = line;
    park(State::kAtObject);
  }
  if (across_blocks(object)) {
    block.strong_seen = true;
  } else if (world.checks.races) {
    forget_old_counts(block, barrier);
    block.clocks.acquire(thread.id, barrier.completed);
    refresh_stamp();
  }
}

// A barrier that `threads` arrivals complete, made where it is first used; `key` is no address of the kernel's.
void meet_at(Address key, unsigned threads, bool arrive_only, const char* what, int line) {
  Block& block = *world.block;
  settle_store();
  Barrier& barrier = barrier_at(block, key);
  if (!barrier.expected) barrier.expected = barrier.next_expected = barrier.pending = threads;
  if (barrier.expected != threads) {
    if (barrier.pending != barrier.expected)
      fatal_report(new_report(kBarrierDivergence, 0, line),
                   "%s: called for %u threads while others wait for %u at line %d", what, threads, barrier.expected,
                   barrier.line);
    barrier.expected = barrier.next_expected = barrier.pending = threads;
  }
  barrier.line = line;
  const uint64_t phase = barrier.phase;
  const void* object = reinterpret_cast<const void*>(key);
  arrive(block, barrier, object, 1);
  if (!arrive_only) wait_for(block, barrier, object, phase, what, line);
}

Barrier& initialised(const void* object, const char* what, int line) {
  Block& block = *world.block;
  const Slot* slot = slot_of(reinterpret_cast<Address>(object));
  for (Block* alive : world.alive) {
    if (alive != &block && slot && slot->shared) continue;
    const auto found = alive->barriers.find(reinterpret_cast<Address>(object));
    if (found != alive->barriers.end()) return *found->second;
  }
  Report report = new_report(kUninitializedRead, 0, line);
  if (slot) describe(report, *slot, reinterpret_cast<Address>(object));
  fatal_report(report, "%s on a barrier before init()", what);
}

}  // namespace

void check_barrier(Block& block) {
  if (!block.at_barrier || block.at_barrier + block.finished < block.threads) return;
  Thread* waiting = nullptr;
  int count = 0, all = 1, any = 0;
  for (unsigned i = 0; i < block.threads; i++) {
    if (block.state[i] != State::kAtBarrier) continue;
    Thread& thread = block.thread[i];
    if (!waiting) waiting = &thread;
    count += thread.predicate != 0;
    all &= thread.predicate != 0;
    any |= thread.predicate != 0;
  }
  if (block.finished && world.checks.any) check_returned(block, *waiting);
  if (world.checks.strict_barriers) check_lines(block);
  block.barrier_result = waiting->kind == 1 ? count : waiting->kind == 2 ? all : any;
  for (unsigned i = 0; i < block.threads; i++)
    if (block.state[i] == State::kAtBarrier) make_ready(block.thread[i]);
  block.at_barrier = 0;
  world.barriers_passed++;
  next_epoch(block);
}

void forget_barriers(Block& block) { block.barriers.clear(); }

void report_deadlock(Block& block) {
  world.block = &block;
  Report report = new_report(kDeadlock);
  std::string message;
  unsigned named = 0;
  for (unsigned i = 0; i < block.threads; i++) {
    if (block.state[i] == State::kDone) continue;
    const Thread& thread = block.thread[i];
    unsigned first = i, alike = 0;
    for (unsigned j = 0; j < block.threads; j++) {
      const Thread& other = block.thread[j];
      if (block.state[j] != block.state[i] || other.line != thread.line || strcmp(other.what, thread.what)) continue;
      if (block.state[i] == State::kAtWarp && other.mask != thread.mask) continue;
      if (!alike++) first = j;
    }
    if (first != i || ++named > 4) continue;
    char text[160], mask[32] = "";
    if (block.state[i] == State::kAtWarp) snprintf(mask, sizeof mask, " mask 0x%08x", thread.mask);
    const ww_dim3 index = world.thread_index[i];
    snprintf(text, sizeof text, "%sthread (%u, %u, %u)%s %s at %s%s, line %d", named > 1 ? "; " : "", index.x, index.y,
             index.z, alike > 1 ? (" and " + std::to_string(alike - 1) + " more").c_str() : "",
             alike > 1 ? "wait" : "waits", thread.what, mask, thread.line);
    message += text;
    if (named > 2) continue;
    describe_wait(named == 1 ? report.access : report.other, thread);
    report.has_other = named == 2;
  }
  if (block.finished) message += "; " + std::to_string(block.finished) + " threads have returned";
  set_message(report, "%s", message.c_str());
  add_report(report);
  world.aborted = true;
}

}  // namespace ww

using namespace ww;

extern "C" int ww_syncthreads(int kind, int predicate, int line) {
  static const char* const names[] = {"__syncthreads()", "__syncthreads_count()", "__syncthreads_and()",
                                      "__syncthreads_or()"};
  Thread& thread = *world.current;
  Block& block = *thread.block;
  thread.what = names[kind & 3];
  thread.line = line;
  thread.kind = kind;
  thread.predicate = predicate;
  settle_store();
  block.state[thread.id] = State::kAtBarrier;
  block.at_barrier++;
  check_barrier(block);
  if (block.state[thread.id] == State::kAtBarrier) park(State::kAtBarrier);
  return block.barrier_result;
}

extern "C" void ww_named_barrier(unsigned id, unsigned threads, int arrive_only, int line) {
  if (id > 15)
    fatal_report(new_report(kUndefinedBehaviour, 0, line), "named barrier %u: there are 16, numbered 0 to 15", id);
  if (id == 0 && !arrive_only && (!threads || threads == world.threads)) {
    ww_syncthreads(0, 0, line);
    return;
  }
  if (threads % 32)
    fatal_report(new_report(kUndefinedBehaviour, 0, line), "named barrier %u: %u threads is not a multiple of 32", id,
                 threads);
  static char names[16][16];
  snprintf(names[id], sizeof names[id], "bar.sync %u", id);
  meet_at(kNamedKey + id, threads ? threads : world.threads, arrive_only, names[id], line);
}

static Address group_key(unsigned first, unsigned threads) { return kGroupKey + Address{first} * 2048 + threads; }

extern "C" void ww_group_barrier(unsigned first, unsigned threads, int line) {
  meet_at(group_key(first, threads), threads, false, "a group's sync()", line);
}

extern "C" const void* ww_group_exchange(unsigned first, unsigned threads, const void* in, unsigned bytes, int line) {
  Barrier& barrier = barrier_at(*world.block, group_key(first, threads));
  std::vector<char>& deposits = barrier.deposits[barrier.phase & 1];
  deposits.resize(std::max<size_t>(deposits.size(), size_t{threads} * bytes));
  memcpy(deposits.data() + size_t{world.current->id - first} * bytes, in, bytes);
  meet_at(group_key(first, threads), threads, false, "a group's operation", line);
  return deposits.data();
}

extern "C" void ww_grid_sync(int line) {
  Thread& thread = *world.current;
  thread.what = "the grid's sync()";
  thread.line = line;
  thread.block->at_grid++;
  park(State::kAtGrid);
}

extern "C" void ww_barrier_init(void* object, unsigned bytes, unsigned expected, int line) {
  access_range(reinterpret_cast<Address>(object), bytes, true, reinterpret_cast<Address>(__builtin_return_address(0)),
               kPlainAccess, line);
  Barrier& barrier = barrier_at(*world.block, reinterpret_cast<Address>(object));
  barrier = Barrier();
  barrier.expected = barrier.next_expected = barrier.pending = expected;
  barrier.line = line;
}

static Barrier& used_barrier(void* object, const char* what, int line, void* pc) {
  settle_store();
  access_range(reinterpret_cast<Address>(object), 4, false, reinterpret_cast<Address>(pc), kStrongAccess, line);
  return initialised(object, what, line);
}

extern "C" uint64_t ww_barrier_arrive(void* object, unsigned count, int drop, int line) {
  Barrier& barrier = used_barrier(object, "arrive()", line, __builtin_return_address(0));
  if (count > barrier.pending)
    fatal_report(new_report(kUndefinedBehaviour, 0, line), "barrier: %u arrivals in a phase that expects %u more",
                 count, barrier.pending);
  if (drop) barrier.next_expected--;
  const uint64_t phase = barrier.phase;
  arrive(*world.block, barrier, object, count);
  return phase;
}

extern "C" void ww_barrier_wait(void* object, uint64_t phase, int line) {
  Barrier& barrier = used_barrier(object, "wait()", line, __builtin_return_address(0));
  wait_for(*world.block, barrier, object, phase, "a barrier's wait()", line);
}

extern "C" int ww_barrier_test(void* object, uint64_t phase, int line) {
  Barrier& barrier = used_barrier(object, "try_wait()", line, __builtin_return_address(0));
  if (barrier.phase <= phase) {
    give_way();
    if (barrier.phase <= phase) return 0;
  }
  wait_for(*world.block, barrier, object, phase, "a barrier's try_wait()", line);
  return 1;
}

extern "C" uint64_t ww_barrier_phase(void* object, int line) {
  return used_barrier(object, "wait_parity()", line, __builtin_return_address(0)).phase;
}
