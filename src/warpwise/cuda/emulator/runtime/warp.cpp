// Warp operations (__syncwarp, shuffles, votes, ...): the lanes that call with the same mask wait for each other,
// exchange values, and continue together.
#include <string.h>

#include <algorithm>

#include "access.h"
#include "synchronise.h"

namespace ww {

static Warp& warp_of(const Thread& thread) { return thread.block->warps[thread.id / 32]; }

// A lane that has exited need not execute an operation whose mask includes it. A lane that skips the operation and
// exits later is not exempt. It differs from an early return in one of two ways: its last access follows the operation
// in the source (findings.py decides this), or its last access is also that of a lane that has executed the operation.
void note_exited_lanes(const Block& block, unsigned first, Warp& warp, const WarpOperation& operation) {
  if (!runtime.checks.races || !operation.pc) return;
  const auto known =
      std::find_if(warp.sites.begin(), warp.sites.end(), [&](const WarpSite& site) { return site.pc == operation.pc; });
  WarpSite& site = known == warp.sites.end() ? warp.sites.emplace_back() : *known;
  site.pc = operation.pc;
  const uint32_t exited = operation.mask & warp.exited & ~site.lanes;
  site.lanes |= operation.arrived;
  if (!exited || site.passed) return;
  const Thread& lane = block.thread[first + static_cast<unsigned>(31 - __builtin_clz(exited))];
  if (!lane.last_access) return;
  site.passed = true;
  PassedOperation& passed = warp.passed.emplace_back();
  passed.lanes = operation.arrived;
  for (uint32_t rest = operation.arrived; rest; rest &= rest - 1) {
    const unsigned at = static_cast<unsigned>(__builtin_ctz(rest));
    passed.before[at] = block.thread[first + at].access_before_operation;
  }
  Report& report = passed.report = new_report(kBarrierDivergence);
  describe_wait(report.access, block.thread[first + static_cast<unsigned>(__builtin_ctz(operation.arrived))]);
  describe_wait(report.other, lane);
  snprintf(report.other.label, sizeof report.other.label, "last access");
  report.other.pc = lane.last_access;
  report.other.line = 0;
  report.has_other = 1;
  report.passed_operation = operation.pc;
  report.passed_access = lane.last_access;
  set_message(
      report,
      "%s: mask 0x%08x names lane %u, which does not call it and goes on to other code: the result is undefined",
      operation.what, operation.mask, lane.id & 31);
}

void check_passed_operations(const Thread& thread, Warp& warp) {
  const unsigned lane = thread.id & 31;
  for (PassedOperation& passed : warp.passed) {
    const Address access = passed.report.passed_access;
    if (access && passed.lanes >> lane & 1 && thread.last_access == access && passed.before[lane] != access)
      passed.report.passed_access = 0;
  }
  if ((warp.exists & ~warp.exited) == 0) {
    for (const PassedOperation& passed : warp.passed) add_report(passed.report);
    warp.passed.clear();
  }
}

// Completes the operation if every lane of its mask has arrived or exited.
static bool try_complete(Block& block, unsigned first, Warp& warp, WarpOperation& operation) {
  const uint32_t needed = operation.mask & warp.exists & ~warp.exited;
  if ((operation.arrived & needed) != needed) return false;
  operation.open = false;
  note_exited_lanes(block, first, warp, operation);
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
  if (!warp.passed.empty()) check_passed_operations(thread, warp);
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

static WarpOperation& synchronize_lanes(unsigned mask, const void* in, unsigned bytes, const char* what, int line,
                                        Address pc) {
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
    operation.pc = pc;
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
  thread.access_before_operation = runtime.last_access;
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
  WarpOperation& operation =
      synchronize_lanes(mask, nullptr, 0, "__syncwarp()", line, reinterpret_cast<Address>(__builtin_return_address(0)));
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
  WarpOperation& operation =
      synchronize_lanes(mask, in, bytes, what, line, reinterpret_cast<Address>(__builtin_return_address(0)));
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
