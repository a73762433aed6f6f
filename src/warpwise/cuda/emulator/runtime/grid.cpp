// Blocks one after another, or several alive at once where threads wait for other blocks: at a grid-wide barrier, or
// for a flag that a later block sets.
#include <algorithm>

#include "fibers.h"
#include "scheduler.h"
#include "signals.h"

namespace ww {

World world;

uint32_t next_random() {
  world.seed = world.seed * 1664525u + 1013904223u;
  return world.seed >> 8;
}

namespace {

constexpr size_t kBlocksKept = 4;  // a quarter of a megabyte each

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
  block->index = {static_cast<unsigned>(number % x), static_cast<unsigned>(number / x % y),
                  static_cast<unsigned>(number / (x * y))};
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
    thread.copies.clear();  // a thread that has returned may have left some to a barrier
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
  set_message(
      report,
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

// Found between threads: the first that has begun and not ended tells where.
void time_out(Block& block) {
  Address pc = 0;
  for (unsigned i = 0; i < block.threads && !pc; i++) {
    if (block.state[i] == State::kNew || block.state[i] == State::kDone) continue;
    world.current = &block.thread[i];
    pc = place_on_stack(*world.current, reinterpret_cast<Address>(world.current->stack_pointer));
  }
  report_timeout(pc);
  world.current = nullptr;
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
      if (world.stop == static_cast<int>(Stop::kTimeout)) time_out(*block);
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
  report_fault();
  for (Block* block : world.alive) {
    end_shared(*block);
    forget_barriers(*block);
    for (unsigned i = 0; i < block->threads; i++) block->thread[i].copies.clear();
    world.blocks_kept.emplace_back(block);
  }
  world.alive.clear();
  if (world.blocks_kept.size() > kBlocksKept) world.blocks_kept.resize(kBlocksKept);
  reclaim_all_stacks();
}

}  // namespace ww
