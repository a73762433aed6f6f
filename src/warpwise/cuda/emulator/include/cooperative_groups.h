// cooperative_groups.h for the emulator: the grid, the block, tiles of a block, and coalesced groups of a warp's lanes.
#pragma once
#include "warpwise_device.h"

#ifndef WW_MEMBER
#define WW_MEMBER inline __attribute__((always_inline))
#endif

namespace cooperative_groups {
namespace __v1 = ::cooperative_groups;  // CUDA's inline namespace

namespace details {
WW_INLINE unsigned low_lanes(unsigned count) { return count >= 32 ? 0xffffffffu : (1u << count) - 1; }
// The lane of the member with this rank in a mask of lanes; 32 if there is none.
WW_UNINSTRUMENTED unsigned lane_of_rank(unsigned mask, unsigned rank) {
  for (unsigned lane = 0; lane < 32; lane++)
    if ((mask >> lane & 1) && rank-- == 0) return lane;
  return 32;
}
WW_INLINE unsigned rank_in(unsigned mask) {
  return static_cast<unsigned>(__builtin_popcount(mask & low_lanes(ww_lane())));
}
}  // namespace details

// ---- The grid
class grid_group {
 public:
  WW_MEMBER void sync(WW_LINE) const { ww_grid_sync(line); }
  // Accesses between arrive and wait count as before the barrier: no other block may rely on them.
  using arrival_token = unsigned;
  WW_MEMBER arrival_token barrier_arrive(WW_LINE) const {
    ww_syncthreads(0, 0, line);
    return 0;
  }
  WW_MEMBER void barrier_wait(arrival_token&&, WW_LINE) const { ww_grid_sync(line); }
  static WW_MEMBER bool is_valid() { return true; }
  static WW_MEMBER unsigned long long size() { return num_blocks() * num_threads_of_block(); }
  static WW_MEMBER unsigned long long num_threads() { return size(); }
  static WW_MEMBER unsigned long long thread_rank() { return block_rank() * num_threads_of_block() + ww_thread_rank(); }
  static WW_MEMBER unsigned long long block_rank() {
    return blockIdx.x + static_cast<unsigned long long>(gridDim.x) *
                            (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
  }
  static WW_MEMBER unsigned long long num_blocks() {
    return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
  }
  static WW_MEMBER dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static WW_MEMBER dim3 dim_blocks() { return gridDim; }
  static WW_MEMBER dim3 group_dim() { return gridDim; }
  static WW_MEMBER dim3 thread_index() {
    return dim3(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                blockIdx.z * blockDim.z + threadIdx.z);
  }
  static WW_MEMBER dim3 dim_threads() {
    return dim3(gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z);
  }
  static WW_MEMBER dim3 dim_clusters() {
    const ww_dim3 shape = ww_cluster_shape();
    return dim3(gridDim.x / shape.x, gridDim.y / shape.y, gridDim.z / shape.z);
  }
  static WW_MEMBER unsigned long long num_clusters() {
    const dim3 clusters = dim_clusters();
    return static_cast<unsigned long long>(clusters.x) * clusters.y * clusters.z;
  }
  static WW_MEMBER dim3 cluster_index() {
    const ww_dim3 shape = ww_cluster_shape();
    return dim3(blockIdx.x / shape.x, blockIdx.y / shape.y, blockIdx.z / shape.z);
  }
  static WW_MEMBER unsigned long long cluster_rank() {
    const dim3 clusters = dim_clusters(), index = cluster_index();
    return index.x + static_cast<unsigned long long>(clusters.x) *
                         (index.y + static_cast<unsigned long long>(clusters.y) * index.z);
  }

 private:
  static WW_MEMBER unsigned long long num_threads_of_block() {
    return static_cast<unsigned long long>(blockDim.x) * blockDim.y * blockDim.z;
  }
};
WW_INLINE grid_group this_grid() { return {}; }

// ---- The block
class thread_block {
 public:
  static WW_MEMBER void sync(WW_LINE) { ww_syncthreads(0, 0, line); }
  struct arrival_token {};
  static WW_MEMBER arrival_token barrier_arrive() { return {}; }  // as in CUDA, the wait is the barrier
  static WW_MEMBER void barrier_wait(arrival_token&&, WW_LINE) { ww_syncthreads(0, 0, line); }
  static WW_MEMBER unsigned thread_rank() { return ww_thread_rank(); }
  static WW_MEMBER unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  static WW_MEMBER unsigned num_threads() { return size(); }
  static WW_MEMBER dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static WW_MEMBER dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  static WW_MEMBER dim3 group_dim() { return blockDim; }
  static WW_MEMBER dim3 dim_threads() { return blockDim; }
};
WW_INLINE thread_block this_thread_block() { return {}; }
// Scratch memory that CUDA requires for tiles of more than a warp; the emulator does not use it.
template <unsigned MaxBlockSize = 1024>
struct block_tile_memory {
  char bytes[MaxBlockSize >= 32 ? MaxBlockSize / 32 * 8 : 8];
};
template <unsigned MaxBlockSize>
WW_INLINE thread_block this_thread_block(block_tile_memory<MaxBlockSize>&) {
  return {};
}

namespace details {
// The mask of the lanes of this thread's warp; the last warp of a block may have fewer than 32.
WW_INLINE unsigned lanes_of_warp() { return low_lanes(thread_block::size() - (ww_thread_rank() & ~31u)); }
}  // namespace details

// ---- A group of lanes of one warp, given by a mask
class coalesced_group {
 public:
  WW_MEMBER explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
      : mask_(mask), meta_rank_(meta_rank), meta_size_(meta_size) {}

  WW_MEMBER unsigned size() const { return static_cast<unsigned>(__builtin_popcount(mask_)); }
  WW_MEMBER unsigned num_threads() const { return size(); }
  WW_MEMBER unsigned thread_rank() const { return details::rank_in(mask_); }
  WW_MEMBER unsigned meta_group_size() const { return meta_size_; }
  WW_MEMBER unsigned meta_group_rank() const { return meta_rank_; }
  WW_MEMBER unsigned ww_mask() const { return mask_; }
  WW_MEMBER void sync(WW_LINE) const { ww_syncwarp(mask_, line); }

  template <class T>
  WW_MEMBER T shfl(T value, unsigned source, WW_LINE) const {
    return take(value, source % size(), "shfl()", line);
  }
  template <class T>
  WW_MEMBER T shfl_up(T value, unsigned delta, WW_LINE) const {
    const unsigned rank = thread_rank();
    return take(value, rank < delta ? rank : rank - delta, "shfl_up()", line);
  }
  template <class T>
  WW_MEMBER T shfl_down(T value, unsigned delta, WW_LINE) const {
    const unsigned rank = thread_rank();
    return take(value, rank + delta < size() ? rank + delta : rank, "shfl_down()", line);
  }
  WW_MEMBER int any(int predicate, WW_LINE) const { return ww::ballot(mask_, predicate, "any()", line) != 0; }
  WW_MEMBER int all(int predicate, WW_LINE) const { return ww::ballot(mask_, !predicate, "all()", line) == 0; }
  WW_MEMBER unsigned ballot(int predicate, WW_LINE) const {
    return by_rank(ww::ballot(mask_, predicate, "ballot()", line));
  }
  template <class T>
  WW_MEMBER unsigned match_any(T value, WW_LINE) const {
    return by_rank(ww::matching(mask_, value, "match_any()", line));
  }
  template <class T>
  WW_MEMBER unsigned match_all(T value, int& all_equal, WW_LINE) const {
    all_equal = ww::all_match(mask_, value, "match_all()", line);
    return all_equal ? details::low_lanes(size()) : 0;
  }

 private:
  template <class T>
  WW_MEMBER T take(T value, unsigned rank, const char* what, int line) const {
    const ww_exchange table = ww_warp_exchange(mask_, &value, sizeof(T), what, line);
    return ww::lane_value<T>(table, details::lane_of_rank(mask_, rank), value, what, line);
  }
  WW_MEMBER unsigned by_rank(unsigned lanes) const {
    unsigned ranks = 0, rank = 0;
    for (unsigned rest = mask_; rest; rest &= rest - 1, rank++) ranks |= (lanes >> __builtin_ctz(rest) & 1u) << rank;
    return ranks;
  }
  unsigned mask_, meta_rank_, meta_size_;
};
WW_INLINE coalesced_group coalesced_threads(WW_LINE) { return coalesced_group(ww_converged_lanes(line)); }

// ---- Tiles: consecutive threads, a power of two of them
template <unsigned Size, class Parent = void>
class thread_block_tile {
  static_assert(Size >= 1 && Size <= 1024 && (Size & (Size - 1)) == 0,
                "the size of a tile must be a power of two up to 1024");

 public:
  thread_block_tile() = default;
  // thread_block_tile<32> is constructible from a tile with any parent.
  template <class Other, std::enable_if_t<!std::is_same_v<Other, Parent> && std::is_void_v<Parent>, int> = 0>
  WW_MEMBER thread_block_tile(const thread_block_tile<Size, Other>&) {}

  static WW_MEMBER unsigned thread_rank() { return ww_thread_rank() & (Size - 1); }
  static constexpr unsigned size() { return Size; }
  static constexpr unsigned num_threads() { return Size; }
  WW_MEMBER unsigned meta_group_rank() const { return (ww_thread_rank() % parent_size()) / Size; }
  WW_MEMBER unsigned meta_group_size() const { return (parent_size() + Size - 1) / Size; }
  WW_MEMBER unsigned ww_mask() const { return details::low_lanes(Size) << (ww_lane() & ~(Size - 1)); }

  WW_MEMBER void sync(WW_LINE) const {
    if constexpr (Size <= 32)
      ww_syncwarp(ww_mask(), line);
    else
      ww_group_barrier(ww_thread_rank() & ~(Size - 1), Size, line);
  }
  template <class T>
  WW_MEMBER T shfl(T value, int source, WW_LINE) const {
    return ww::shuffle<T>(warp_mask(), value, source, Size, "shfl()", line);
  }
  template <class T>
  WW_MEMBER T shfl_xor(T value, unsigned lanes, WW_LINE) const {
    return ww::shuffle_xor<T>(warp_mask(), value, static_cast<int>(lanes), Size, "shfl_xor()", line);
  }
  template <class T>
  WW_MEMBER T shfl_up(T value, unsigned delta, WW_LINE) const {
    return ww::shuffle_up<T>(warp_mask(), value, delta, Size, "shfl_up()", line);
  }
  template <class T>
  WW_MEMBER T shfl_down(T value, unsigned delta, WW_LINE) const {
    return ww::shuffle_down<T>(warp_mask(), value, delta, Size, "shfl_down()", line);
  }
  WW_MEMBER int any(int predicate, WW_LINE) const { return ww::ballot(warp_mask(), predicate, "any()", line) != 0; }
  WW_MEMBER int all(int predicate, WW_LINE) const { return ww::ballot(warp_mask(), !predicate, "all()", line) == 0; }
  WW_MEMBER unsigned ballot(int predicate, WW_LINE) const {
    return shifted(ww::ballot(warp_mask(), predicate, "ballot()", line));
  }
  template <class T>
  WW_MEMBER unsigned match_any(T value, WW_LINE) const {
    return shifted(ww::matching(warp_mask(), value, "match_any()", line));
  }
  template <class T>
  WW_MEMBER unsigned match_all(T value, int& all_equal, WW_LINE) const {
    all_equal = ww::all_match(warp_mask(), value, "match_all()", line);
    return all_equal ? details::low_lanes(Size) : 0;
  }

 private:
  WW_MEMBER unsigned warp_mask() const {
    static_assert(Size <= 32, "shuffles and votes require a tile of at most 32 threads");
    return ww_mask();
  }
  WW_MEMBER unsigned shifted(unsigned lanes) const { return (lanes & ww_mask()) >> (ww_lane() & ~(Size - 1)); }
  static WW_MEMBER unsigned parent_size() {
    if constexpr (std::is_void_v<Parent>)
      return thread_block::size();
    else
      return Parent::size();
  }
};

// ---- A group whose type is not known at compile time
class thread_group {
 public:
  WW_MEMBER thread_group(const thread_block&) : first_(0), size_(thread_block::size()), mask_(0) {}
  WW_MEMBER thread_group(const coalesced_group& group) : first_(0), size_(group.size()), mask_(group.ww_mask()) {}
  template <unsigned Size, class Parent>
  WW_MEMBER thread_group(const thread_block_tile<Size, Parent>& tile)
      : first_(ww_thread_rank() & ~(Size - 1)), size_(Size), mask_(Size <= 32 ? tile.ww_mask() : 0) {}

  WW_MEMBER unsigned size() const { return size_; }
  WW_MEMBER unsigned num_threads() const { return size_; }
  WW_MEMBER unsigned thread_rank() const { return mask_ ? details::rank_in(mask_) : ww_thread_rank() - first_; }
  WW_MEMBER unsigned ww_mask() const { return mask_; }
  WW_MEMBER void sync(WW_LINE) const {
    if (mask_)
      ww_syncwarp(mask_, line);
    else if (size_ == thread_block::size())
      ww_syncthreads(0, 0, line);
    else
      ww_group_barrier(first_, size_, line);
  }

 private:
  unsigned first_, size_, mask_;
};

WW_INLINE thread_block_tile<1> this_thread() { return {}; }
template <unsigned Size, class Parent>
WW_INLINE thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
  return {};
}
template <unsigned Size>
WW_INLINE thread_block_tile<Size, thread_block> tiled_partition(const thread_block&) {
  return {};
}
template <unsigned Size, unsigned ParentSize, class Grandparent>
WW_INLINE thread_block_tile<Size, thread_block_tile<ParentSize, Grandparent>> tiled_partition(
    const thread_block_tile<ParentSize, Grandparent>&) {
  static_assert(Size <= ParentSize, "a tile cannot be larger than its parent");
  return {};
}

// Tiles of consecutive ranks of a group. `size`, known at run time only, is a power of two up to 32.
template <class Group>
WW_UNINSTRUMENTED coalesced_group ww_partition(const Group& group, unsigned mask, unsigned size, int line) {
  if (size < 1 || size > 32 || (size & (size - 1)))
    ww_fail(WW_UNDEFINED, "tiled_partition: the size must be a power of two from 1 to 32", line);
  const unsigned rank = details::rank_in(mask), first = rank / size * size;
  unsigned tile = 0;
  for (unsigned i = first; i < first + size; i++) {
    const unsigned lane = details::lane_of_rank(mask, i);
    if (lane < 32) tile |= 1u << lane;
  }
  return coalesced_group(tile, group.thread_rank() / size, (static_cast<unsigned>(group.size()) + size - 1) / size);
}
WW_INLINE thread_group tiled_partition(const thread_block& group, unsigned size, WW_LINE) {
  return ww_partition(group, details::lanes_of_warp(), size, line);
}
WW_INLINE coalesced_group tiled_partition(const coalesced_group& group, unsigned size, WW_LINE) {
  return ww_partition(group, group.ww_mask(), size, line);
}
WW_INLINE thread_group tiled_partition(const thread_group& group, unsigned size, WW_LINE) {
  return ww_partition(group, group.ww_mask() ? group.ww_mask() : details::lanes_of_warp(), size, line);
}

// The lanes of the group with the same label. The new groups are numbered in the order of their first lanes.
template <class Group, class Label>
WW_UNINSTRUMENTED coalesced_group labeled_partition(const Group& group, Label label, WW_LINE) {
  const unsigned mine = ww::matching(group.ww_mask(), label, "labeled_partition()", line);
  const ww_exchange table = ww_warp_exchange(group.ww_mask(), &mine, sizeof mine, "labeled_partition()", line);
  unsigned rank = 0, groups = 0;
  for (unsigned lane = 0; lane < 32; lane++) {
    unsigned theirs = 0;
    if (!(table.present >> lane & 1)) continue;
    __builtin_memcpy(&theirs, table.data + lane * table.stride, sizeof theirs);
    if (static_cast<unsigned>(__builtin_ctz(theirs)) != lane) continue;
    rank += lane < static_cast<unsigned>(__builtin_ctz(mine));
    groups++;
  }
  return coalesced_group(mine, rank, groups);
}
template <class Group>
WW_INLINE coalesced_group binary_partition(const Group& group, bool predicate, WW_LINE) {
  return coalesced_group(ww::matching(group.ww_mask(), predicate, "binary_partition()", line), predicate ? 0 : 1, 2);
}

// ---- Free functions
template <class Group>
WW_INLINE void sync(const Group& group, WW_LINE) {
  group.sync(line);
}
WW_INLINE void sync(const thread_block&, WW_LINE) { ww_syncthreads(0, 0, line); }

template <class Group, class F, class... Arguments>
WW_INLINE void invoke_one(const Group& group, F&& f, Arguments&&... arguments) {
  if (group.thread_rank() == 0) std::forward<F>(f)(std::forward<Arguments>(arguments)...);
}
template <class Group, class F, class... Arguments>
WW_INLINE auto invoke_one_broadcast(const Group& group, F&& f, Arguments&&... arguments) {
  decltype(std::forward<F>(f)(std::forward<Arguments>(arguments)...)) result{};
  if (group.thread_rank() == 0) result = std::forward<F>(f)(std::forward<Arguments>(arguments)...);
  return group.shfl(result, 0);
}

template <class Group>
WW_INLINE auto thread_rank(const Group& group) {
  return group.thread_rank();
}
template <class Group>
WW_INLINE auto group_size(const Group& group) {
  return group.size();
}

// ---- The blocks of a cluster, whose shape __cluster_dims__ gives
class cluster_group {
 public:
  static WW_MEMBER void sync(WW_LINE) {
    ww_cluster_arrive(1, line);
    ww_cluster_wait(line);
  }
  struct arrival_token {};
  static WW_MEMBER arrival_token barrier_arrive(WW_LINE) {
    ww_cluster_arrive(1, line);
    return {};
  }
  static WW_MEMBER void barrier_wait(WW_LINE) { ww_cluster_wait(line); }
  static WW_MEMBER void barrier_wait(arrival_token&&, WW_LINE) { ww_cluster_wait(line); }
  static WW_MEMBER unsigned block_rank() { return ww_cluster_rank(); }
  static WW_MEMBER unsigned num_blocks() {
    const ww_dim3 shape = ww_cluster_shape();
    return shape.x * shape.y * shape.z;
  }
  static WW_MEMBER unsigned thread_rank() { return block_rank() * thread_block::size() + ww_thread_rank(); }
  static WW_MEMBER unsigned num_threads() { return num_blocks() * thread_block::size(); }
  static WW_MEMBER unsigned size() { return num_threads(); }
  static WW_MEMBER dim3 dim_blocks() {
    const ww_dim3 shape = ww_cluster_shape();
    return dim3(shape.x, shape.y, shape.z);
  }
  static WW_MEMBER dim3 block_index() {
    const ww_dim3 shape = ww_cluster_shape();
    return dim3(blockIdx.x % shape.x, blockIdx.y % shape.y, blockIdx.z % shape.z);
  }
  static WW_MEMBER dim3 thread_index() {
    const dim3 block = block_index();
    return dim3(block.x * blockDim.x + threadIdx.x, block.y * blockDim.y + threadIdx.y,
                block.z * blockDim.z + threadIdx.z);
  }
  static WW_MEMBER dim3 dim_threads() {
    const ww_dim3 shape = ww_cluster_shape();
    return dim3(shape.x * blockDim.x, shape.y * blockDim.y, shape.z * blockDim.z);
  }
  // The variable of block `rank` that corresponds to `address`, which is in this block's shared memory.
  template <class T>
  static WW_MEMBER T* map_shared_rank(T* address, unsigned rank, WW_LINE) {
    return static_cast<T*>(ww_map_shared(address, rank, line));
  }
};
WW_INLINE cluster_group this_cluster() { return {}; }
}  // namespace cooperative_groups
