// cooperative_groups/memcpy_async.h for the emulator: the threads of a group copy to shared memory asynchronously;
// wait() completes the copy.
#pragma once
#include "../cooperative_groups.h"
#include "../ww/async.h"

namespace cooperative_groups {
// `bytes` is a size_t or a cuda::aligned_size_t.
template <class Group, class T, class Size>
WW_INLINE void memcpy_async(const Group& group, T* to, const T* from, const Size& bytes, WW_LINE) {
  ww::copy_part_async(to, from, static_cast<size_t>(bytes), group.thread_rank(), group.size(), line);
  ww_copy_commit();
}
template <class Group, class Size>
WW_INLINE void memcpy_async(const Group& group, void* to, const void* from, const Size& bytes, WW_LINE) {
  ww::copy_part_async(to, from, static_cast<size_t>(bytes), group.thread_rank(), group.size(), line);
  ww_copy_commit();
}
// The sizes are in elements; copies the smaller number of the two.
template <class Group, class T, class To, class From>
WW_INLINE void memcpy_async(const Group& group, T* to, const To& to_elements, const T* from, const From& from_elements,
                            WW_LINE) {
  const size_t most = static_cast<size_t>(to_elements), have = static_cast<size_t>(from_elements);
  ww::copy_part_async(to, from, (have < most ? have : most) * sizeof(T), group.thread_rank(), group.size(), line);
  ww_copy_commit();
}
template <class Group>
WW_INLINE void wait(const Group& group, WW_LINE) {
  ww_copy_wait(0);
  group.sync(line);
}
template <unsigned Newest, class Group>
WW_INLINE void wait_prior(const Group& group, WW_LINE) {
  ww_copy_wait(Newest);
  group.sync(line);
}
}  // namespace cooperative_groups
