// Vector clocks: happens-before among the threads of a block within one epoch, that is, between two __syncthreads().
// They track synchronisation among some of the threads: __syncwarp, named barriers, cuda::barrier, barriers of tiles.
//
// Each thread's clock counts its release operations. An access is stamped with (thread, clock). It happens before an
// access by another thread if that thread's vector clock holds at least this value for the first thread.
// __syncthreads() orders all accesses and resets the clocks. A thread's vector clock has 32 entries, one for each lane
// of its warp; the first synchronisation across warps in an epoch widens it to the whole block.
#pragma once
#include <stdint.h>

#include <memory>
#include <vector>

namespace ww {

constexpr unsigned kMaxThreads = 1024;
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
  void release(unsigned thread, VectorClock& into);
  void acquire(unsigned thread, const VectorClock& from);
  // Records a memory fence: a flag that the thread sets afterwards publishes its earlier writes.
  void fence(unsigned thread);
  bool fenced(unsigned thread, uint32_t count) const { return count <= fenced_[thread]; }
  // True once a clock no longer fits in a stamp; the block must then start a new epoch.
  bool exhausted() const { return exhausted_; }

 private:
  uint16_t* row(unsigned thread) { return block_.get() + size_t{thread} * kMaxThreads; }
  const uint16_t* row(unsigned thread) const { return block_.get() + size_t{thread} * kMaxThreads; }
  void widen_to_block();
  void tick(unsigned thread);

  unsigned threads_ = 0;
  bool used_ = false, is_block_wide_ = false, exhausted_ = false;
  uint16_t count_[kMaxThreads], fenced_[kMaxThreads];
  uint16_t warp_[kMaxThreads][32];
  std::unique_ptr<uint16_t[]> block_;
};

}  // namespace ww
