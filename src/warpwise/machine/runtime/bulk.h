// The transfers of bulk copies between shared and global memory.
#pragma once
#include "access.h"
#include "reduction.h"

namespace ww::machine {

// The reduction of a bulk copy; `reduces` is false for a plain copy.
struct Reduction {
  bool reduces = false;
  Update update = Update::kAdd;
  Element element = Element::kU32;
};

// Collects up to 32 units of one size (1 to 16 bytes), copies them together, and counts their sectors of global memory.
class Units {
 public:
  Units(Warp& warp, const Instruction& instruction, bool loads, Reduction reduction = {})
      : warp_(warp), instruction_(instruction), loads_(loads), reduction_(reduction) {}
  void add(u64 global, u32 shared, unsigned bytes);
  void flush();

 private:
  Warp& warp_;
  const Instruction& instruction_;
  const bool loads_;
  const Reduction reduction_;
  unsigned count_ = 0, bytes_ = 0;
  Addresses global_;
  u32 shared_[kLanes];
};

// Reduces `bytes` bytes of elements at `from` into the elements at `to`.
void reduce(u8* to, const u8* from, unsigned bytes, Reduction reduction);

// .MULTICAST: copies the `bytes` bytes at the shared address `shared`, in the lowest block of the mask `blocks`, to the
// same offset in the other blocks, and performs complete_tx on the mbarrier of each block.
void multicast(Warp& warp, const Instruction& instruction, u32 shared, u32 barrier, u32 bytes, u32 blocks);
// Replaces the block rank in the shared address `shared` by the lowest block of the mask `blocks`.
inline u32 in_lowest_block(u32 shared, u32 blocks) {
  return (shared & 0xffffff) | static_cast<u32>(__builtin_ctz(blocks)) << 24;
}

}  // namespace ww::machine
