// Sets of readers; see readers.h.
#include "readers.h"

#include <algorithm>

#include "shadow.h"

namespace ww {
namespace {

constexpr int kMaskAt = 18, kKeyAt = 22;
constexpr size_t kMaxBlocks = 16, kMaxForeignWords = size_t{1} << 16;

struct ForeignReader {
  uint64_t stamp;
  uint32_t mask;
};
std::unordered_map<uint64_t, std::vector<ForeignReader>> foreign;

Reader reader_of(uint64_t stamp, uint32_t mask) {
  return (stamp >> 19 & 0x1fffff) << kKeyAt | uint64_t{mask} << kMaskAt | (stamp & kLocationBits);
}
unsigned thread_of_reader(Reader reader) { return static_cast<unsigned>(reader >> 33) & 0x3ff; }

}  // namespace

// The set with `mine` in place of the reader at `replaced`, or added if there is none.
uint32_t ReaderSets::new_set(uint32_t set, Reader mine, uint32_t replaced) {
  if (nodes_.size() > kMaxReaderSets) return set;
  const Node from = nodes_[set];
  const uint32_t begin = static_cast<uint32_t>(readers_.size()), count = from.count + (replaced == from.count);
  readers_.resize(begin + count);
  std::copy_n(readers_.data() + from.begin, from.count, readers_.data() + begin);
  readers_[begin + replaced] = mine;
  nodes_.push_back({begin, count, 0, 0});
  return static_cast<uint32_t>(nodes_.size() - 1);
}

uint32_t ReaderSets::add(uint32_t set, uint64_t stamp, uint32_t mask) {
  Reader mine = reader_of(stamp, mask);
  const uint32_t key = static_cast<uint32_t>(mine >> kMaskAt);
  if (set == kNoReaders) {
    uint32_t& first = from_empty_[key];
    if (!first) first = new_set(set, mine, 0);
    nodes_[kNoReaders].next_reader = key;
    nodes_[kNoReaders].next = first;
    return first;
  }
  uint32_t at = 0;
  while (at < count(set) && thread_of_reader(readers(set)[at]) / 32 != thread_of(stamp) / 32) at++;
  uint32_t next = set;
  if (at == count(set)) {
    next = new_set(set, mine, at);
  } else {
    const Reader known = readers(set)[at];
    const uint64_t its = stamp_of(known);
    if (same_thread_and_epoch(its, stamp)) {
      if (clock_of(its) == clock_of(stamp)) mine |= known & uint64_t{0xf} << kMaskAt;
      if (mine >> kMaskAt != known >> kMaskAt) next = new_set(set, mine, at);
    } else if (!unordered(its, false)) {
      next = new_set(set, mine, at);
    }
  }
  nodes_[set].next_reader = key;
  nodes_[set].next = next;
  return next;
}

void ReaderSets::clear() {
  if (nodes_.size() == 1) return;
  nodes_.resize(1);
  nodes_[kNoReaders] = {};
  readers_.clear();
  from_empty_.clear();
}

uint64_t stamp_of(Reader reader) {
  return uint64_t{runtime.epoch} << 40 | (reader >> kKeyAt & 0x1fffff) << 19 | (reader & kLocationBits);
}
uint32_t mask_of_reader(Reader reader) { return static_cast<uint32_t>(reader >> kMaskAt) & 0xf; }

bool any_foreign_readers() { return !foreign.empty(); }

void add_foreign_reader(uint64_t word, uint64_t stamp, uint32_t mask, bool written) {
  auto found = foreign.find(word);
  if (found == foreign.end()) {
    if (!written && foreign.size() >= kMaxForeignWords) return;
    found = foreign.emplace(word, std::vector<ForeignReader>()).first;
  }
  std::vector<ForeignReader>& readers = found->second;
  const uint64_t block = runtime.block->number;
  for (ForeignReader& reader : readers) {
    if (block_number_of(epoch_of(reader.stamp)) != block) continue;
    if (same_thread_and_epoch(reader.stamp, stamp))
      reader = {stamp, reader.mask | mask};
    else if (!unordered(reader.stamp, false))
      reader = {stamp, mask};
    return;
  }
  if (readers.size() < kMaxBlocks) readers.push_back({stamp, mask});
}

uint64_t foreign_race(uint64_t word, uint32_t mask, bool shared) {
  const auto found = foreign.find(word);
  if (found == foreign.end()) return 0;
  for (const ForeignReader& reader : found->second)
    if ((reader.mask & mask) && !same_thread_and_epoch(reader.stamp, runtime.stamp) && unordered(reader.stamp, shared))
      return reader.stamp;
  return 0;
}

void drop_foreign_readers(uint64_t word) { foreign.erase(word); }
void forget_foreign_readers() { foreign.clear(); }

}  // namespace ww
