// What is ordered between two __syncthreads: vector clocks of a block's threads, for __syncwarp, named barriers,
// cuda::barrier and group barriers, which order some of the threads only.
//
// Each thread counts its releases. An access is stamped (thread, count); it is ordered before another thread's access
// if that thread has learned, by a synchronisation, of a count at least as high. __syncthreads orders everything and
// starts anew. Without a synchronisation across warps, a thread knows of its own warp's lanes only (32 counts);
// the first one in an epoch widens every thread's row to the whole block.
#pragma once
#include <stdint.h>

#include <memory>
#include <vector>

namespace ww {

constexpr unsigned kMaxThreads = 1024;
constexpr uint32_t kClockLimit = 0x7fe;  // 11 bits in a stamp; the highest means "in flight"

// The counts that a barrier has collected for those who wait at it.
using Counts = std::vector<uint16_t>;

class Clocks {
 public:
  void start(unsigned threads);  // a block begins
  void reset();                  // everything so far is ordered
  bool used() const { return used_; }
  uint32_t now(unsigned thread) const { return own_[thread]; }
  // Whether `thread` knows of what `other` did at `count`.
  bool knows(unsigned thread, unsigned other, uint32_t count) const;

  void sync_warp(unsigned first, uint32_t lanes);  // lanes of the warp that begins at thread `first` meet
  void release(unsigned thread, Counts& into);
  void acquire(unsigned thread, const Counts& from);
  // Notes a fence: what the thread did so far can be published by a flag.
  void fence(unsigned thread);
  bool fenced(unsigned thread, uint32_t count) const { return count <= fenced_[thread]; }
  // True once a count no longer fits a stamp: the block's epoch must then advance.
  bool exhausted() const { return exhausted_; }

 private:
  uint16_t* row(unsigned thread) { return wide_.get() + size_t{thread} * kMaxThreads; }
  const uint16_t* row(unsigned thread) const { return wide_.get() + size_t{thread} * kMaxThreads; }
  void widen();
  void tick(unsigned thread);

  unsigned threads_ = 0;
  bool used_ = false, is_wide_ = false, exhausted_ = false;
  uint16_t own_[kMaxThreads], fenced_[kMaxThreads];
  uint16_t lanes_[kMaxThreads][32];
  std::unique_ptr<uint16_t[]> wide_;
};

}  // namespace ww
