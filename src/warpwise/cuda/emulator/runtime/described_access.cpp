// The accesses that a stamp or the running thread made, as the sides of a report.
#include "described_access.h"

#include <stdio.h>

#include "synchronise.h"

namespace ww {
namespace {

// Among strong accesses, only the atomics of the headers have a line; volatile accesses come from the compiler's hooks.
Action action_of(bool write, bool strong, bool has_line) {
  if (strong) return has_line ? kAtomic : write ? kVolatileWrite : kVolatileRead;
  return write ? kWrite : kRead;
}

Action action_of(bool write, uint64_t stamp) {
  if ((stamp & kClockBits) == kInFlight && write) return kAsyncCopy;
  return action_of(write, stamp & kStrong, stamp & kLineFlag);
}

// Attributes an agent's access to the thread that issued it, or to the first one of its warpgroup; see clocks.h.
void describe_agent(Side& side, unsigned agent, bool wrote) {
  const Block& block = *runtime.block;
  unsigned thread = (agent - block.clocks.first_agent()) * kWarpgroupThreads;
  const char* what = "wgmma";
  if (agent >= block.clocks.first_agent() + kWgmmaAgents) {
    thread = 0;
    what = wrote ? "bulk load" : "bulk store";
    for (const auto& [owner, its] : block.store_agent)
      if (its == agent) thread = owner;
  }
  copy_index(side.thread, runtime.thread_index[thread]);
  snprintf(side.label, sizeof side.label, "%s", what);
}

}  // namespace

void describe_stamp(Side& side, uint64_t stamp, bool wrote) {
  copy_index(side.block, block_index_of(epoch_of(stamp)));
  if (runtime.block && runtime.block->clocks.is_agent(thread_of(stamp)))
    describe_agent(side, thread_of(stamp), wrote);
  else if (thread_of(stamp) < runtime.threads)
    copy_index(side.thread, runtime.thread_index[thread_of(stamp)]);
  side.action = action_of(wrote, stamp);
  if (stamp & kLineFlag)
    side.line = place_of(stamp);
  else if (stamp & kLocationBits)
    side.pc = runtime.text + (stamp & kLocationBits);
}

bool describe_last_write(const Slot& slot, Address address, Side& side) {
  const uint64_t stamp = slot.cells ? cell_of(slot, address)->write : 0;
  if (epoch_of(stamp) < runtime.epoch_floor[0]) return false;
  describe_stamp(side, stamp, true);
  return true;
}

Report race_report(const Slot& slot, const AccessInfo& access, Address word, bool write, uint64_t other,
                   bool other_wrote) {
  Report report = new_report(kDataRace, access.pc, access.line);
  const Address first = access.address > word ? access.address : word;
  describe(report, slot, first);
  report.access.action = access.async_copy ? kAsyncCopy : action_of(write, access.strong, access.line > 0);
  report.access_bytes = access.bytes;
  report.has_other = 1;
  describe_stamp(report.other, other, other_wrote);
  const bool in_flight = (other & kClockBits) == kInFlight && other_wrote;
  if (!in_flight) explain_race(other, report.hint, sizeof report.hint);
  if ((in_flight || (access.async_copy && write && !*report.hint)) && epoch_of(other) == runtime.epoch &&
      thread_of(other) != runtime.current->id && !runtime.clocks_used)
    snprintf(report.hint, sizeof report.hint,
             "no __syncthreads() separates the two: one is missing before the copy, or after a wait for it");
  return report;
}

}  // namespace ww
