// Sets of readers of a word beyond the first, which its cell holds. In one epoch of a block a set has at most one
// reader for each warp: the latest reader with which all earlier readers of the warp are ordered. A cell holds the
// number of its set. Words with the same readers share a set. A set caches its successor, the set with one more reader,
// so adding this reader again takes one comparison. Readers of other blocks are stored by word, and only if blocks
// synchronise through memory.
#pragma once
#include <stdint.h>

#include <unordered_map>
#include <vector>

namespace ww {

// thread (10 bits), clock (11), mask of bytes (4), location (18)
using Reader = uint64_t;
constexpr uint32_t kNoReaders = 0, kMaxReaderSets = (1u << 20) - 1;

class ReaderSets {
 public:
  // Returns the cached successor of `set` with `reader`, or 0. `reader`: as in Reader, without its location.
  uint32_t remembered(uint32_t set, uint32_t reader) const {
    const Node& node = nodes_[set];
    return node.next_reader == reader ? node.next : 0;
  }
  uint32_t add(uint32_t set, uint64_t stamp, uint32_t mask);  // of the running thread
  // The readers of a set are readers(set)[0] to [count(set) - 1].
  const Reader* readers(uint32_t set) const { return readers_.data() + nodes_[set].begin; }
  uint32_t count(uint32_t set) const { return nodes_[set].count; }
  void clear();

 private:
  struct Node {
    uint32_t begin = 0, count = 0, next_reader = 0, next = 0;
  };
  uint32_t new_set(uint32_t set, Reader mine, uint32_t replaced);

  std::vector<Node> nodes_ = std::vector<Node>(1);  // the first is the empty set
  std::vector<Reader> readers_;
  std::unordered_map<uint64_t, uint32_t> from_empty_;  // by reader: the set of one
};

uint64_t stamp_of(Reader reader);  // in the running block's epoch
uint32_t mask_of_reader(Reader reader);

// Readers in other blocks than that of the cell's reader, by word / 4.
void add_foreign_reader(uint64_t word, uint64_t stamp, uint32_t mask, bool written);
// The stamp of a reader that is not ordered before the running thread's write, or 0.
uint64_t foreign_race(uint64_t word, uint32_t mask, bool shared);
bool any_foreign_readers();
void drop_foreign_readers(uint64_t word);
void forget_foreign_readers();

}  // namespace ww
