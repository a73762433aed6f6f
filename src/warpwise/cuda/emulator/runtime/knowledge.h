// The accesses, in all blocks, that happen before a thread's next access: a persistent map from block numbers to
// extents. Maps share their nodes: a copy is a pointer, and a join visits only the nodes in which the two maps differ.
#pragma once
#include <stdint.h>

#include <memory>
#include <vector>

#include "clocks.h"

namespace ww {

// The accesses of a block in epochs before `epoch`, and in `epoch` those of each thread up to its entry in `clock`.
struct Extent {
  uint32_t epoch;
  VectorClock clock;
  bool contains(uint32_t other, unsigned thread, uint32_t count) const {
    return other < epoch || (other == epoch && thread < clock.size() && clock[thread] >= count);
  }
};

struct KnowledgeNode;
using Knowledge = std::shared_ptr<const KnowledgeNode>;  // null: an empty map

// A node has kFanOut children, or an extent at the lowest level.
struct KnowledgeNode {
  static constexpr unsigned kBits = 4, kFanOut = 1u << kBits;
  std::vector<Knowledge> children;
  Extent extent;
};

void start_knowledge(uint64_t blocks);  // at a launch: the depth of the maps
Knowledge join(const Knowledge& a, const Knowledge& b);
const Extent* find_extent(const Knowledge& map, uint64_t block);
Knowledge with_extent(const Knowledge& map, uint64_t block, Extent extent);  // joined with the block's own, if any

}  // namespace ww
