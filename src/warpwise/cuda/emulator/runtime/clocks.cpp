// Vector clocks of the threads of a block; see clocks.h.
#include "clocks.h"

#include <string.h>

#include <algorithm>

namespace ww {

void VectorClocks::start(unsigned threads) {
  threads_ = threads;
  used_ = true;
  reset();
}

void VectorClocks::reset() {
  if (!used_) return;
  std::fill_n(count_, threads_, uint16_t{1});
  std::fill_n(fenced_, threads_, uint16_t{0});
  memset(warp_, 0, sizeof warp_[0] * threads_);
  used_ = is_block_wide_ = exhausted_ = false;
}

bool VectorClocks::is_ordered(unsigned thread, unsigned other, uint32_t count) const {
  if (!used_) return false;
  if (is_block_wide_) return row(thread)[other] >= count;
  return (thread >> 5) == (other >> 5) && warp_[thread][other & 31] >= count;
}

void VectorClocks::tick(unsigned thread) {
  if (++count_[thread] >= kClockLimit) exhausted_ = true;
}

void VectorClocks::fence(unsigned thread) {
  used_ = true;
  fenced_[thread] = count_[thread];
  tick(thread);
}

void VectorClocks::widen_to_block() {
  if (!block_) block_.reset(new uint16_t[size_t{kMaxThreads} * kMaxThreads]);
  for (unsigned thread = 0; thread < threads_; thread++) {
    memset(row(thread), 0, threads_ * sizeof(uint16_t));
    memcpy(row(thread) + (thread & ~31u), warp_[thread], sizeof warp_[thread]);
  }
  used_ = is_block_wide_ = true;
}

void VectorClocks::sync_warp(unsigned first, uint32_t lanes) {
  used_ = true;
  uint16_t joined[kMaxThreads];
  const unsigned width = is_block_wide_ ? threads_ : 32;
  memset(joined, 0, width * sizeof(uint16_t));
  const unsigned own_at = is_block_wide_ ? first : 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
    const uint16_t* seen = is_block_wide_ ? row(first + lane) : warp_[first + lane];
    for (unsigned i = 0; i < width; i++) joined[i] = std::max(joined[i], seen[i]);
    joined[own_at + lane] = std::max(joined[own_at + lane], count_[first + lane]);
  }
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
    memcpy(is_block_wide_ ? row(first + lane) : warp_[first + lane], joined, width * sizeof(uint16_t));
    tick(first + lane);
  }
}

void VectorClocks::release(unsigned thread, VectorClock& into) {
  if (!is_block_wide_) widen_to_block();
  if (into.size() < threads_) into.resize(threads_, 0);
  const uint16_t* seen = row(thread);
  for (unsigned i = 0; i < threads_; i++) into[i] = std::max(into[i], seen[i]);
  into[thread] = std::max(into[thread], count_[thread]);
  tick(thread);
}

void VectorClocks::acquire(unsigned thread, const VectorClock& from) {
  if (from.empty()) return;
  if (!is_block_wide_) widen_to_block();
  uint16_t* seen = row(thread);
  for (unsigned i = 0; i < threads_; i++) seen[i] = std::max(seen[i], from[i]);
}

}  // namespace ww
