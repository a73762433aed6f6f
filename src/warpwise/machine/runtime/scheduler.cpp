// The warp scheduler: divergent groups of lanes (splits), waiting lanes, barriers, and the inner loop.
#include <algorithm>
#include <cstring>

#include "core.h"

namespace ww::machine {
namespace {

void reset_warp(Warp& warp, Block& block, u32 number) {
  const u32 threads = launch.block[0] * launch.block[1] * launch.block[2];
  const u32 left = threads - number * kLanes;
  warp.exists = left >= kLanes ? ~Mask{0} : (Mask{1} << left) - 1;
  warp.alive = warp.running = warp.exists;
  warp.block = &block;
  warp.number = number;
  warp.pc = 0;
  warp.splits.clear();
  warp.waiting.clear();
  warp.arrived = warp.at_cluster = 0;
  warp.cluster_phase = 0;
  warp.cycle = warp.ready = 0;
  warp.repeating = 0;
  memset(warp.scoreboard, 0, sizeof warp.scoreboard);
  warp.copies = {};
  memset(warp.predicates, 0, sizeof warp.predicates);
  memset(warp.uniform_predicates, 0, sizeof warp.uniform_predicates);
  warp.predicates[kPredicateTrue] = warp.uniform_predicates[kPredicateTrue] = ~Mask{0};
  warp.registers[kRegisterZero] = warp.uniforms[kUniformZero] = kZeroVector;
  warp.done = false;
}

void reset_barrier(Barrier& barrier) { barrier = {0, 0, 0, true, false, false}; }

// The cycle at which an instruction can issue: after the previous one's stall count and the scoreboards it waits for.
inline u64 issue_cycle(const Warp& warp, const IssueEntry& entry) {
  u64 at = std::max(warp.cycle, warp.ready);
  for (unsigned rest = entry.wait_mask; rest; rest &= rest - 1) at = std::max(at, warp.scoreboard[__builtin_ctz(rest)]);
  return at;
}

// Executes one instruction of a polling loop after the first iteration, without counters and cycles: the number of
// iterations depends on the order in which the threads run.
void repeat_poll(Warp& warp, const IssueEntry& entry, InstructionCounts& count, Mask on) {
  const InstructionCounts before = count;
  if (on) entry.run(warp, *entry.instruction, on);
  count = before;
}

// Records, after the branch that ends a polling loop, the lanes that branched back.
void note_repeats(Warp& warp, u32 index, Mask before) {
  const bool all = warp.pc <= index && warp.running == before;
  warp.repeating |= all ? before : before & ~warp.running;
  run.repeated_polls += all || before & ~warp.running;
}

constexpr u32 kReadCycles = 8;  // until a variable-latency instruction has read its source registers

void run_time_slice(Warp& warp) {
  const IssueEntry* const entries = run.program->issue_entries.data();
  InstructionCounts* const table = launch.counts;
  warp.budget = kQuantum;
  u32 executed = 0;
  do {
    const u32 index = warp.pc;
    const IssueEntry& entry = entries[index];
    const Mask running = warp.running;
    const Mask guard = entry.guard < 8 ? warp.predicates[entry.guard] : warp.uniform_predicates[entry.guard - 8];
    const Mask on = running & (guard ^ entry.guard_flip);
    InstructionCounts& count = table[index];
    if (__builtin_expect(entry.spin | (warp.repeating != 0), 0)) {
      if (!entry.spin) {
        warp.repeating &= ~running;
      } else if (!(running & ~warp.repeating)) {
        executed++;
        warp.pc = index + 1;
        repeat_poll(warp, entry, count, on);
        if (entry.spin == 2) note_repeats(warp, index, running);
        if (!warp.running && !next_split(warp)) break;
        continue;
      }
    }
    const u64 at = issue_cycle(warp, entry);
    executed++;
    count.executed++;
    count.threads += static_cast<u64>(__builtin_popcount(running));
    count.threads_on += static_cast<u64>(__builtin_popcount(on));
    count.stall_cycles += at - warp.cycle;
    warp.cycle = at + 1;
    warp.ready = at + entry.stall;
    warp.pc = index + 1;
    if (on) {
      warp.latency = entry.latency;
      entry.run(warp, *entry.instruction, on);
      if (entry.write_barrier != 7) warp.scoreboard[entry.write_barrier] = at + warp.latency;
      if (entry.read_barrier != 7) warp.scoreboard[entry.read_barrier] = at + kReadCycles;
      if (entry.spin == 2) note_repeats(warp, index, running);
      if (__builtin_expect(!warp.running, 0) && !next_split(warp)) break;
    }
  } while (--warp.budget);
  warp.block->executed += executed;
  if (!warp.budget && !warp.splits.empty()) {  // preempt: spinning lanes must not block the other splits
    // Divergent code assumes that no other split changes its uniform registers: save them.
    auto uniforms = std::make_shared<Uniforms>();
    memcpy(uniforms->registers, warp.uniforms, sizeof uniforms->registers);
    memcpy(uniforms->predicates, warp.uniform_predicates, sizeof uniforms->predicates);
    warp.splits.insert(warp.splits.begin(), {warp.running, warp.pc, std::move(uniforms)});
    warp.running = 0;
    next_split(warp);
  }
}

}  // namespace

void start_block(Block& block, u64 number) {
  block.number = number;
  block.x = static_cast<u32>(number % launch.grid[0]);
  block.y = static_cast<u32>(number / launch.grid[0] % launch.grid[1]);
  block.z = static_cast<u32>(number / launch.grid[0] / launch.grid[1]);
  block.warps_alive = launch.warps;
  block.executed = 0;
  memset(block.shared, 0, block.shared_bytes);
  for (Barrier& barrier : block.barriers) reset_barrier(barrier);
  for (u32 number_in_block = 0; number_in_block < launch.warps; number_in_block++)
    reset_warp(block.warps[number_in_block], block, number_in_block);
}

Progress step_block(Block& block) {
  bool moved = false;
  for (Warp& warp : block.warps) {
    if (warp.done || (!warp.running && !next_split(warp))) continue;
    run_time_slice(warp);
    moved = true;
  }
  return !block.warps_alive ? Progress::kDone : moved ? Progress::kMoved : Progress::kStuck;
}

bool next_split(Warp& warp) {
  if (warp.splits.empty()) return false;
  const Split& next = warp.splits.back();
  warp.running = next.lanes;
  warp.pc = next.pc;
  if (next.uniforms) {
    memcpy(warp.uniforms, next.uniforms->registers, sizeof next.uniforms->registers);
    memcpy(warp.uniform_predicates, next.uniforms->predicates, sizeof next.uniforms->predicates);
  }
  warp.splits.pop_back();
  return true;
}

void resume(Warp& warp, Mask lanes, u32 pc) {
  for (Split& split : warp.splits)
    if (split.pc == pc) {
      split.lanes |= lanes;
      return;
    }
  warp.splits.push_back({lanes, pc});
}

void wait_at(Warp& warp, Mask lanes, u32 pc, unsigned at) {
  warp.waiting.push_back({lanes, pc, static_cast<u8>(at)});
  warp.running &= ~lanes;
}

void release_converged(Warp& warp) {
  for (size_t i = 0; i < warp.waiting.size();) {
    const Waiting first = warp.waiting[i];
    Mask present = 0;
    for (const Waiting& each : warp.waiting)
      if (each.at == first.at) present |= each.lanes;
    const bool converges = first.at < kBlockBarrier;
    const Mask wanted = converges ? warp.convergence[first.at].lane[__builtin_ctz(first.lanes)] & warp.alive : ~Mask{0};
    if (!converges || wanted & ~present) {
      i++;
      continue;
    }
    const Mask released = wanted | first.lanes;
    for (Waiting& each : warp.waiting)
      if (each.at == first.at && each.lanes & released) {
        resume(warp, each.lanes & released, each.pc);
        each.lanes &= ~released;
      }
    warp.waiting.erase(
        std::remove_if(warp.waiting.begin(), warp.waiting.end(), [](const Waiting& each) { return !each.lanes; }),
        warp.waiting.end());
    i = 0;
  }
}

// A warp arrives when all of its lanes that have not exited wait at the barrier.
static void count_arrivals(Warp& warp) {
  for (const Waiting& first : warp.waiting) {
    if (first.at < kBlockBarrier || first.at == kClusterBarrier) continue;
    const unsigned number = first.at - kBlockBarrier;
    if (warp.arrived >> number & 1) continue;
    Mask present = 0;
    for (const Waiting& each : warp.waiting)
      if (each.at == first.at) present |= each.lanes;
    if (present != warp.alive) continue;
    warp.arrived |= 1u << number;
    warp.block->barriers[number].threads += kLanes;
  }
}

static void open_barrier(Block& block, unsigned number) {
  Barrier& barrier = block.barriers[number];
  u64 latest = 0;
  for (const Warp& warp : block.warps)
    if (!warp.done && warp.arrived >> number & 1) latest = std::max(latest, warp.cycle);
  for (Warp& warp : block.warps) {
    if (warp.done || !(warp.arrived >> number & 1)) continue;
    warp.arrived &= ~(1u << number);
    warp.barrier_result = barrier.lanes;
    warp.barrier_holds = barrier.conjunction ? barrier.all : barrier.any;
    for (Waiting& each : warp.waiting)
      if (each.at == kBlockBarrier + number) {
        launch.counts[each.pc - 1].stall_cycles += latest - warp.cycle;
        resume(warp, each.lanes, each.pc);
        each.lanes = 0;
        warp.cycle = latest;
      }
    warp.waiting.erase(
        std::remove_if(warp.waiting.begin(), warp.waiting.end(), [](const Waiting& each) { return !each.lanes; }),
        warp.waiting.end());
  }
  reset_barrier(barrier);
  run.barriers_opened++;
}

void update_block_barriers(Block& block) {
  for (Warp& warp : block.warps)
    if (!warp.waiting.empty()) count_arrivals(warp);
  for (unsigned number = 0; number < 16; number++) {
    const Barrier& barrier = block.barriers[number];
    const u32 wanted =
        barrier.expected ? (barrier.expected + kLanes - 1) / kLanes * kLanes : block.warps_alive * kLanes;
    if (barrier.threads && barrier.threads >= wanted) open_barrier(block, number);
  }
}

// Completes the phase once all lanes of the cluster that have not exited have arrived.
void update_cluster_barrier(Cluster& cluster) {
  bool any = false;
  for (const Block* block : cluster.blocks)
    for (const Warp& warp : block->warps) {
      if (warp.alive & ~warp.at_cluster) return;
      any |= (warp.alive & warp.at_cluster) != 0;
    }
  if (!any) return;
  cluster.phase++;
  for (Block* block : cluster.blocks)
    for (Warp& warp : block->warps) {
      warp.at_cluster = 0;
      for (Waiting& each : warp.waiting)
        if (each.at == kClusterBarrier) {
          if (cluster.latest > warp.cycle) launch.counts[each.pc - 1].stall_cycles += cluster.latest - warp.cycle;
          warp.cycle = std::max(warp.cycle, cluster.latest);
          resume(warp, each.lanes, each.pc);
          each.lanes = 0;
        }
      warp.waiting.erase(
          std::remove_if(warp.waiting.begin(), warp.waiting.end(), [](const Waiting& each) { return !each.lanes; }),
          warp.waiting.end());
    }
  cluster.latest = 0;
}

void exit_lanes(Warp& warp, Mask lanes) {
  warp.alive &= ~lanes;
  warp.running &= ~lanes;
  if (!warp.alive) {
    warp.done = true;
    warp.block->warps_alive--;
    update_block_barriers(*warp.block);
  } else if (!warp.waiting.empty()) {
    release_converged(warp);
    update_block_barriers(*warp.block);
  }
  if (warp.block->cluster->blocks.size() > 1) update_cluster_barrier(*warp.block->cluster);
}

}  // namespace ww::machine
