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
}  // namespace cooperative_groups
