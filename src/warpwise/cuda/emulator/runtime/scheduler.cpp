// Threads of a block in turn, round by round, until all are done or none can go on.
#include "scheduler.h"

#include <algorithm>
#include <atomic>

#include "access.h"
#include "fibers.h"

namespace ww {

namespace {

constexpr unsigned kPollingPasses = 200;  // passes without progress until the block is taken to wait for another one

void thread_main() {
  world.entry(world.arguments);
  Thread& thread = *world.current;
  Block& block = *thread.block;
  settle_store();
  release_held(thread);
  block.state[thread.id] = State::kDone;
  block.finished++;
  lane_exits(thread);
  check_barrier(block);
  void* never;
  switch_fiber(&never, world.scheduler);
  __builtin_unreachable();
}

// Runs a thread until it waits, gives way or ends; false if there is no stack for it.
bool resume(Thread& thread, State& state) {
  if (state == State::kNew) {
    thread.stack = take_stack();
    if (!thread.stack) return false;
    thread.stack_pointer = make_fiber(thread.stack, thread_main);
    state = State::kReady;
  }
  world.current = &thread;
  world.polled = false;
  world.budget = kAccessBudget;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (world.stop) world.budget = 0;  // a tick that came while no thread ran has set the one of the thread before
  world.strong_budget = kStrongBudget;
  world.resumes++;
  refresh_stamp();
  switch_fiber(&world.scheduler, thread.stack_pointer);
  world.current = nullptr;
  if (state == State::kDone) {
    give_stack(thread.stack);
    thread.stack = nullptr;
  }
  return true;
}

struct Pass {
  bool progress = false, polled = false, out_of_stacks = false;
};

void run_warp(Block& block, unsigned first, unsigned last, const uint16_t* order, Pass& pass) {
  Warp& warp = block.warps[first / 32];
  bool again = false;
  do {
    warp.woken = false;
    bool computing = false;
    for (unsigned k = first; k < last; k++) {
      const unsigned id = order ? order[k] : k;
      State& state = block.state[id];
      if (state > State::kReady) continue;
      if (!resume(block.thread[id], state)) {
        pass.out_of_stacks = true;
        return;
      }
      if (world.aborted) return;
      if (world.polled)
        pass.polled = true;
      else
        pass.progress = true;
      computing |= !world.polled && state == State::kReady;
    }
    again = warp.woken;
    for (unsigned w = first; w < last; w += 32)
      if (block.warps[w / 32].converging && !again && !computing) again |= release_converged(block, w);
    pass.progress |= again;
  } while (again && !order);
}

// Every ready thread runs once; in the plain order, a warp goes on while its warp operations complete.
Pass run_pass(Block& block) {
  enter(block);
  world.preempted = false;
  Pass pass;
  if (world.order == Order::kForward) {
    for (unsigned first = 0; first < block.threads && !world.aborted && !pass.out_of_stacks; first += 32)
      run_warp(block, first, std::min(first + 32, block.threads), nullptr, pass);
    return pass;
  }
  uint16_t order[kMaxThreads];
  for (unsigned i = 0; i < block.threads; i++) order[i] = static_cast<uint16_t>(block.threads - 1 - i);
  if (world.order == Order::kShuffle)
    for (unsigned i = block.threads - 1; i > 0; i--) std::swap(order[i], order[next_random() % (i + 1)]);
  run_warp(block, 0, block.threads, order, pass);
  return pass;
}

}  // namespace

void enter(Block& block) {
  world.block = &block;
  world.epoch = block.epoch;
  world.floors[1] = block.first_epoch;
  world.clocks_used = block.clocks.used();
}

Outcome run_block(Block& block) {
  for (;;) {
    const Pass pass = run_pass(block);
    if (world.aborted) return Outcome::kAborted;
    if (block.finished == block.threads) return Outcome::kFinished;
    if (pass.out_of_stacks) return Outcome::kOutOfStacks;
    if (pass.progress) {
      block.quiet_passes = 0;
      continue;
    }
    if (pass.polled) {
      if (!world.preempted && ++block.quiet_passes < kPollingPasses) continue;
      block.quiet_passes = 0;
      return Outcome::kPolls;
    }
    bool woken = false;
    for (unsigned i = 0; i < block.threads && !woken; i++) woken = block.state[i] <= State::kReady;
    if (woken) continue;
    return Outcome::kStuck;
  }
}

void refresh_stamp() {
  const Block& block = *world.block;
  const unsigned id = world.current->id;
  world.clocks_used = block.clocks.used();
  world.stamp = make_stamp(world.epoch, id, world.clocks_used ? block.clocks.now(id) : 1);
}

void park(State state) {
  Thread& thread = *world.current;
  settle_store();
  thread.block->state[thread.id] = state;
  switch_fiber(&thread.stack_pointer, world.scheduler);
}

void give_way() {
  if (!world.current) return;
  world.polled = true;
  park(State::kReady);
}

void make_ready(Thread& thread) {
  Block& block = *thread.block;
  block.state[thread.id] = State::kReady;
  if (world.current && world.current->block == &block && world.current->id / 32 == thread.id / 32)
    block.warps[thread.id / 32].woken = true;
}

void leave_launch() {
  world.aborted = true;
  void* never;
  switch_fiber(&never, world.scheduler);
  __builtin_unreachable();
}

Address place_on_stack(const Thread& thread, Address from) {
  const Address word = sizeof(Address), end = reinterpret_cast<Address>(thread.stack) + kStackBytes;
  for (Address at = (from + word - 1) & ~(word - 1); at < end; at += word) {
    const Address value = *reinterpret_cast<const Address*>(at);
    if (in_kernel_code(value - 1)) return value;
  }
  return 0;
}

void report_timeout(Address pc, Address caller) {
  Report report = new_report(kKernelTimeout, pc);
  report.other.pc = caller;
  set_message(report, "still running after %.1f s (%llu of %llu blocks done)", world.timeout,
              static_cast<unsigned long long>(world.finished_blocks), static_cast<unsigned long long>(world.blocks));
  if (world.reports.size() >= world.max_findings && !world.reports.empty()) world.reports.pop_back();
  add_report(report);
}

void budget_spent(Address pc) {
  world.budget = kAccessBudget;
  if (!runs_kernel()) return;
  if (world.stop == static_cast<int>(Stop::kTimeout)) report_timeout(pc);
  if (world.stop) leave_launch();
  park(State::kReady);  // whoever it may be waiting for gets a turn
}

}  // namespace ww
