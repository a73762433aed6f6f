// Thread block clusters: the start of a cluster's blocks, its barrier, addresses in the shared memory of its blocks,
// and happens-before between threads of different blocks.
#include <algorithm>

#include "access.h"
#include "synchronise.h"

namespace ww {

namespace {

bool is_cluster_of_several(const Block& block) { return block.cluster && block.cluster->blocks.size() > 1; }

void complete_cluster_barrier(Cluster& cluster) {
  cluster.phase++;
  cluster.arrived = 0;
  cluster.exited += cluster.exited_after_arrival;
  cluster.exited_after_arrival = 0;
  runtime.stalls = 0;
  runtime.barriers_completed++;
  for (Block* block : cluster.blocks) {
    if (!block) continue;
    if (!cluster.relaxed) next_epoch(*block);
    for (unsigned i = 0; i < block->threads; i++)
      if (block->state[i] == ThreadState::kAtClusterBarrier) make_ready(block->thread[i]);
  }
  if (!cluster.relaxed && runtime.checks.races)
    for (Block* block : cluster.blocks) {
      if (!block) continue;
      for (std::vector<Seen>& seen : block->remote)
        for (size_t rank = 0; rank < seen.size(); rank++)
          if (cluster.blocks[rank] && cluster.blocks[rank] != block)
            seen[rank] = {cluster.blocks[rank]->epoch, 0, {}, {}, {}, {}};
    }
  if (!cluster.relaxed) share_with_cluster(cluster);
  cluster.relaxed = false;
}

void try_complete_cluster_barrier(Cluster& cluster) {
  if (cluster.arrived && cluster.arrived + cluster.exited >= cluster.threads) complete_cluster_barrier(cluster);
}

void join_clocks(VectorClock& into, const VectorClock& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (size_t i = 0; i < from.size(); i++) into[i] = std::max(into[i], from[i]);
}

// Starts the other blocks of the cluster, so that all of them are resident.
void start_cluster(Block& block, ww_dim3 shape, int line) {
  const ww_dim3 grid = runtime.grid;
  if (!shape.x || !shape.y || !shape.z || grid.x % shape.x || grid.y % shape.y || grid.z % shape.z)
    fatal_report(new_report(kLaunchError, 0, line),
                 "clusters of %u x %u x %u blocks do not divide the grid of %u x %u x %u blocks", shape.x, shape.y,
                 shape.z, grid.x, grid.y, grid.z);
  const unsigned size = shape.x * shape.y * shape.z;
  if (size > 16)
    fatal_report(new_report(kLaunchError, 0, line), "a cluster of %u blocks: a GPU runs clusters of at most 16", size);
  auto cluster = std::make_shared<Cluster>();
  cluster->shape = shape;
  cluster->threads = size * runtime.threads;
  cluster->first_epoch = block.first_epoch;
  cluster->blocks.resize(size);
  const ww_dim3 first = {block.index.x / shape.x * shape.x, block.index.y / shape.y * shape.y,
                         block.index.z / shape.z * shape.z};
  if (size > 1) runtime.clustered = true;
  for (unsigned rank = 0; rank < size; rank++) {
    const uint64_t x = first.x + rank % shape.x, y = first.y + rank / shape.x % shape.y,
                   z = first.z + rank / (shape.x * shape.y), number = (z * grid.y + y) * grid.x + x;
    cluster->numbers.push_back(number);
    Block* member = &block;
    if (number != block.number) {
      runtime.started_early.insert(number);
      start_block(number);
      member = runtime.resident.back();
    }
    member->cluster = cluster;
    member->rank = rank;
    member->remote.assign(size > 1 ? runtime.threads : 0, std::vector<Seen>(size));
    cluster->blocks[rank] = member;
  }
  runtime.epoch_floor[1] = cluster->first_epoch;
}

Cluster& cluster_of(Block& block) {
  if (!block.cluster) start_cluster(block, {1, 1, 1}, 0);
  return *block.cluster;
}

}  // namespace

void Seen::join(const Seen& from) {
  known = ww::join(known, from.known);
  for (int scope = 0; scope < 2; scope++) observed[scope] = ww::join(observed[scope], from.observed[scope]);
  fenced_epoch = std::max(fenced_epoch, from.fenced_epoch);
  if (from.epoch > epoch) {
    epoch = from.epoch;
    clock = from.clock;
    fenced = from.fenced;
    return;
  }
  if (from.epoch < epoch) return;
  join_clocks(clock, from.clock);
  join_clocks(fenced, from.fenced);
}

void Seen::begin(uint32_t now) {
  if (epoch == now) return;
  epoch = now;
  clock.clear();
  fenced.clear();
}

void release(Thread& thread, std::vector<Seen>& into) {
  Block& block = *thread.block;
  const size_t size = is_cluster_of_several(block) ? block.cluster->blocks.size() : 1, own = block.rank;
  if (into.size() < size) into.resize(size);
  Seen& seen = into[own];
  seen.begin(block.epoch);
  if (block.synchronises) {
    seen.known = join(seen.known, thread.known);
    for (int scope = 0; scope < 2; scope++) seen.observed[scope] = join(seen.observed[scope], thread.observed[scope]);
  }
  seen.fenced_epoch = std::max(seen.fenced_epoch, thread.fenced_epoch);
  block.clocks.release(thread.id, seen.clock, seen.fenced);
  for (size_t rank = 0; size > 1 && rank < size; rank++)
    if (rank != own) into[rank].join(block.remote[thread.id][rank]);
}

void acquire(Thread& thread, const std::vector<Seen>& from) {
  Block& block = *thread.block;
  for (Released& cached : thread.released) cached.epoch = 0;
  for (size_t rank = 0; rank < from.size(); rank++) {
    const Seen& seen = from[rank];
    block.synchronises |= seen.known || seen.observed[0] || seen.observed[1];
    thread.known = join(thread.known, seen.known);
    for (int scope = 0; scope < 2; scope++) thread.observed[scope] = join(thread.observed[scope], seen.observed[scope]);
    if (rank != block.rank) {
      if (is_cluster_of_several(block)) block.remote[thread.id][rank].join(seen);
      continue;
    }
    thread.fenced_epoch = std::max(thread.fenced_epoch, seen.fenced_epoch);
    if (seen.epoch == block.epoch) block.clocks.acquire(thread.id, seen.clock, seen.fenced);
  }
}

void join_remote(Block& block, const std::vector<unsigned>& threads) {
  uint32_t fenced_epoch = 0;
  for (const unsigned id : threads) fenced_epoch = std::max(fenced_epoch, block.thread[id].fenced_epoch);
  for (const unsigned id : threads) block.thread[id].fenced_epoch = fenced_epoch;
  if (block.remote.empty()) return;
  std::vector<Seen> all = block.remote[threads[0]];
  for (const unsigned id : threads)
    for (size_t rank = 0; rank < all.size(); rank++) all[rank].join(block.remote[id][rank]);
  for (const unsigned id : threads) block.remote[id] = all;
}

void join_launched_cluster(Block& block) {
  const ww_dim3 shape = runtime.cluster;
  if (shape.x * shape.y * shape.z > 1) start_cluster(block, shape, 0);
}

void leave_cluster(Block& block) {
  if (!block.cluster) return;
  block.cluster->blocks[block.rank] = nullptr;
  block.cluster.reset();
  block.remote.clear();
}

void on_cluster_exit(Thread& thread) {
  if (!thread.block->cluster) return;
  Cluster& cluster = *thread.block->cluster;
  const bool counted = thread.arrived_at_cluster && thread.cluster_phase == cluster.phase;
  (counted ? cluster.exited_after_arrival : cluster.exited)++;
  try_complete_cluster_barrier(cluster);
}

Block& owner_of_shared(Address address) {
  const Slot* slot = slot_of(address);
  Block& own = *runtime.block;
  if (!slot || !slot->shared || !is_cluster_of_several(own)) return own;
  const auto number = static_cast<unsigned>(slot - slots);
  for (Block* block : own.cluster->blocks) {
    if (!block) continue;
    for (const SharedVariable& variable : block->shared)
      if (variable.slot == number) return *block;
  }
  return own;
}

int rank_of_epoch(uint32_t epoch) {
  const Block& block = *runtime.block;
  if (!is_cluster_of_several(block)) return -1;
  const uint64_t number = block_number_of(epoch);
  const std::vector<uint64_t>& numbers = block.cluster->numbers;
  const auto found = std::find(numbers.begin(), numbers.end(), number);
  return found == numbers.end() ? -1 : static_cast<int>(found - numbers.begin());
}

}  // namespace ww

using namespace ww;

extern "C" {

void ww_cluster_dims(unsigned x, unsigned y, unsigned z, int line) {
  if (!runtime.block->cluster) start_cluster(*runtime.block, {x, y, z}, line);
}

unsigned ww_cluster_rank() { return runtime.block->rank; }

ww_dim3 ww_cluster_shape() { return runtime.block->cluster ? runtime.block->cluster->shape : ww_dim3{1, 1, 1}; }

void ww_cluster_arrive(int releases, int line) {
  Thread& thread = *runtime.current;
  Cluster& cluster = cluster_of(*runtime.block);
  resolve_pending_store();
  if (thread.arrived_at_cluster)
    fatal_report(new_report(kUndefinedBehaviour, 0, line),
                 "barrier.cluster.arrive: the thread has arrived before and has not waited since");
  thread.arrived_at_cluster = true;
  thread.cluster_phase = cluster.phase;
  if (!releases) cluster.relaxed = true;
  cluster.arrived++;
  try_complete_cluster_barrier(cluster);
}

void ww_cluster_wait(int line) {
  Thread& thread = *runtime.current;
  Cluster& cluster = cluster_of(*runtime.block);
  if (!thread.arrived_at_cluster)
    fatal_report(new_report(kUndefinedBehaviour, 0, line),
                 "barrier.cluster.wait: the thread has not arrived at the cluster's barrier");
  thread.arrived_at_cluster = false;
  if (cluster.phase != thread.cluster_phase) return;
  thread.what = "the cluster's barrier";
  thread.line = line;
  park(ThreadState::kAtClusterBarrier);
}

// mapa: the address, in block `rank` of the cluster, that corresponds to an address in this block's shared memory.
int ww_shared_rank(const void* address) {
  const unsigned handle = ww_to_shared(address);
  if (handle == 0xffffffffu) return -1;
  return static_cast<int>(owner_of_shared(reinterpret_cast<Address>(address)).rank);
}

void* ww_map_shared(const void* address, unsigned rank, int line) {
  Block& block = *runtime.block;
  const Cluster& cluster = cluster_of(block);
  if (rank >= cluster.blocks.size())
    fatal_report(new_report(kUndefinedBehaviour, 0, line), "block %u of a cluster of %zu blocks does not exist", rank,
                 cluster.blocks.size());
  Block* peer = cluster.blocks[rank];
  if (!peer)
    fatal_report(new_report(kUndefinedBehaviour, 0, line),
                 "the shared memory of block %u of the cluster, which has exited: end the kernel with a barrier of the "
                 "cluster",
                 rank);
  const Address at = reinterpret_cast<Address>(address);
  Block& owner = owner_of_shared(at);
  const Slot* slot = slot_of(at);
  if (!slot || !slot->shared)
    fatal_report(new_report(kUndefinedBehaviour, 0, line), "mapa: the address is not in shared memory");
  const auto number = static_cast<unsigned>(slot - slots);
  for (const SharedVariable& variable : owner.shared)
    if (variable.slot == number)
      return reinterpret_cast<void*>(slots[shared_variable(*peer, variable).slot].start + (at - slot->start));
  fatal_report(new_report(kUndefinedBehaviour, 0, line), "mapa: the address is not in this block's shared memory");
}

}  // extern "C"
