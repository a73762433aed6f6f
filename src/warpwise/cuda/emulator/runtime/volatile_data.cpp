// Races of volatile data; see volatile_data.h.
#include "volatile_data.h"

#include "synchronise.h"

namespace ww {
namespace {

struct VolatileWord {
  Address lock = 0;                // under which block `holder` has accessed the word
  uint64_t holder = 0;             // its instance
  uint64_t outside = 0;            // its last write without the lock
  Address section_lock = 0;        // of the last access in a critical section, `section`
  uint64_t section = 0;            // all stamps without location
  uint64_t before = 0, again = 0;  // reads of a thread before and after a release
};
struct Suspect {
  uint64_t reader;
  Report report;
};

constexpr size_t kMaxSection = 64;
std::unordered_map<Address, VolatileWord> volatile_words;  // by address / 4
std::unordered_map<Address, Suspect> suspects;             // by address / 4

uint64_t when(uint64_t stamp) { return stamp >> 19; }  // without strength and location

VolatileWord* find(Address word) {
  if (volatile_words.empty()) return nullptr;
  const auto found = volatile_words.find(word >> 2);
  return found == volatile_words.end() ? nullptr : &found->second;
}

}  // namespace

bool is_volatile(const AccessInfo& access) { return access.strong && access.line <= 0; }

bool races_with_write(const AccessInfo& access, Address word, bool write, uint64_t other) {
  if (!is_volatile(access) || !(other & kStrong)) return false;
  if (write) return !has_observed(word, other);
  if (is_withheld(other) && !(other & kLineFlag)) return true;
  const VolatileWord* known = find(word);
  return known && known->outside && known->outside == when(other) && known->lock == runtime.current->lock;
}

bool races_with_read(Address word, uint64_t read) {
  const VolatileWord* known = find(word);
  return known && known->lock && !runtime.current->lock && known->holder == runtime.block->instance &&
         known->section == when(read) && known->section_lock == known->lock;
}

void note_reread(Address word, uint64_t before, uint64_t again) {
  VolatileWord& known = volatile_words[word >> 2];
  if (when(known.again) != when(before)) known.before = before;  // else the first read of several
  known.again = again;
}

bool is_handed_over(Address word, uint64_t read) {
  const VolatileWord* known = find(word);
  return known && known->again && when(known->again) == when(read) && is_known(known->before, true);
}

void suspect(Address word, uint64_t read, const Report& report) { suspects[word >> 2] = {read, report}; }

void note_volatile(Address address, bool write) {
  Thread& thread = *runtime.current;
  if (!write && !suspects.empty()) {
    const auto found = suspects.find(address >> 2);
    if (found != suspects.end() && block_number_of(epoch_of(found->second.reader)) == runtime.block->number)
      suspects.erase(found);
  }
  if (thread.lock && thread.lock >> 2 != address >> 2) {
    if (thread.section.size() < kMaxSection) thread.section.push_back(address);
    VolatileWord& known = volatile_words[address >> 2];
    known.section_lock = thread.lock;
    known.section = when(runtime.stamp);
  } else if (write) {
    VolatileWord* known = find(address);
    if (known && known->holder == runtime.block->instance) known->outside = when(runtime.stamp);
  }
}

void begin_section(Thread& thread, Address lock) {
  thread.lock = lock;
  thread.section.clear();
}

void end_section(Thread& thread) {
  for (const Address address : thread.section) {
    VolatileWord& known = volatile_words[address >> 2];
    known.lock = thread.lock;
    known.holder = thread.block->instance;
    known.outside = 0;
  }
  thread.section.clear();
  thread.lock = 0;
}

bool follows(uint64_t write, uint64_t other) {
  const uint32_t epoch = epoch_of(write), before = epoch_of(other);
  if (!epoch || thread_of(write) != thread_of(other) || block_number_of(epoch) != block_number_of(before)) return false;
  return epoch > before || (epoch == before && clock_of(write) >= clock_of(other));
}

uint64_t freed_lock(const Thread& thread, uint64_t other) {
  const Block& block = *thread.block;
  if (!thread.lock || thread_of(other) >= block.threads) return 0;
  // A word that a thread changes only by atomicCAS is not a lock but, for example, a sum: nothing clears thread.lock.
  if (block.thread[thread_of(other)].lock == thread.lock) return 0;
  const auto write = block.observed_writes.find(thread.lock & ~Address{3});
  return write != block.observed_writes.end() && follows(write->second, other) ? write->second : 0;
}

void report_suspects() {
  for (const auto& [word, each] : suspects) add_report(each.report);
  suspects.clear();
}

void forget_volatile() {
  volatile_words.clear();
  suspects.clear();
}

}  // namespace ww
