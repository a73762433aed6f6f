// Vector clocks of the threads of a block; see clocks.h.
#include "clocks.h"

#include <string.h>

#include <algorithm>

namespace ww {

void VectorClocks::start(unsigned threads) {
  threads_ = width_ = threads;
  used_ = true;
  agents_ = false;
  any_fenced_[0] = any_fenced_[1] = true;
  reset();
}

void VectorClocks::use_agents() {
  if (agents_ || first_agent() + kAgents > kMaxThreads) return;
  agents_ = true;
  width_ = first_agent() + kAgents;
  std::fill_n(count_ + threads_, width_ - threads_, uint16_t{1});
  std::fill_n(agents_done_, kAgents, uint16_t{0});
  if (!block_) block_.reset(new uint16_t[size_t{kMaxThreads} * kMaxThreads]);
  if (!proxy_) proxy_.reset(new uint16_t[size_t{kMaxThreads} * kMaxThreads]);
  if (is_block_wide_) {
    for (unsigned thread = 0; thread < threads_; thread++)
      memset(row(thread) + threads_, 0, (width_ - threads_) * sizeof(uint16_t));
  }
  for (unsigned thread = 0; thread < threads_; thread++) memset(fenced_row(thread), 0, width_ * sizeof(uint16_t));
  used_ = true;
}

bool VectorClocks::exhausted_agents() const {
  return *std::max_element(count_ + first_agent(), count_ + width_) >= kClockLimit - 1;
}

void VectorClocks::renew_agents() {
  std::fill_n(count_ + first_agent(), kAgents, uint16_t{1});
  std::fill_n(agents_done_, kAgents, uint16_t{0});
  if (is_block_wide_)
    for (unsigned thread = 0; thread < threads_; thread++)
      memset(row(thread) + first_agent(), 0, kAgents * sizeof(uint16_t));
}

uint32_t VectorClocks::advance_agent(unsigned agent, uint32_t clock) {
  count_[agent] = std::max(count_[agent], static_cast<uint16_t>(std::min(clock, kClockLimit)));
  if (count_[agent] >= kClockLimit - 1) exhausted_ = true;
  return count_[agent];
}

uint32_t VectorClocks::tick_agent(unsigned agent) {
  tick(agent);
  return count_[agent];
}

void VectorClocks::acquire_agent(unsigned thread, unsigned agent, uint32_t clock) {
  if (!is_block_wide_) widen_to_block();
  row(thread)[agent] = std::max(row(thread)[agent], static_cast<uint16_t>(clock));
}

void VectorClocks::proxy_fence(unsigned thread) {
  if (!has_agents()) return;
  if (!is_block_wide_) widen_to_block();
  uint16_t* fenced = fenced_row(thread);
  memcpy(fenced, row(thread), width_ * sizeof(uint16_t));
  fenced[thread] = count_[thread];
  tick(thread);
}

bool VectorClocks::proxy_fenced(unsigned thread, unsigned other, uint32_t count) const {
  return fenced_row(thread)[other] >= count;
}

VectorClock VectorClocks::all_proxy_fenced() const {
  VectorClock joined(width_, 0);
  for (unsigned thread = 0; thread < threads_; thread++)
    for (unsigned i = 0; i < width_; i++) joined[i] = std::max(joined[i], fenced_row(thread)[i]);
  return joined;
}

void VectorClocks::reset() {
  if (!used_) return;
  if (agents_ && is_block_wide_)
    for (unsigned thread = 0; thread < threads_; thread++)
      for (unsigned i = 0; i < kAgents; i++)
        agents_done_[i] = std::max(agents_done_[i], row(thread)[first_agent() + i]);
  std::fill_n(count_, threads_, uint16_t{1});
  for (int scope = 0; scope < 2; scope++)
    if (any_fenced_[scope]) std::fill_n(fenced_[scope], threads_, uint16_t{0});
  any_fenced_[0] = any_fenced_[1] = false;
  memset(warp_, 0, sizeof warp_[0] * threads_);
  if (has_agents())
    for (unsigned thread = 0; thread < threads_; thread++) memset(fenced_row(thread), 0, width_ * sizeof(uint16_t));
  used_ = has_agents();
  is_block_wide_ = exhausted_ = false;
}

bool VectorClocks::is_ordered(unsigned thread, unsigned other, uint32_t count) const {
  if (!used_) return false;
  if (!is_block_wide_ && is_agent(other)) return agents_done_[other - first_agent()] >= count;
  if (is_block_wide_) return row(thread)[other] >= count;
  return (thread >> 5) == (other >> 5) && warp_[thread][other & 31] >= count;
}

void VectorClocks::tick(unsigned thread) {
  if (++count_[thread] >= kClockLimit) exhausted_ = true;
}

void VectorClocks::fence(unsigned thread, int scope) {
  used_ = true;
  for (int each = 0; each <= scope; each++) {
    fenced_[each][thread] = count_[thread];
    any_fenced_[each] = true;
  }
  tick(thread);
}

bool VectorClocks::released(unsigned thread, int scope, VectorClock& into) const {
  if (!any_fenced_[scope]) return false;
  const uint16_t* fenced = fenced_[scope];
  const unsigned first = is_block_wide_ ? 0 : thread & ~31u,
                 last = is_block_wide_ ? threads_ : std::min(first + 32, threads_);
  into.assign(threads_, 0);
  bool any = false;
  for (unsigned other = first; other < last; other++) {
    const uint16_t seen = is_block_wide_ ? row(thread)[other] : warp_[thread][other - first];
    into[other] = other == thread ? fenced[thread] : fenced[thread] ? seen : std::min(seen, fenced[other]);
    any |= into[other] != 0;
  }
  return any;
}

bool VectorClocks::all_released(int scope, VectorClock& into) const {
  if (!any_fenced_[scope]) return false;
  const uint16_t* fenced = fenced_[scope];
  into.assign(fenced, fenced + threads_);
  for (unsigned thread = 0; thread < threads_; thread++) {
    if (!fenced[thread]) continue;
    const unsigned first = is_block_wide_ ? 0 : thread & ~31u,
                   last = is_block_wide_ ? threads_ : std::min(first + 32, threads_);
    const uint16_t* seen = is_block_wide_ ? row(thread) : warp_[thread];
    for (unsigned other = first; other < last; other++) into[other] = std::max(into[other], seen[other - first]);
  }
  return true;
}

void VectorClocks::widen_to_block() {
  if (!block_) block_.reset(new uint16_t[size_t{kMaxThreads} * kMaxThreads]);
  for (unsigned thread = 0; thread < threads_; thread++) {
    memset(row(thread), 0, width_ * sizeof(uint16_t));
    memcpy(row(thread) + (thread & ~31u), warp_[thread], sizeof warp_[thread]);
    if (agents_) memcpy(row(thread) + first_agent(), agents_done_, sizeof agents_done_);
  }
  used_ = is_block_wide_ = true;
}

void VectorClocks::sync_warp(unsigned first, uint32_t lanes) {
  used_ = true;
  uint16_t joined[kMaxThreads];
  const unsigned width = is_block_wide_ ? width_ : 32;
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
  if (!has_agents()) return;
  memset(joined, 0, width_ * sizeof(uint16_t));
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const uint16_t* fenced = fenced_row(first + static_cast<unsigned>(__builtin_ctz(rest)));
    for (unsigned i = 0; i < width_; i++) joined[i] = std::max(joined[i], fenced[i]);
  }
  for (uint32_t rest = lanes; rest; rest &= rest - 1)
    memcpy(fenced_row(first + static_cast<unsigned>(__builtin_ctz(rest))), joined, width_ * sizeof(uint16_t));
}

static void join(VectorClock& into, const uint16_t* from, unsigned width) {
  if (into.size() < width) into.resize(width, 0);
  for (unsigned i = 0; i < width; i++) into[i] = std::max(into[i], from[i]);
}

static void join(uint16_t* into, const VectorClock& from) {
  for (size_t i = 0; i < from.size(); i++) into[i] = std::max(into[i], from[i]);
}

void VectorClocks::release(unsigned thread, VectorClock& into, VectorClock& fenced) {
  if (!is_block_wide_) widen_to_block();
  join(into, row(thread), width_);
  into[thread] = std::max(into[thread], count_[thread]);
  if (has_agents()) join(fenced, fenced_row(thread), width_);
  tick(thread);
}

void VectorClocks::acquire(unsigned thread, const VectorClock& from, const VectorClock& fenced) {
  if (from.empty()) return;
  if (!is_block_wide_) widen_to_block();
  join(row(thread), from);
  if (has_agents()) join(fenced_row(thread), fenced);
}

}  // namespace ww
