// Who runs when: threads of a block in order, round by round, until all are done; blocks one after another, or several
// alive at once where threads wait for other blocks (grid-wide barriers, flags that a later block sets).
#include <string.h>

#include <algorithm>

#include "access.h"
#include "fibers.h"

namespace ww {

World world;

namespace {

constexpr unsigned kPollingPasses = 200;  // passes without progress before another block is started beside this one
constexpr uint32_t kLastEpoch = 0xfffff0;

void thread_main() {
  world.entry(world.arguments);
  Thread& thread = *world.current;
  Block& block = *thread.block;
  settle_store();
  thread.copies.clear();
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

void enter(Block& block) {
  world.block = &block;
  world.epoch = block.epoch;
  world.floors[1] = block.first_epoch;
  world.clocks_used = block.clocks.used();
}

Block* take_block() {
  if (world.blocks_kept.empty()) return new Block();
  Block* block = world.blocks_kept.back().release();
  world.blocks_kept.pop_back();
  return block;
}

void start_block(uint64_t number) {
  Block* block = take_block();
  static uint64_t instances = 0;
  const uint64_t x = world.grid.x, y = world.grid.y;
  block->index = {static_cast<unsigned>(number % x), static_cast<unsigned>(number / x % y), static_cast<unsigned>(number / (x * y))};
  block->number = number;
  block->instance = ++instances;
  block->threads = world.threads;
  block->finished = block->at_barrier = block->at_grid = block->quiet_passes = 0;
  block->strong_seen = false;
  block->static_shared = 0;
  for (unsigned i = 0; i < world.threads; i++) {
    Thread& thread = block->thread[i];
    thread.block = block;
    thread.id = i;
    thread.held = thread.waiting = nullptr;
    thread.copy_group = 0;
    block->state[i] = State::kNew;
  }
  for (unsigned w = 0; w * 32 < world.threads; w++) {
    Warp& warp = block->warps[w];
    const unsigned lanes = world.threads - w * 32;
    warp.exists = lanes >= 32 ? ~0u : (1u << lanes) - 1;
    warp.exited = warp.converging = 0;
    for (WarpOperation& operation : warp.operations) operation.open = false, operation.holders = 0;
  }
  block->clocks.start(world.threads);
  if (world.alive.empty() && world.last_epoch > kLastEpoch - 64 * 1024) {
    forget_cells();  // races with earlier blocks go unseen; none is made up
    world.last_epoch = 0;
    world.floors[0] = 1;
    world.epoch_owner.clear();
    world.fence_epochs.clear();
  }
  next_epoch(*block);
  block->first_epoch = block->epoch;
  world.alive.push_back(block);
  if (world.alive.size() > 1) world.interleaved = true;
  start_shared(*block);
}

void end_block(Block* block) {
  end_shared(*block);
  forget_barriers(*block);
  world.alive.erase(std::find(world.alive.begin(), world.alive.end(), block));
  if (world.alive.empty()) world.interleaved = false;
  world.blocks_kept.emplace_back(block);
  world.finished_blocks++;
}

uint32_t next_random() {
  world.seed = world.seed * 1664525u + 1013904223u;
  return world.seed >> 8;
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
      if (world.polled) pass.polled = true;
      else pass.progress = true;
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

enum class Outcome { kFinished, kPolls, kStuck, kAborted, kOutOfStacks };

// Whether another block could free one of the block's threads: at the grid's barrier, or at one in global memory.
bool may_be_woken(const Block& block) {
  if (block.at_grid) return true;
  for (unsigned i = 0; i < block.threads; i++) {
    if (block.state[i] != State::kAtObject) continue;
    const Slot* slot = slot_of(reinterpret_cast<Address>(block.thread[i].object));
    if (slot && !slot->shared) return true;
  }
  return false;
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

// All live threads of all blocks wait for the grid: let them go on, with everything so far ordered.
bool release_grid() {
  if (world.finished_blocks + world.alive.size() < world.blocks) return false;
  unsigned waiting = 0;
  for (Block* block : world.alive) {
    if (block->at_grid + block->finished < block->threads) return false;
    waiting += block->at_grid;
  }
  if (!waiting) return false;
  world.floors[0] = world.last_epoch + 1;
  for (Block* block : world.alive) {
    next_epoch(*block);
    block->at_grid = 0;
    for (unsigned i = 0; i < block->threads; i++)
      if (block->state[i] == State::kAtGrid) block->state[i] = State::kReady;
  }
  return true;
}

void fail_for_stacks(Block& block) {
  enter(block);
  Report report = new_report(kUnsupportedFeature);
  for (unsigned i = 0; i < block.threads; i++)
    if (block.state[i] == State::kAtGrid) report.access.line = block.thread[i].line;
  set_message(report,
              "a grid-wide wait needs all %llu blocks of %u threads alive at once; the emulator holds at most %zu threads: "
              "launch a smaller grid",
              static_cast<unsigned long long>(world.blocks), world.threads, kMaxFibers);
  add_report(report);
  world.aborted = true;
}

uint64_t number_in_order(uint64_t position, const std::vector<uint32_t>& shuffled) {
  if (world.order == Order::kReverse) return world.blocks - 1 - position;
  return shuffled.empty() ? position : shuffled[position];
}

std::vector<uint32_t> shuffled_blocks() {
  constexpr uint64_t kMost = 1 << 20;  // a larger grid's blocks run in order: the list would outgrow the tensors
  std::vector<uint32_t> order;
  if (world.order != Order::kShuffle || world.blocks > kMost) return order;
  order.resize(world.blocks);
  for (uint32_t i = 0; i < order.size(); i++) order[i] = i;
  for (size_t i = order.size() - 1; i > 0; i--) std::swap(order[i], order[next_random() % (i + 1)]);
  return order;
}

void time_out() {
  Report report = new_report(kKernelTimeout);
  set_message(report, "still running after %.1f s (%llu of %llu blocks done)", world.timeout,
              static_cast<unsigned long long>(world.finished_blocks), static_cast<unsigned long long>(world.blocks));
  add_report(report);
  world.aborted = true;
}

struct Round {
  bool finished = false, polling = false;
};

// Runs every block that is alive until it ends or can do nothing but wait.
Round run_alive() {
  Round round;
  const std::vector<Block*> blocks = world.alive;
  for (Block* block : blocks) {
    const Outcome outcome = run_block(*block);
    if (world.aborted) break;
    if (world.stop) {
      if (world.stop == static_cast<int>(Stop::kTimeout)) time_out();
      world.aborted = true;
      break;
    }
    if (outcome == Outcome::kFinished) {
      end_block(block);
      round.finished = true;
    } else if (outcome == Outcome::kOutOfStacks) {
      fail_for_stacks(*block);
    } else if (outcome == Outcome::kPolls) {
      round.polling = true;
    } else if (outcome == Outcome::kStuck && !may_be_woken(*block)) {
      report_deadlock(*block);
    }
  }
  return round;
}

}  // namespace

void run_grid() {
  const std::vector<uint32_t> shuffled = shuffled_blocks();
  uint64_t started = 0;
  while (!world.aborted && (started < world.blocks || !world.alive.empty())) {
    if (world.alive.empty()) start_block(number_in_order(started++, shuffled));
    const Round round = run_alive();
    if (world.aborted) break;
    if (release_grid() || round.finished) continue;
    Block& waiting = *world.alive.front();
    if (started < world.blocks && stacks_in_use() + world.threads <= kMaxFibers) {
      start_block(number_in_order(started++, shuffled));
    } else if (started < world.blocks && waiting.at_grid) {
      fail_for_stacks(waiting);
    } else if (!round.polling) {
      report_deadlock(waiting);
    }
  }
  for (Block* block : world.alive) {
    end_shared(*block);
    forget_barriers(*block);
    for (unsigned i = 0; i < block->threads; i++) block->thread[i].copies.clear();
    world.blocks_kept.emplace_back(block);
  }
  world.alive.clear();
  reclaim_all_stacks();
}

void refresh_stamp() {
  const Block& block = *world.block;
  const unsigned id = world.current->id;
  world.clocks_used = block.clocks.used();
  world.stamp = make_stamp(world.epoch, id, world.clocks_used ? block.clocks.now(id) : 1);
}

void next_epoch(Block& block) {
  if (world.last_epoch < kLastEpoch) world.last_epoch++;
  else world.checks.races = false;
  block.epoch = world.last_epoch;
  block.clocks.reset();
  block.strong_seen = false;
  if (world.epoch_owner.empty() || world.epoch_owner.back().second != block.number)
    world.epoch_owner.emplace_back(block.epoch, block.number);
  if (world.block == &block) {
    world.epoch = block.epoch;
    if (world.current) refresh_stamp();
  }
}

uint64_t block_number_of(uint32_t epoch) {
  const auto after = std::upper_bound(world.epoch_owner.begin(), world.epoch_owner.end(), epoch,
                                      [](uint32_t e, const auto& entry) { return e < entry.first; });
  return after == world.epoch_owner.begin() ? 0 : (after - 1)->second;
}

ww_dim3 block_index_of(uint32_t epoch) {
  const uint64_t number = block_number_of(epoch), x = world.grid.x, y = world.grid.y;
  return {static_cast<unsigned>(number % x), static_cast<unsigned>(number / x % y), static_cast<unsigned>(number / (x * y))};
}

void copy_index(uint32_t* to, ww_dim3 from) { to[0] = from.x, to[1] = from.y, to[2] = from.z; }

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

void budget_spent(Address pc) {
  world.budget = kAccessBudget;
  if (!runs_kernel()) return;
  if (world.stop == static_cast<int>(Stop::kTimeout)) {
    fatal_report(new_report(kKernelTimeout, pc), "still running after %.1f s (%llu of %llu blocks done)", world.timeout,
                 static_cast<unsigned long long>(world.finished_blocks), static_cast<unsigned long long>(world.blocks));
  }
  if (world.stop) leave_launch();
  park(State::kReady);  // whoever it may be waiting for gets a turn
}

}  // namespace ww
