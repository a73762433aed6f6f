// cooperative_groups::reduce over the lanes of a group.
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

template <class Group, class T, class Operation>
WW_INLINE T reduce(const Group& group, T value, Operation&& operation, WW_LINE) {
  return ww::fold(group.ww_mask(), value, "reduce()", line, operation);
}
// One atomic for the whole group.
template <class Group, class Atomic, class T, class Operation>
WW_INLINE void reduce_store_async(const Group& group, Atomic& destination, T value, Operation&& operation, WW_LINE) {
  const T result = ww::fold(group.ww_mask(), value, "reduce_store_async()", line, operation);
  if (group.thread_rank() == 0) destination.store(result);
}
}  // namespace cooperative_groups
