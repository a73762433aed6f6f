#include "clocks.h"

#include <string.h>

#include <algorithm>

namespace ww {

void Clocks::start(unsigned threads) {
  threads_ = threads;
  used_ = true;
  reset();
}

void Clocks::reset() {
  if (!used_) return;
  std::fill_n(own_, threads_, uint16_t{1});
  std::fill_n(fenced_, threads_, uint16_t{0});
  memset(lanes_, 0, sizeof lanes_[0] * threads_);
  used_ = is_wide_ = exhausted_ = false;
}

bool Clocks::knows(unsigned thread, unsigned other, uint32_t count) const {
  if (!used_) return false;
  if (is_wide_) return row(thread)[other] >= count;
  return (thread >> 5) == (other >> 5) && lanes_[thread][other & 31] >= count;
}

void Clocks::tick(unsigned thread) {
  if (++own_[thread] >= kClockLimit) exhausted_ = true;
}

void Clocks::fence(unsigned thread) {
  used_ = true;
  fenced_[thread] = own_[thread];
  tick(thread);
}

void Clocks::widen() {
  if (!wide_) wide_.reset(new uint16_t[size_t{kMaxThreads} * kMaxThreads]);
  for (unsigned thread = 0; thread < threads_; thread++) {
    memset(row(thread), 0, threads_ * sizeof(uint16_t));
    memcpy(row(thread) + (thread & ~31u), lanes_[thread], sizeof lanes_[thread]);
  }
  used_ = is_wide_ = true;
}

void Clocks::sync_warp(unsigned first, uint32_t lanes) {
  used_ = true;
  uint16_t joined[kMaxThreads];
  const unsigned width = is_wide_ ? threads_ : 32;
  memset(joined, 0, width * sizeof(uint16_t));
  const unsigned own_at = is_wide_ ? first : 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
    const uint16_t* known = is_wide_ ? row(first + lane) : lanes_[first + lane];
    for (unsigned i = 0; i < width; i++) joined[i] = std::max(joined[i], known[i]);
    joined[own_at + lane] = std::max(joined[own_at + lane], own_[first + lane]);
  }
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const unsigned lane = static_cast<unsigned>(__builtin_ctz(rest));
    memcpy(is_wide_ ? row(first + lane) : lanes_[first + lane], joined, width * sizeof(uint16_t));
    tick(first + lane);
  }
}

void Clocks::release(unsigned thread, Counts& into) {
  if (!is_wide_) widen();
  if (into.size() < threads_) into.resize(threads_, 0);
  const uint16_t* known = row(thread);
  for (unsigned i = 0; i < threads_; i++) into[i] = std::max(into[i], known[i]);
  into[thread] = std::max(into[thread], own_[thread]);
  tick(thread);
}

void Clocks::acquire(unsigned thread, const Counts& from) {
  if (from.empty()) return;
  if (!is_wide_) widen();
  uint16_t* known = row(thread);
  for (unsigned i = 0; i < threads_; i++) known[i] = std::max(known[i], from[i]);
}

}  // namespace ww
