// Warp operations (__syncwarp, shuffles, votes, ...): the lanes that call with the same mask wait for each other,
// exchange values, and continue together.
#include <string.h>

#include <algorithm>

#include "access.h"
#include "synchronise.h"

namespace ww {

static Warp& warp_of(const Thread& thread) { return thread.block->warps[thread.id / 32]; }

// Completes the operation if every lane of its mask has arrived or exited.
static bool try_complete(Block& block, unsigned first, Warp& warp, WarpOperation& operation) {
  const uint32_t needed = operation.mask & warp.exists & ~warp.exited;
  if ((operation.arrived & needed) != needed) return false;
  operation.open = false;
  for (uint32_t rest = operation.arrived; rest; rest &= rest - 1) {
    const unsigned id = first + static_cast<unsigned>(__builtin_ctz(rest));
    if (block.state[id] == ThreadState::kAtWarpOperation && block.thread[id].waiting_operation == &operation)
      make_ready(block.thread[id]);
  }
  return true;
}

void on_lane_exit(Thread& thread) {
  Warp& warp = warp_of(thread);
  const unsigned lane = thread.id & 31;
  warp.exited |= 1u << lane;
  for (WarpOperation& operation : warp.operations)
    if (operation.open) try_complete(*thread.block, thread.id & ~31u, warp, operation);
}

bool release_converging_lanes(Block& block, unsigned first) {
  Warp& warp = block.warps[first / 32];
  warp.converging = 0;
  uint32_t waiting = 0;
  for (unsigned lane = 0; lane < 32 && first + lane < block.threads; lane++)
    if (block.state[first + lane] == ThreadState::kConverging) waiting |= 1u << lane;
  const bool any = waiting != 0;
  while (waiting) {
    const int line = block.thread[first + static_cast<unsigned>(__builtin_ctz(waiting))].line;
    uint32_t together = 0;
    for (uint32_t rest = waiting; rest; rest &= rest - 1) {
      const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
      if (block.thread[first + lane].line == line) together |= 1u << lane;
    }
    for (uint32_t rest = together; rest; rest &= rest - 1) {
      const unsigned id = first + static_cast<unsigned>(__builtin_ctz(rest));
      block.thread[id].mask = together;
      block.state[id] = ThreadState::kReady;
    }
    waiting &= ~together;
  }
  return any;
}

void release_last_operation(Thread& thread) {
  if (thread.last_operation) thread.last_operation->readers--;
  thread.last_operation = nullptr;
}

static WarpOperation& find_operation(Warp& warp, unsigned lane, uint32_t mask) {
  WarpOperation* unused = nullptr;
  for (WarpOperation& operation : warp.operations) {
    if (operation.open && operation.mask == mask && !(operation.arrived >> lane & 1)) return operation;
    if (!operation.open && !operation.readers && !unused) unused = &operation;
  }
  if (!unused) {
    warp.operations.emplace_back();
    unused = &warp.operations.back();
  }
  unused->open = false;
  return *unused;
}

static WarpOperation& synchronize_lanes(unsigned mask, const void* in, unsigned bytes, const char* what, int line) {
  Thread& thread = *runtime.current;
  Block& block = *thread.block;
  Warp& warp = warp_of(thread);
  const unsigned lane = thread.id & 31;
  resolve_pending_store();
  release_last_operation(thread);
  if (!(mask >> lane & 1)) {
    fatal_report(new_report(kUndefinedBehaviour, 0, line),
                 "%s: lane %u calls with mask 0x%08x, which does not contain the lane", what, lane, mask);
  }
  WarpOperation& operation = find_operation(warp, lane, mask);
  if (!operation.open) {
    operation.open = true;
    operation.mask = mask;
    operation.arrived = operation.readers = 0;
    operation.line = line;
    operation.what = what;
    operation.stride = std::max(8u, (bytes + 7) & ~7u);
    if (operation.values.size() < 32 * operation.stride) operation.values.resize(32 * operation.stride);
  } else if (operation.what != what && strcmp(operation.what, what)) {
    thread.what = what;
    thread.line = line;
    Report report = new_report(kBarrierDivergence);
    describe_wait(report.access, thread);
    describe_wait(report.other,
                  block.thread[(thread.id & ~31u) + static_cast<unsigned>(__builtin_ctz(operation.arrived))]);
    report.has_other = 1;
    fatal_report(report, "lanes of one warp execute different operations with mask 0x%08x: %s and %s", mask, what,
                 operation.what);
  } else if (bytes > operation.stride) {
    fatal_report(new_report(kBarrierDivergence, 0, line), "%s: lanes of one warp pass values of different sizes", what);
  }
  operation.arrived |= 1u << lane;
  operation.readers++;
  thread.last_operation = thread.waiting_operation = &operation;
  thread.what = what;
  thread.line = line;
  thread.mask = mask;
  if (bytes) memcpy(operation.values.data() + lane * operation.stride, in, bytes);
  if (!try_complete(block, thread.id & ~31u, warp, operation)) park(ThreadState::kAtWarpOperation);
  return operation;
}

}  // namespace ww

using namespace ww;

extern "C" void ww_syncwarp(unsigned mask, int line) {
  Thread& thread = *runtime.current;
  WarpOperation& operation = synchronize_lanes(mask, nullptr, 0, "__syncwarp()", line);
  if (runtime.checks.races && operation.readers == static_cast<uint32_t>(__builtin_popcount(operation.arrived))) {
    const unsigned first = thread.id & ~31u;
    thread.block->clocks.sync_warp(first, operation.arrived);  // once, by the first lane to resume
    if (thread.block->clocks.has_agents() || !thread.block->remote.empty() || thread.block->synchronises) {
      std::vector<unsigned> lanes;
      for (uint32_t rest = operation.arrived; rest; rest &= rest - 1)
        lanes.push_back(first + static_cast<unsigned>(__builtin_ctz(rest)));
      join_remote(*thread.block, lanes);
      share_knowledge(*thread.block, &lanes);
    }
  }
  release_last_operation(thread);
  if (thread.block->clocks.exhausted()) next_epoch(*thread.block);
  refresh_stamp();
}

extern "C" ww_exchange ww_warp_exchange(unsigned mask, const void* in, unsigned bytes, const char* what, int line) {
  WarpOperation& operation = synchronize_lanes(mask, in, bytes, what, line);
  return {operation.values.data(), operation.stride, operation.arrived};
}

extern "C" unsigned ww_converged_lanes(int line) {
  Thread& thread = *runtime.current;
  thread.what = "warp convergence";
  thread.line = line;
  warp_of(thread).converging++;
  park(ThreadState::kConverging);
  return thread.mask;
}

extern "C" unsigned ww_activemask() {
  const Warp& warp = warp_of(*runtime.current);
  return warp.exists & ~warp.exited;
}
