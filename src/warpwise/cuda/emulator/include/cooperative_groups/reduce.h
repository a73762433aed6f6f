// cooperative_groups/reduce.h for the emulator: reductions over the threads of a group, in the order of their ranks.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {
template <class T>
struct plus {
  WW_MEMBER T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct less {
  WW_MEMBER T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct greater {
  WW_MEMBER T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct bit_and {
  WW_MEMBER T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
  WW_MEMBER T operator()(T a, T b) const { return a | b; }
};
template <class T>
struct bit_xor {
  WW_MEMBER T operator()(T a, T b) const { return a ^ b; }
};

namespace details {
template <class Group, class = void>
constexpr bool has_lanes = false;
template <class Group>
constexpr bool has_lanes<Group, std::void_t<decltype(&Group::ww_mask)>> = true;
template <class Group>
WW_INLINE unsigned lanes_of(const Group& group) {
  static_assert(has_lanes<Group>, "reductions and scans take a tile or coalesced threads: use tiled_partition()");
  if constexpr (has_lanes<Group>)
    return group.ww_mask();
  else
    return 0;
}
template <class T, class Operation>
WW_UNINSTRUMENTED T fold_wide(unsigned first, unsigned threads, T value, Operation operation, int line) {
  const char* values = static_cast<const char*>(ww_group_exchange(first, threads, &value, sizeof value, line));
  T result;
  __builtin_memcpy(static_cast<void*>(&result), values, sizeof(T));
  for (unsigned i = 1; i < threads; i++) {
    T other;
    __builtin_memcpy(static_cast<void*>(&other), values + i * sizeof(T), sizeof(T));
    result = operation(result, other);
  }
  return result;
}
}  // namespace details

template <class Group, class T, class Operation>
WW_INLINE T reduce(const Group& group, T value, Operation&& operation, WW_LINE) {
  return ww::fold(details::lanes_of(group), value, "reduce()", line, operation);
}
template <unsigned Size, class Parent, class T, class Operation>
WW_INLINE T reduce(const thread_block_tile<Size, Parent>& tile, T value, Operation&& operation, WW_LINE) {
  if constexpr (Size <= 32) {
    return ww::fold(tile.ww_mask(), value, "reduce()", line, operation);
  } else {
    return details::fold_wide(ww_thread_rank() & ~(Size - 1), Size, value, operation, line);
  }
}
// Stores the result with one atomic operation per group.
template <class Group, class Atomic, class T, class Operation>
WW_INLINE void reduce_store_async(const Group& group, Atomic& destination, T value, Operation&& operation, WW_LINE) {
  const T result = ww::fold(details::lanes_of(group), value, "reduce_store_async()", line, operation);
  if (group.thread_rank() == 0) destination.store(result);
}
namespace details {
// One relaxed read-modify-write; returns the old value.
template <class Atomic, class T, class Operation>
WW_INLINE T update(Atomic& destination, T value, Operation operation, int line) {
  return static_cast<T>(destination.ww_update([&](auto old) { return operation(old, value); }, line));
}
}  // namespace details
// Updates the destination with the result by one relaxed atomic operation per group.
template <class Group, class Atomic, class T, class Operation>
WW_INLINE void reduce_update_async(const Group& group, Atomic& destination, T value, Operation&& operation, WW_LINE) {
  const T result = ww::fold(details::lanes_of(group), value, "reduce_update_async()", line, operation);
  if (group.thread_rank() == 0) details::update(destination, result, operation, line);
}
}  // namespace cooperative_groups
