// Runs the threads of one block: each pass resumes every ready fiber once, until all have exited or none is ready.
#include "scheduler.h"

#include <algorithm>
#include <atomic>

#include "access.h"
#include "callers.h"
#include "fibers.h"

namespace ww {

namespace {

constexpr unsigned kMaxPollingPasses =
    200;  // passes without progress after which the block counts as waiting for another block

}  // namespace

void thread_main() {
  runtime.entry(runtime.arguments);
  Thread& thread = *runtime.current;
  Block& block = *thread.block;
  thread.last_access = runtime.last_access;
  resolve_pending_store();
  release_last_operation(thread);
  check_pending_stores(thread);
  block.state[thread.id] = ThreadState::kDone;
  block.finished++;
  on_lane_exit(thread);
  on_cluster_exit(thread);
  try_complete_barrier(block);
  void* never;
  switch_fiber(&never, runtime.scheduler);
  __builtin_unreachable();
}

namespace {

// Runs a thread until it waits, yields or exits. Returns false if no stack is left for it.
bool resume(Thread& thread, ThreadState& state) {
  if (state == ThreadState::kNew) {
    thread.stack = acquire_stack();
    if (!thread.stack) return false;
    thread.stack_pointer = make_fiber(thread.stack, thread_main);
    state = ThreadState::kReady;
  }
  runtime.current = &thread;
  runtime.polled = false;
  runtime.budget = kAccessBudget;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (runtime.stop) runtime.budget = 0;  // the signal handler may have set it between two threads
  runtime.strong_budget = kStrongBudget;
  runtime.resumes++;
  runtime.ptx = thread.ptx;
  runtime.last_access = thread.last_access;
  refresh_stamp();
  switch_fiber(&runtime.scheduler, thread.stack_pointer);
  runtime.current = nullptr;
  runtime.ptx = 0;
  if (state == ThreadState::kDone) {
    release_stack(thread.stack);
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
      ThreadState& state = block.state[id];
      if (state > ThreadState::kReady) continue;
      if (!resume(block.thread[id], state)) {
        pass.out_of_stacks = true;
        return;
      }
      if (runtime.aborted) return;
      if (runtime.polled)
        pass.polled = true;
      else
        pass.progress = true;
      computing |= !runtime.polled && state == ThreadState::kReady;
    }
    again = warp.woken;
    for (unsigned w = first; w < last; w += 32)
      if (block.warps[w / 32].converging && !again && !computing) again |= release_converging_lanes(block, w);
    pass.progress |= again;
  } while (again && !order);
}

// Resumes every ready thread once. In forward order, a warp continues as long as its warp operations complete.
Pass run_pass(Block& block) {
  enter(block);
  runtime.preempted = false;
  Pass pass;
  if (runtime.order == Order::kForward) {
    for (unsigned first = 0; first < block.threads && !runtime.aborted && !pass.out_of_stacks; first += 32)
      run_warp(block, first, std::min(first + 32, block.threads), nullptr, pass);
    return pass;
  }
  uint16_t order[kMaxThreads];
  for (unsigned i = 0; i < block.threads; i++) order[i] = static_cast<uint16_t>(block.threads - 1 - i);
  if (runtime.order >= Order::kShuffle)
    for (unsigned i = block.threads - 1; i > 0; i--) std::swap(order[i], order[next_random() % (i + 1)]);
  run_warp(block, 0, block.threads, order, pass);
  return pass;
}

}  // namespace

void enter(Block& block) {
  runtime.block = &block;
  runtime.epoch = block.epoch;
  runtime.epoch_floor[1] = block.cluster ? block.cluster->first_epoch : block.first_epoch;
  runtime.clocks_used = block.clocks.used();
}

Outcome run_block(Block& block) {
  for (;;) {
    const Pass pass = run_pass(block);
    if (runtime.aborted) return Outcome::kAborted;
    if (block.finished == block.threads) return Outcome::kFinished;
    if (pass.out_of_stacks) return Outcome::kOutOfStacks;
    if (runtime.leaves_block) {
      runtime.leaves_block = false;
      return Outcome::kPolling;
    }
    if (pass.progress) {
      block.polling_passes = 0;
      continue;
    }
    if (pass.polled) {
      if (!runtime.preempted && ++block.polling_passes < kMaxPollingPasses) continue;
      block.polling_passes = 0;
      return Outcome::kPolling;
    }
    bool woken = false;
    for (unsigned i = 0; i < block.threads && !woken; i++) woken = block.state[i] <= ThreadState::kReady;
    if (woken) continue;
    return Outcome::kBlocked;
  }
}

void refresh_stamp() {
  const Block& block = *runtime.block;
  const unsigned id = runtime.current->id;
  runtime.clocks_used = block.clocks.used();
  runtime.stamp = make_stamp(runtime.epoch, id, runtime.clocks_used ? block.clocks.now(id) : 1);
}

void park(ThreadState state) {
  Thread& thread = *runtime.current;
  resolve_pending_store();
  thread.last_access = runtime.last_access;
  thread.block->state[thread.id] = state;
  switch_fiber(&thread.stack_pointer, runtime.scheduler);
  if (__builtin_expect(runtime.locating, 0)) return_callers();
}

void yield_thread() {
  if (!runtime.current) return;
  runtime.polled = true;
  park(ThreadState::kReady);
}

void preempt() {
  if (runtime.order != Order::kPreempt || !runtime.current) return;
  const uint32_t random = next_random();
  if (random & 1) return;
  runtime.leaves_block |= (random & 2) == 0;
  park(ThreadState::kReady);
}

void make_ready(Thread& thread) {
  Block& block = *thread.block;
  block.state[thread.id] = ThreadState::kReady;
  if (runtime.current && runtime.current->block == &block && runtime.current->id / 32 == thread.id / 32)
    block.warps[thread.id / 32].woken = true;
}

void abort_launch() {
  runtime.aborted = true;
  void* never;
  switch_fiber(&never, runtime.scheduler);
  __builtin_unreachable();
}

void report_timeout(const Callers& where) {
  Report report = new_report(kKernelTimeout, where.places[0]);
  std::copy(std::begin(where.places), std::end(where.places), report.callers);
  set_message(report, "the kernel is still running after %.1f s; %llu of its %llu blocks have finished",
              runtime.timeout, static_cast<unsigned long long>(runtime.finished_blocks),
              static_cast<unsigned long long>(runtime.blocks));
  if (runtime.reports.size() >= runtime.max_findings && !runtime.reports.empty()) runtime.reports.pop_back();
  add_report(report);
}

void budget_exhausted() {
  runtime.budget = kAccessBudget;
  if (!on_kernel_fiber()) return;
  if (runtime.stop == static_cast<int>(Stop::kTimeout)) report_timeout(callers_here());
  if (runtime.stop) abort_launch();
  park(ThreadState::kReady);  // the thread may be polling: let the others run
}

}  // namespace ww
