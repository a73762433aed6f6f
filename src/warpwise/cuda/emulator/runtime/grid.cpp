// Runs the blocks of a grid one after another. A block that waits for other blocks, at the grid barrier or for a flag
// in global memory, stays resident while the next block starts.
#include <algorithm>

#include "callers.h"
#include "expected_reads.h"
#include "fibers.h"
#include "scheduler.h"
#include "signals.h"
#include "synchronise.h"
#include "volatile_data.h"

namespace ww {

Runtime runtime;

uint32_t next_random() {
  runtime.seed = runtime.seed * 1664525u + 1013904223u;
  return runtime.seed >> 8;
}

namespace {

constexpr size_t kPooledBlocks = 4;  // about 0.25 MB each

Block* acquire_block() {
  if (runtime.block_pool.empty()) return new Block();
  Block* block = runtime.block_pool.back().release();
  runtime.block_pool.pop_back();
  return block;
}

}  // namespace

void start_block(uint64_t number) {
  Block* block = acquire_block();
  static uint64_t instances = 0;
  const uint64_t x = runtime.grid.x, y = runtime.grid.y;
  block->index = {static_cast<unsigned>(number % x), static_cast<unsigned>(number / x % y),
                  static_cast<unsigned>(number / (x * y))};
  block->number = number;
  block->instance = ++instances;
  block->threads = runtime.threads;
  block->finished = block->at_barrier = block->at_grid = block->polling_passes = 0;
  block->static_shared = block->shared_offset = 0;
  block->rank = block->load_agents = block->store_agents = block->agents_epoch = 0;
  block->store_agent.clear();
  block->swizzles.clear();
  block->acquired_maps.clear();
  block->fenced_epochs.clear();
  for (Warpgroup& group : block->warpgroups)
    if (group.first || group.group || !group.operands.empty() || !group.committed.empty()) group = Warpgroup();
  for (unsigned i = 0; i < runtime.threads; i++) {
    Thread& thread = block->thread[i];
    thread.block = block;
    thread.id = i;
    thread.last_operation = thread.waiting_operation = nullptr;
    thread.copy_group = 0;
    thread.ptx = thread.last_access = 0;
    thread.copies.clear();  // an exited thread may have pending copies bound to a barrier
    thread.stores.clear();
    thread.bulk_waited = thread.bulk_last = 0;
    thread.timed_wait = thread.timed_out = thread.arrived_at_cluster = thread.wgmma_fenced = false;
    thread.wgmmas = 0;
    thread.wgmma_group = thread.wgmma_waited = thread.bulk_group = thread.bulk_base = thread.fenced_epoch = 0;
    block->state[i] = ThreadState::kNew;
  }
  for (unsigned w = 0; w * 32 < runtime.threads; w++) {
    Warp& warp = block->warps[w];
    const unsigned lanes = runtime.threads - w * 32;
    warp.exists = lanes >= 32 ? ~0u : (1u << lanes) - 1;
    warp.exited = warp.converging = 0;
    warp.sites.clear();
    warp.passed.clear();
    for (WarpOperation& operation : warp.operations) operation.open = false, operation.readers = 0;
  }
  block->clocks.start(runtime.threads);
  start_knowledge_of(*block);
  next_epoch(*block);
  block->first_epoch = block->epoch;
  runtime.resident.push_back(block);
  if (runtime.resident.size() > 1) runtime.interleaved = true;
  start_shared(*block);
}

namespace {

void end_block(Block* block) {
  leave_cluster(*block);
  end_shared(*block);
  clear_barriers(*block);
  runtime.resident.erase(std::find(runtime.resident.begin(), runtime.resident.end(), block));
  if (runtime.resident.empty()) runtime.interleaved = false;
  runtime.block_pool.emplace_back(block);
  runtime.finished_blocks++;
}

// True if a thread of the block waits at the grid barrier, or at a cuda::barrier in global memory.
bool may_wait_for_other_blocks(const Block& block) {
  if (block.at_grid) return true;
  const bool clustered = block.cluster && block.cluster->blocks.size() > 1;
  for (unsigned i = 0; i < block.threads; i++) {
    if (block.state[i] == ThreadState::kAtClusterBarrier) return true;
    if (block.state[i] != ThreadState::kAtBarrierObject) continue;
    if (clustered) return true;
    const Slot* slot = slot_of(reinterpret_cast<Address>(block.thread[i].object));
    if (slot && !slot->shared) return true;
  }
  return false;
}

// Completes the grid barrier if every thread that has not exited waits at it. All earlier accesses are then ordered.
bool release_grid() {
  if (runtime.finished_blocks + runtime.resident.size() < runtime.blocks) return false;
  unsigned waiting = 0;
  for (Block* block : runtime.resident) {
    if (block->at_grid + block->finished < block->threads) return false;
    waiting += block->at_grid;
  }
  if (!waiting) return false;
  runtime.epoch_floor[0] = runtime.last_epoch + 1;
  forget_all();
  for (Block* block : runtime.resident) {
    next_epoch(*block);
    block->at_grid = 0;
    for (unsigned i = 0; i < block->threads; i++)
      if (block->state[i] == ThreadState::kAtGridBarrier) block->state[i] = ThreadState::kReady;
  }
  return true;
}

void report_too_many_threads(Block& block) {
  enter(block);
  Report report = new_report(kUnsupportedFeature);
  for (unsigned i = 0; i < block.threads; i++)
    if (block.state[i] == ThreadState::kAtGridBarrier) report.access.line = block.thread[i].line;
  set_message(
      report,
      "a wait for other blocks needs all %llu blocks of %u threads resident at once; the emulator holds at most %zu "
      "threads: launch a smaller grid",
      static_cast<unsigned long long>(runtime.blocks), runtime.threads, kMaxFibers);
  add_report(report);
  runtime.aborted = true;
}

uint64_t block_at(uint64_t position, const std::vector<uint32_t>& shuffled) {
  if (runtime.order == Order::kReverse) return runtime.blocks - 1 - position;
  return shuffled.empty() ? position : shuffled[position];
}

std::vector<uint32_t> shuffled_order() {
  constexpr uint64_t kMaxShuffled = 1 << 20;  // blocks of a larger grid run in order
  std::vector<uint32_t> order;
  if (runtime.order < Order::kShuffle || runtime.blocks > kMaxShuffled) return order;
  order.resize(runtime.blocks);
  for (uint32_t i = 0; i < order.size(); i++) order[i] = i;
  for (size_t i = order.size() - 1; i > 0; i--) std::swap(order[i], order[next_random() % (i + 1)]);
  return order;
}

// A thread that has started and not exited, if there is one. A ready thread, for example one that polls, comes before
// one that waits, and a thread of `block` before one of another resident block.
Thread* unfinished_thread(Block& block) {
  Thread* waiting = nullptr;
  std::vector<Block*> blocks = runtime.resident;
  std::stable_partition(blocks.begin(), blocks.end(), [&](const Block* each) { return each == &block; });
  for (Block* each : blocks) {
    for (unsigned i = 0; i < each->threads; i++) {
      if (each->state[i] == ThreadState::kReady) return &each->thread[i];
      if (!waiting && each->state[i] > ThreadState::kReady && each->state[i] != ThreadState::kDone)
        waiting = &each->thread[i];
    }
  }
  return waiting;
}

// Reports a timeout that is detected while no thread runs.
void report_block_timeout(Block& block) {
  Callers where = {};
  runtime.current = unfinished_thread(block);
  if (runtime.current) {
    enter(*runtime.current->block);
    runtime.ptx = runtime.current->ptx;
    where = callers_of_parked(*runtime.current);
  }
  report_timeout(where);
  runtime.current = nullptr;
  runtime.ptx = 0;
  runtime.aborted = true;
}

struct RoundResult {
  bool finished = false, polling = false, woken = false;  // woken: a block that waited has a ready thread again
};

// Runs each resident block until it ends, or until its threads only wait.
RoundResult run_resident_blocks() {
  RoundResult round;
  std::vector<Block*> blocks = runtime.resident;
  if (runtime.order == Order::kPreempt)
    for (size_t i = blocks.size(); i > 1; i--) std::swap(blocks[i - 1], blocks[next_random() % i]);
  for (Block* block : blocks) {
    const Outcome outcome = run_block(*block);
    if (runtime.aborted) break;
    if (runtime.stop) {
      if (runtime.stop == static_cast<int>(Stop::kTimeout)) report_block_timeout(*block);
      runtime.aborted = true;
      break;
    }
    if (outcome == Outcome::kFinished) {
      end_block(block);
      round.finished = true;
    } else if (outcome == Outcome::kOutOfStacks) {
      report_too_many_threads(*block);
    } else if (outcome == Outcome::kPolling) {
      round.polling = true;
    } else if (outcome == Outcome::kBlocked && !may_wait_for_other_blocks(*block)) {
      if (!time_out_waits()) report_deadlock(*block);
      round.woken = true;
    }
  }
  for (Block* block : runtime.resident)
    if (block->cluster && !round.polling)
      for (unsigned i = 0; i < block->threads; i++) round.woken |= block->state[i] <= ThreadState::kReady;
  return round;
}

// Starts the next block that has not started yet; the first block of a cluster starts the others.
void start_next(uint64_t& started, const std::vector<uint32_t>& shuffled) {
  while (started < runtime.blocks) {
    const uint64_t number = block_at(started++, shuffled);
    if (runtime.started_early.erase(number)) continue;
    start_block(number);
    join_launched_cluster(*runtime.resident.back());
    return;
  }
}

}  // namespace

void run_grid() {
  const std::vector<uint32_t> shuffled = shuffled_order();
  uint64_t started = 0;
  while (!runtime.aborted && (started < runtime.blocks || !runtime.resident.empty())) {
    if (runtime.resident.empty()) start_next(started, shuffled);
    if (runtime.resident.empty()) break;
    const RoundResult round = run_resident_blocks();
    if (runtime.aborted) break;
    if (release_grid() || round.finished || round.woken) continue;
    Block& waiting = *runtime.resident.front();
    if (started < runtime.blocks && stacks_in_use() + runtime.threads <= kMaxFibers) {
      start_next(started, shuffled);
    } else if (started < runtime.blocks && waiting.at_grid) {
      report_too_many_threads(waiting);
    } else if (!round.polling && !time_out_waits()) {
      report_deadlock(waiting);
    }
  }
  report_fault();
  report_suspects();
  report_suspect_reads();
  for (Block* block : runtime.resident) {
    end_shared(*block);
    clear_barriers(*block);
    for (unsigned i = 0; i < block->threads; i++) block->thread[i].copies.clear();
    leave_cluster(*block);
    runtime.block_pool.emplace_back(block);
  }
  runtime.resident.clear();
  if (runtime.block_pool.size() > kPooledBlocks) runtime.block_pool.resize(kPooledBlocks);
  reclaim_all_stacks();
}

}  // namespace ww
