// Vector clocks: happens-before among the threads of a block within one epoch, that is, between two __syncthreads().
// They track synchronisation among some of the threads: __syncwarp, named barriers, cuda::barrier, barriers of tiles.
//
// Each thread's clock counts its release operations. An access is stamped with (thread, clock). It happens before an
// access by another thread if that thread's vector clock holds at least this value for the first thread.
// __syncthreads() orders all accesses and resets the clocks. A thread's vector clock has 32 entries, one for each lane
// of its warp; the first synchronisation across warps in an epoch widens it to the whole block.
//
// Agents represent the operations of the async proxy: one agent for the wgmma groups of a warpgroup, one for the bulk
// stores of a thread, one for the bulk loads of an mbarrier. Their columns in the vector clocks follow those of the
// threads. A barrier of the block does not order an agent's operations, so the clocks of agents continue across epochs.
// With agents, a second clock of each thread covers the accesses that a proxy fence makes visible to the async proxy.
#pragma once
#include <stdint.h>

#include <array>
#include <memory>
#include <vector>

namespace ww {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kWgmmaAgents = 8, kStoreAgents = 16, kLoadAgents = 16;
constexpr unsigned kAgents = kWgmmaAgents + kStoreAgents + kLoadAgents;
constexpr uint32_t kClockLimit = 0x7fe;  // a stamp has 11 bits for the clock; the highest value marks a copy in flight

// The join of the vector clocks of the threads that have arrived at a barrier; one entry per thread.
using VectorClock = std::vector<uint16_t>;

class VectorClocks {
 public:
  void start(unsigned threads);  // at the start of a block
  void reset();                  // at a barrier of the whole block
  bool used() const { return used_; }
  uint32_t now(unsigned thread) const { return count_[thread]; }
  // True if what `other` did at clock `count` happens before the next operation of `thread`.
  bool is_ordered(unsigned thread, unsigned other, uint32_t count) const;

  // Joins the clocks of `lanes` of the warp that starts at thread `first`.
  void sync_warp(unsigned first, uint32_t lanes);
  // `fenced`: the accesses that a proxy fence follows; see the agents.
  void release(unsigned thread, VectorClock& into, VectorClock& fenced);
  void acquire(unsigned thread, const VectorClock& from, const VectorClock& fenced);
  // Adds the columns of the agents, from `first_agent()` on.
  void use_agents();
  bool has_agents() const { return agents_; }
  bool is_agent(unsigned thread) const { return agents_ && thread >= first_agent(); }
  unsigned first_agent() const { return (threads_ + 31) & ~31u; }  // not in a thread's warp
  bool exhausted_agents() const;  // a clock no longer fits in a stamp: call renew_agents()
  void renew_agents();
  uint32_t tick_agent(unsigned agent);                     // returns its new clock
  uint32_t advance_agent(unsigned agent, uint32_t clock);  // to `clock` at least
  void acquire_agent(unsigned thread, unsigned agent, uint32_t clock);
  void proxy_fence(unsigned thread);
  bool proxy_fenced(unsigned thread, unsigned other, uint32_t count) const;
  VectorClock all_proxy_fenced() const;  // joined over the threads
  // Records a memory fence of scope 0 (block) or 1 (device): later releases of the thread include all that precedes it.
  void fence(unsigned thread, int scope);
  // The last fences of a thread by scope, and their restoration: a release of one word is a fence for this word only.
  using Fenced = std::array<uint16_t, 2>;
  Fenced fenced(unsigned thread) const { return {fenced_[0][thread], fenced_[1][thread]}; }
  void restore_fenced(unsigned thread, const Fenced& fenced) {
    for (size_t scope = 0; scope < 2; scope++) fenced_[scope][thread] = fenced[scope];
  }
  // Sets `into` to what `thread` releases with this scope; returns false if it releases nothing. all_released: the same
  // for all threads of the block.
  bool released(unsigned thread, int scope, VectorClock& into) const;
  bool all_released(int scope, VectorClock& into) const;
  // True once a clock no longer fits in a stamp; the block must then start a new epoch.
  bool exhausted() const { return exhausted_; }

 private:
  uint16_t* row(unsigned thread) { return block_.get() + size_t{thread} * kMaxThreads; }
  const uint16_t* row(unsigned thread) const { return block_.get() + size_t{thread} * kMaxThreads; }
  void widen_to_block();
  void tick(unsigned thread);

  uint16_t* fenced_row(unsigned thread) { return proxy_.get() + size_t{thread} * kMaxThreads; }
  const uint16_t* fenced_row(unsigned thread) const { return proxy_.get() + size_t{thread} * kMaxThreads; }

  unsigned threads_ = 0, width_ = 0;  // width_: threads and agents
  bool used_ = false, is_block_wide_ = false, exhausted_ = false, agents_ = false;
  uint16_t count_[kMaxThreads];
  uint16_t fenced_[2][kMaxThreads];  // by scope: the thread's clock at its last fence
  bool any_fenced_[2];
  uint16_t agents_done_[kAgents];  // of each agent: its clock that all threads have acquired
  uint16_t warp_[kMaxThreads][32];
  std::unique_ptr<uint16_t[]> block_, proxy_;
};

}  // namespace ww
