// Epochs: one for each block and each of its barriers, by which a cell says when its accesses happened.
#include <algorithm>

#include "state.h"

namespace ww {

constexpr uint32_t kLastEpoch = 0xfffff0;  // 24 bits of a stamp

static void take_epoch(Block& block) {
  block.epoch = ++world.last_epoch;
  if (world.epoch_owner.empty() || world.epoch_owner.back().second != block.number)
    world.epoch_owner.emplace_back(block.epoch, block.number);
}

// The numbers have run out: forgets all accesses and begins again. Races across this moment go unseen; none is made up.
static void renew_epochs() {
  forget_cells();
  world.last_epoch = 0;
  world.floors[0] = 1;
  world.epoch_owner.clear();
  world.fence_epochs.clear();
  for (Block* block : world.alive) {
    take_epoch(*block);
    block->first_epoch = block->epoch;
  }
}

void next_epoch(Block& block) {
  if (world.last_epoch >= kLastEpoch) renew_epochs();
  take_epoch(block);
  block.clocks.reset();
  block.strong_seen = false;
  if (world.block != &block) return;
  world.epoch = block.epoch;
  world.floors[1] = block.first_epoch;
  if (world.current) refresh_stamp();
}

uint64_t block_number_of(uint32_t epoch) {
  const auto after = std::upper_bound(world.epoch_owner.begin(), world.epoch_owner.end(), epoch,
                                      [](uint32_t e, const auto& entry) { return e < entry.first; });
  return after == world.epoch_owner.begin() ? 0 : (after - 1)->second;
}

ww_dim3 block_index_of(uint32_t epoch) {
  const uint64_t number = block_number_of(epoch), x = world.grid.x, y = world.grid.y;
  return {static_cast<unsigned>(number % x), static_cast<unsigned>(number / x % y),
          static_cast<unsigned>(number / (x * y))};
}

void copy_index(uint32_t* to, ww_dim3 from) { to[0] = from.x, to[1] = from.y, to[2] = from.z; }

}  // namespace ww
