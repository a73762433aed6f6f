// Epochs: a block starts a new epoch when it begins and at each of its barriers. Each epoch has a new number, so the
// epoch in a stamp identifies both the block and the interval between two barriers.
#include <algorithm>

#include "synchronise.h"

namespace ww {

constexpr uint32_t kLastEpoch = 0xfffff0;  // a stamp has 24 bits for the epoch

static void take_epoch(Block& block) {
  block.epoch = ++runtime.last_epoch;
  if (runtime.epoch_owner.empty() || runtime.epoch_owner.back().second != block.number)
    runtime.epoch_owner.emplace_back(block.epoch, block.number);
}

// Restarts the numbers after the last one and clears all shadow cells. A race between accesses before and after this
// point is missed; no race is reported falsely.
static void renew_epochs() {
  clear_shadow_cells();
  runtime.last_epoch = 0;
  runtime.epoch_floor[0] = 1;
  runtime.epoch_owner.clear();
  forget_all();
  for (Block* block : runtime.resident) {
    take_epoch(*block);
    block->readers.clear();
    block->first_epoch = block->epoch;
    if (block->cluster) block->cluster->first_epoch = 0;
  }
}

// The barrier that ends an epoch orders the proxy fences of all threads in this epoch before what follows.
static void keep_fenced_accesses(Block& block) {
  uint32_t fenced_epoch = 0;
  for (unsigned i = 0; i < block.threads; i++) fenced_epoch = std::max(fenced_epoch, block.thread[i].fenced_epoch);
  for (unsigned i = 0; i < block.threads; i++) block.thread[i].fenced_epoch = fenced_epoch;
  if (block.fenced_epochs.size() == kFencedEpochs) block.fenced_epochs.erase(block.fenced_epochs.begin());
  block.fenced_epochs.push_back({block.epoch, block.clocks.all_proxy_fenced()});
}

// Restarts the clocks of the agents. Their earlier operations count as ordered.
static void renew_agents(Block& block) {
  block.clocks.renew_agents();
  block.agents_epoch = block.epoch;
  for (unsigned i = 0; i < block.threads; i++) {
    Thread& thread = block.thread[i];
    uint32_t& group = block.warpgroups[i / kWarpgroupThreads].group;
    group = i % kWarpgroupThreads ? std::min(group, thread.wgmma_group) : thread.wgmma_group;
    thread.bulk_base = thread.bulk_group;
  }
}

void next_epoch(Block& block) {
  if (runtime.last_epoch >= kLastEpoch) renew_epochs();
  if (block.clocks.has_agents()) keep_fenced_accesses(block);
  keep_fences(block);
  take_epoch(block);
  block.readers.clear();
  block.clocks.reset();
  if (block.clocks.has_agents() && block.clocks.exhausted_agents()) renew_agents(block);
  if (!block.remote.empty()) {
    std::vector<unsigned> all(block.threads);
    for (unsigned i = 0; i < block.threads; i++) all[i] = i;
    join_remote(block, all);
  }
  share_knowledge(block, nullptr);
  if (runtime.block != &block) return;
  runtime.epoch = block.epoch;
  runtime.epoch_floor[1] = block.cluster ? block.cluster->first_epoch : block.first_epoch;
  if (runtime.current) refresh_stamp();
}

uint64_t block_number_of(uint32_t epoch) {
  const auto after = std::upper_bound(runtime.epoch_owner.begin(), runtime.epoch_owner.end(), epoch,
                                      [](uint32_t e, const auto& entry) { return e < entry.first; });
  return after == runtime.epoch_owner.begin() ? 0 : (after - 1)->second;
}

ww_dim3 block_index_of(uint32_t epoch) {
  const uint64_t number = block_number_of(epoch), x = runtime.grid.x, y = runtime.grid.y;
  return {static_cast<unsigned>(number % x), static_cast<unsigned>(number / x % y),
          static_cast<unsigned>(number / (x * y))};
}

void copy_index(uint32_t* to, ww_dim3 from) { to[0] = from.x, to[1] = from.y, to[2] = from.z; }

}  // namespace ww
