// Bulk copies (TMA). A load reads its source when it is issued and writes shared memory when a thread waits at its
// mbarrier; an access of the destination in between is a data race with the copy. A store reads shared memory and
// writes global memory when it is issued; until a thread waits for its group, a write of its source and any access of
// its destination is a data race. Agents, extra columns of the vector clocks (clocks.h), represent the copies.
#include <string.h>

#include <algorithm>

#include "access.h"

namespace ww {

namespace {

// The agent of the loads that complete at a barrier; 0 if the block has no agents.
unsigned load_agent(Block& block, Barrier& barrier) {
  if (!block.clocks.has_agents()) return 0;
  if (!barrier.agent)
    barrier.agent = block.clocks.first_agent() + kWgmmaAgents + kStoreAgents + block.load_agents++ % kLoadAgents;
  return barrier.agent;
}

// The agent of a thread's stores; 0 if the block has no agents, or if other threads use all of them.
unsigned store_agent(Block& block, unsigned thread) {
  if (!block.clocks.has_agents()) return 0;
  const auto found = block.store_agent.find(thread);
  if (found != block.store_agent.end()) return found->second;
  if (block.store_agents == kStoreAgents) return 0;
  return block.store_agent[thread] = block.clocks.first_agent() + kWgmmaAgents + block.store_agents++;
}

// Reports a bulk copy that completes at an mbarrier whose initialisation is not visible to the async proxy.
void check_initialisation(Barrier& barrier, int line) {
  if (barrier.fenced) return;
  barrier.fenced = true;
  Report report = new_report(kUndefinedBehaviour, 0, line);
  set_message(report,
              "no fence makes the initialisation of the bulk copy's mbarrier visible to the async proxy: execute "
              "fence.mbarrier_init or fence.proxy.async after mbarrier.init");
  add_report(report);
}

}  // namespace

void check_pending_stores(Thread& thread) {
  if (!runtime.checks.any || thread.bulk_waited >= thread.bulk_last) return;
  Report report = new_report(kUndefinedBehaviour, thread.bulk_place);
  set_message(report,
              "the thread exits while its bulk copies may still read shared memory: wait for them by "
              "cp.async.bulk.wait_group.read");
  add_report(report);
}

void deliver(Barrier& barrier, const void* object) {
  if (barrier.incoming.empty()) return;
  Block& block = *barrier.owner;
  uint64_t stamp = make_stamp(block.epoch, runtime.current->id, 1);
  if (runtime.checks.races) {
    if (barrier.arrived.size() <= block.rank) barrier.arrived.resize(block.rank + 1);
    if (const unsigned agent = load_agent(block, barrier)) {
      const uint32_t clock = block.clocks.tick_agent(agent);
      Seen& seen = barrier.arrived[block.rank];
      seen.begin(block.epoch);
      if (seen.clock.size() <= agent) seen.clock.resize(agent + 1, 0);
      seen.clock[agent] = static_cast<uint16_t>(clock);
      stamp = make_stamp(block.epoch, agent, clock);
    }
  }
  for (const BulkCopy& copy : barrier.incoming) {
    if (copy.combine)
      copy.combine(reinterpret_cast<char*>(copy.to), copy.data.data(), copy.data.size());
    else
      memcpy(reinterpret_cast<void*>(copy.to), copy.data.data(), copy.data.size());
    Slot* slot = slot_of(copy.to);
    if (slot && slot->cells) mark_completed(*slot, copy.to, copy.data.size(), stamp);
    barrier.bytes -= static_cast<int64_t>(copy.data.size());
  }
  barrier.incoming.clear();
  if (!barrier.pending && !barrier.bytes) complete_phase(barrier, object);
  if (block.clocks.exhausted()) next_epoch(block);
}

// Issues a load. With `combine`, it is a reduction; reductions are strong accesses, so they do not race with each
// other.
static void load(void* to, const void* data, size_t bytes, unsigned swizzle, void* object, int line, Address pc,
                 ww_combine combine) {
  const Address target = reinterpret_cast<Address>(to);
  Barrier& barrier = initialised_barrier(object, "a bulk copy", line);
  if (runtime.checks.any) {
    check_initialisation(barrier, line);
    access_range(target, bytes, true, pc, combine ? kCopyAccess | kStrongAccess : kCopyAccess, line);
  }
  resolve_pending_store();
  Slot* slot = slot_of(target);
  if (slot && slot->cells)
    mark_in_flight(*slot, target, bytes, location_of(pc, line, combine != nullptr) | (combine ? kStrong : 0));
  for (Address at = target & ~Address{127}; at < target + bytes; at += 128)
    barrier.owner->swizzles[at] = static_cast<uint8_t>(swizzle);
  const char* from = static_cast<const char*>(data);
  barrier.incoming.push_back({target, std::vector<char>(from, from + bytes), std::move(combine)});
  if (barrier.waiting) deliver(barrier, object);
}

}  // namespace ww

using namespace ww;

void ww_bulk_reduce(void* to, const void* data, size_t bytes, void* object, int line, ww_combine combine) {
  load(to, data, bytes, 0, object, line, reinterpret_cast<Address>(__builtin_return_address(0)), std::move(combine));
}

extern "C" {

void ww_bulk_load(void* to, const void* data, size_t bytes, unsigned swizzle, void* object, int line) {
  load(to, data, bytes, swizzle, object, line, reinterpret_cast<Address>(__builtin_return_address(0)), nullptr);
}

unsigned ww_swizzle_of(const void* shared) {
  const auto found = runtime.block->swizzles.find(reinterpret_cast<Address>(shared) & ~Address{127});
  return found == runtime.block->swizzles.end() ? ~0u : found->second;
}

void ww_bulk_source(const void* from, size_t bytes, int line) {
  if (!runtime.checks.any) return;
  const Address pc = reinterpret_cast<Address>(__builtin_return_address(0)), at = reinterpret_cast<Address>(from);
  if (runtime.checks.races) check_global_proxy_fence(at, bytes, pc, line);
  access_range(at, bytes, false, pc, kCopyAccess, line);
}

void ww_async_read(const void* from, size_t bytes, const char* what, int line) {
  if (!runtime.checks.any) return;
  const Address pc = reinterpret_cast<Address>(__builtin_return_address(0)), at = reinterpret_cast<Address>(from);
  Block& block = *runtime.block;
  Thread& thread = *runtime.current;
  const bool is_wgmma = what[0] == 'w';
  if (runtime.budget < static_cast<int64_t>(bytes / 8 + 2)) budget_exhausted();  // before the stamp is an agent's
  if (runtime.checks.races && !is_wgmma) block.clocks.use_agents();
  if (runtime.checks.races && block.clocks.has_agents()) {
    unsigned agent = block.clocks.first_agent() + thread.id / kWarpgroupThreads;
    uint32_t group = thread.wgmma_group - block.warpgroups[thread.id / kWarpgroupThreads].group + 1;
    if (!is_wgmma) {
      thread.bulk_last = thread.bulk_group + 1;
      thread.bulk_place = runtime.ptx;
      agent = store_agent(block, thread.id);
      group = thread.bulk_group - thread.bulk_base + 1;
    }
    if (agent) runtime.stamp = make_stamp(runtime.epoch, agent, std::max(1u, group));
    check_proxy_fence(at, bytes, pc, what, line);
  }
  access_range(at, bytes, false, pc, kPlainAccess, line);
  refresh_stamp();
}

void ww_copy_source(const void* from, size_t bytes, int line) {
  const Address pc = reinterpret_cast<Address>(__builtin_return_address(0)), at = reinterpret_cast<Address>(from);
  if (runtime.checks.races) runtime.block->clocks.use_agents();
  if (runtime.checks.races && runtime.block->clocks.has_agents()) check_proxy_fence(at, bytes, pc, "a bulk copy", line);
  if (runtime.checks.any) access_range(at, bytes, false, pc, kPlainAccess, line);
}

void ww_bulk_store(void* to, const void* data, size_t bytes, int line) {
  const Address pc = reinterpret_cast<Address>(__builtin_return_address(0));
  Slot* slot = slot_of(reinterpret_cast<Address>(to));
  const Address start = reinterpret_cast<Address>(to);
  if (slot && start >= slot->start && start + bytes <= slot->start + slot->bytes && runtime.checks.any) {
    // Two writes of the same value are benign: the units of 16 bytes at both ends that memory already has are left out.
    auto *there = static_cast<const char*>(to), *made = static_cast<const char*>(data);
    const size_t unit = bytes % 16 ? bytes : 16;
    size_t same = 0;
    while (same < bytes && !memcmp(there + same, made + same, unit)) same += unit;
    while (bytes > same && !memcmp(there + bytes - unit, made + bytes - unit, unit)) bytes -= unit;
    if (same == bytes) return;
    to = static_cast<char*>(to) + same, data = made + same, bytes -= same;
  }
  const Address target = reinterpret_cast<Address>(to);
  if (runtime.checks.any) access_range(target, bytes, true, pc, kCopyAccess, line);
  resolve_pending_store();
  memcpy(to, data, bytes);
  if (slot && slot->cells) mark_in_flight(*slot, target, bytes, location_of(pc, line));
  runtime.current->stores.push_back({target, bytes, runtime.current->bulk_group});
}

void ww_bulk_commit() {
  Thread& thread = *runtime.current;
  Block& block = *runtime.block;
  const uint32_t group = ++thread.bulk_group - thread.bulk_base;
  const unsigned agent = store_agent(block, thread.id);
  if (agent) block.clocks.advance_agent(agent, group + 1);
  if (block.clocks.exhausted()) next_epoch(block);
  refresh_stamp();
}

void ww_bulk_wait(unsigned still_pending, int only_reads) {
  Thread& thread = *runtime.current;
  Block& block = *runtime.block;
  resolve_pending_store();
  const uint32_t done = thread.bulk_group > still_pending ? thread.bulk_group - still_pending : 0;
  if (block.clocks.has_agents() && done > thread.bulk_base)
    if (const unsigned agent = store_agent(block, thread.id))
      block.clocks.acquire_agent(thread.id, agent, done - thread.bulk_base);
  refresh_stamp();
  thread.bulk_waited = std::max(thread.bulk_waited, done);
  if (only_reads) return;
  for (const BulkStore& store : thread.stores)
    if (Slot* slot = slot_of(store.to); slot && slot->cells && store.group < done)
      mark_completed(*slot, store.to, store.bytes, runtime.stamp);
  thread.stores.erase(std::remove_if(thread.stores.begin(), thread.stores.end(),
                                     [&](const BulkStore& store) { return store.group < done; }),
                      thread.stores.end());
}

void* ww_argument_address(uint64_t host) {
  return reinterpret_cast<void*>(slot_of(host) ? host : device_address(host));  // kernels write addresses of the copy
}

}  // extern "C"
