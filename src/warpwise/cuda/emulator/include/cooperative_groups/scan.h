// cooperative_groups/scan.h for the emulator: inclusive and exclusive scans over the lanes of a group, in the order of
// their ranks.
#pragma once
#include "reduce.h"

namespace cooperative_groups {
namespace details {
template <class T, class Operation>
WW_UNINSTRUMENTED T scan(unsigned mask, T value, Operation operation, bool inclusive, const char* what, int line) {
  const ww_exchange table = ww_warp_exchange(mask, &value, sizeof(T), what, line);
  const unsigned last = ww_lane() + (inclusive ? 1 : 0);
  T result{};
  bool first = true;
  for (unsigned lane = 0; lane < last; lane++) {
    if (!(table.present >> lane & 1)) continue;
    T other;
    __builtin_memcpy(static_cast<void*>(&other), table.data + lane * table.stride, sizeof(T));
    result = first ? other : operation(result, other);
    first = false;
  }
  return result;
}
}  // namespace details

template <class Group, class T, class Operation>
WW_INLINE T inclusive_scan(const Group& group, T value, Operation&& operation, WW_LINE) {
  return details::scan(details::lanes_of(group), value, operation, true, "inclusive_scan()", line);
}
template <class Group, class T>
WW_INLINE T inclusive_scan(const Group& group, T value) {
  return inclusive_scan(group, value, plus<T>());
}
template <class Group, class T, class Operation>
WW_INLINE T exclusive_scan(const Group& group, T value, Operation&& operation, WW_LINE) {
  return details::scan(details::lanes_of(group), value, operation, false, "exclusive_scan()", line);
}
template <class Group, class T>
WW_INLINE T exclusive_scan(const Group& group, T value) {
  return exclusive_scan(group, value, plus<T>());
}

// The last thread of the group updates the atomic with the sum of the group; the old value precedes the scan.
template <class Group, class Atomic, class T, class Operation>
WW_INLINE T inclusive_scan_update(const Group& group, Atomic&& destination, T value, Operation&& operation, WW_LINE) {
  const T sum = details::scan(details::lanes_of(group), value, operation, true, "inclusive_scan_update()", line);
  T old{};
  if (group.thread_rank() + 1 == group.size()) old = details::update(destination, sum, operation, line);
  return operation(group.shfl(old, group.size() - 1, line), sum);
}
template <class Group, class Atomic, class T>
WW_INLINE T inclusive_scan_update(const Group& group, Atomic&& destination, T value, WW_LINE) {
  return inclusive_scan_update(group, destination, value, plus<T>(), line);
}
template <class Group, class Atomic, class T, class Operation>
WW_INLINE T exclusive_scan_update(const Group& group, Atomic&& destination, T value, Operation&& operation, WW_LINE) {
  const T before = details::scan(details::lanes_of(group), value, operation, false, "exclusive_scan_update()", line);
  const bool first = group.thread_rank() == 0;
  T old{};
  if (group.thread_rank() + 1 == group.size())
    old = details::update(destination, first ? value : operation(before, value), operation, line);
  old = group.shfl(old, group.size() - 1, line);
  return first ? old : operation(old, before);
}
template <class Group, class Atomic, class T>
WW_INLINE T exclusive_scan_update(const Group& group, Atomic&& destination, T value, WW_LINE) {
  return exclusive_scan_update(group, destination, value, plus<T>(), line);
}
}  // namespace cooperative_groups
