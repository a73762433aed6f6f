// Persistent maps from block numbers to extents; see knowledge.h.
#include "knowledge.h"

#include <algorithm>

namespace ww {
namespace {

unsigned depth = 1;  // levels above the extents

bool covers(const VectorClock& a, const VectorClock& b) {
  for (size_t i = 0; i < b.size(); i++)
    if (b[i] > (i < a.size() ? a[i] : 0)) return false;
  return true;
}

Knowledge join_extents(const Knowledge& a, const Knowledge& b) {
  const Extent &x = a->extent, &y = b->extent;
  if (x.epoch != y.epoch) return x.epoch > y.epoch ? a : b;
  if (covers(x.clock, y.clock)) return a;
  if (covers(y.clock, x.clock)) return b;
  auto joined = std::make_shared<KnowledgeNode>();
  joined->extent = x;
  VectorClock& clock = joined->extent.clock;
  if (clock.size() < y.clock.size()) clock.resize(y.clock.size(), 0);
  for (size_t i = 0; i < y.clock.size(); i++) clock[i] = std::max(clock[i], y.clock[i]);
  return joined;
}

Knowledge join_at(const Knowledge& a, const Knowledge& b, unsigned level) {
  if (a == b || !b) return a;
  if (!a) return b;
  if (!level) return join_extents(a, b);
  bool is_a = true, is_b = true;
  Knowledge children[KnowledgeNode::kFanOut];
  for (unsigned i = 0; i < KnowledgeNode::kFanOut; i++) {
    children[i] = join_at(a->children[i], b->children[i], level - 1);
    is_a &= children[i] == a->children[i];
    is_b &= children[i] == b->children[i];
  }
  if (is_a || is_b) return is_a ? a : b;
  auto joined = std::make_shared<KnowledgeNode>();
  joined->children.assign(std::make_move_iterator(children), std::make_move_iterator(std::end(children)));
  return joined;
}

}  // namespace

void start_knowledge(uint64_t blocks) {
  for (depth = 1; depth < 16 && (blocks - 1) >> (KnowledgeNode::kBits * depth); depth++) continue;
}

Knowledge join(const Knowledge& a, const Knowledge& b) { return join_at(a, b, depth); }

const Extent* find_extent(const Knowledge& map, uint64_t block) {
  const KnowledgeNode* node = map.get();
  for (unsigned level = depth; node && level; level--)
    node = node->children[block >> (KnowledgeNode::kBits * (level - 1)) & (KnowledgeNode::kFanOut - 1)].get();
  return node ? &node->extent : nullptr;
}

Knowledge with_extent(const Knowledge& map, uint64_t block, Extent extent) {
  auto node = std::make_shared<KnowledgeNode>();
  node->extent = std::move(extent);
  Knowledge path = std::move(node);
  for (unsigned level = 1; level <= depth; level++) {
    auto above = std::make_shared<KnowledgeNode>();
    above->children.resize(KnowledgeNode::kFanOut);
    above->children[block >> (KnowledgeNode::kBits * (level - 1)) & (KnowledgeNode::kFanOut - 1)] = std::move(path);
    path = std::move(above);
  }
  return join(map, path);
}

}  // namespace ww
