// Warpgroups: the groups of wgmma, and the operands of each, which the threads of a warpgroup share.
#include <algorithm>

#include "access.h"

using namespace ww;

static Warpgroup& warpgroup_of(Block& block, const Thread& thread) {
  return block.warpgroups[thread.id / kWarpgroupThreads];
}

// True if each thread of the warpgroup that starts at thread `first` has committed `groups` groups.
static bool all_have_committed(const Block& block, unsigned first, uint32_t groups) {
  for (unsigned i = first; i < first + kWarpgroupThreads; i++)
    if (block.thread[i].wgmma_group < groups) return false;
  return true;
}

// The operands of the last wgmma that the thread has started.
static WgmmaOperands& operands_of(const Thread& thread) {
  Warpgroup& group = warpgroup_of(*thread.block, thread);
  return group.operands[thread.wgmmas - 1 - group.first];
}

extern "C" {

ww_wgmma ww_wgmma_begin(int line) {
  Thread& thread = *runtime.current;
  Block& block = *runtime.block;
  if ((thread.id / kWarpgroupThreads + 1) * kWarpgroupThreads > runtime.threads)
    fatal_report(new_report(kUndefinedBehaviour, 0, line),
                 "wgmma by threads %u to %u of the block: a warpgroup has 128 threads, from a multiple of 128 on",
                 thread.id / kWarpgroupThreads * kWarpgroupThreads, runtime.threads - 1);
  if (runtime.checks.races) block.clocks.use_agents();
  if (!thread.wgmma_fenced && runtime.checks.any) {
    Report report = new_report(kUndefinedBehaviour, 0, line);
    set_message(report,
                "wgmma before wgmma.fence: the first wgmma of a warp, and the first after its registers were "
                "written, follows a wgmma.fence");
    add_report(report);
    thread.wgmma_fenced = true;
  }
  Warpgroup& group = warpgroup_of(block, thread);
  const uint64_t number = thread.wgmmas++;
  while (group.first + group.operands.size() <= number) group.operands.emplace_back();
  WgmmaOperands& operands = group.operands[number - group.first];
  const bool first = !operands.begun;
  operands.begun = true;
  while (!first && !operands.decoded) yield_thread();
  return {&operands.a, &operands.b, first};
}

void ww_wgmma_decoded() { operands_of(*runtime.current).decoded = true; }

void ww_wgmma_end() {
  Warpgroup& group = warpgroup_of(*runtime.block, *runtime.current);
  operands_of(*runtime.current).readers++;
  while (!group.operands.empty() && group.operands.front().readers == kWarpgroupThreads) {
    group.operands.pop_front();
    group.first++;
  }
}

void ww_wgmma_fence() { runtime.current->wgmma_fenced = true; }

void ww_wgmma_commit() {
  Block& block = *runtime.block;
  Thread& thread = *runtime.current;
  Warpgroup& warpgroup = warpgroup_of(block, thread);
  if (runtime.checks.races) release(thread, warpgroup.committed[thread.wgmma_group]);
  const uint32_t group = ++thread.wgmma_group - warpgroup.group;
  const unsigned first = thread.id / kWarpgroupThreads * kWarpgroupThreads;
  for (unsigned i = first; warpgroup.waiting && i < first + kWarpgroupThreads; i++)
    if (block.state[i] == ThreadState::kAtWarpgroup && all_have_committed(block, first, block.thread[i].wgmma_awaited))
      make_ready(block.thread[i]);
  if (!block.clocks.has_agents()) return;
  block.clocks.advance_agent(block.clocks.first_agent() + thread.id / kWarpgroupThreads, group + 1);
  if (block.clocks.exhausted()) next_epoch(block);
  refresh_stamp();
}

void ww_wgmma_wait(unsigned still_pending, int line) {
  Thread& thread = *runtime.current;
  Block& block = *runtime.block;
  Warpgroup& warpgroup = warpgroup_of(block, thread);
  const uint32_t base = warpgroup.group,
                 done = thread.wgmma_group > still_pending ? thread.wgmma_group - still_pending : 0;
  // A wgmma completes once all warps of the warpgroup have issued it, so its operands in registers have been read.
  const unsigned first = thread.id / kWarpgroupThreads * kWarpgroupThreads;
  if (!all_have_committed(block, first, done)) {
    thread.wgmma_awaited = done;
    thread.what = "wgmma.wait_group";
    thread.line = line;
    warpgroup.waiting++;
    park(ThreadState::kAtWarpgroup);
    warpgroup.waiting--;
  }
  if (!block.clocks.has_agents()) return;
  constexpr uint32_t kKept = 64;
  while (!warpgroup.committed.empty() && warpgroup.committed.begin()->first + kKept < done)
    warpgroup.committed.erase(warpgroup.committed.begin());
  for (; thread.wgmma_waited < done; thread.wgmma_waited++)
    if (const auto seen = warpgroup.committed.find(thread.wgmma_waited); seen != warpgroup.committed.end())
      acquire(thread, seen->second);
  if (done > base)
    block.clocks.acquire_agent(thread.id, block.clocks.first_agent() + thread.id / kWarpgroupThreads, done - base);
  refresh_stamp();
}

// The generic address of an address in the 256 KiB window of matrix descriptors.
char* ww_from_descriptor(unsigned address, int line) {
  for (const SharedVariable& variable : runtime.block->shared) {
    const Slot& slot = slots[variable.slot];
    const Address offset = slot.start - slot.middle;
    if (address >= offset && address - offset < slot.bytes) return reinterpret_cast<char*>(slot.middle + address);
  }
  fatal_report(new_report(kOutOfBounds, 0, line),
               "the matrix descriptor's address 0x%x is not in the block's shared memory", address);
}

void ww_mbarrier_init_fence() {
  for (const auto& [key, barrier] : runtime.block->barriers)
    if (barrier->initialised_by == runtime.current->id) barrier->fenced = true;
}

void ww_proxy_fence() {
  Block& block = *runtime.block;
  ww_mbarrier_init_fence();
  if (!runtime.checks.races) return;
  resolve_pending_store();
  block.clocks.use_agents();
  block.clocks.proxy_fence(runtime.current->id);
  runtime.current->fenced_epoch = block.epoch;
  runtime.proxy_fenced[block.number] = block.epoch;
  note_proxy_fence(*runtime.current);
  if (block.clocks.exhausted()) next_epoch(block);
  refresh_stamp();
}

}  // extern "C"
