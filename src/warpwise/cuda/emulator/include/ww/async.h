// Asynchronous copies for __pipeline_memcpy_async, cuda::memcpy_async and cooperative_groups::memcpy_async.
#pragma once
#include "../warpwise_device.h"

// An inlined member function; see WW_INLINE.
#define WW_MEMBER inline __attribute__((always_inline))

namespace ww {
// A copy from global to shared memory is asynchronous: a wait completes it. Any other copy is synchronous. The last
// `zeroed` bytes are filled with zeros.
WW_UNINSTRUMENTED void copy_async(void* to, const void* from, size_t bytes, size_t zeroed, int line) {
  constexpr unsigned kNotShared = 0xffffffffu;
  const size_t copied = zeroed < bytes ? bytes - zeroed : 0;
  if (ww_to_shared(to) != kNotShared && ww_to_shared(from) == kNotShared) {
    ww_copy_async(to, from, bytes, copied, line);
    return;
  }
  ww_check_access(from, copied, 0, line);
  ww_check_access(to, bytes, 1, line);
  __builtin_memmove(to, from, copied);
  __builtin_memset(static_cast<char*>(to) + copied, 0, bytes - copied);
}

// The part that thread `rank` of `threads` threads contributes to a collective copy, in pieces of 16, 8, 4 or 1 bytes.
WW_UNINSTRUMENTED void copy_part_async(void* to, const void* from, size_t bytes, unsigned rank, unsigned threads,
                                       int line) {
  const size_t both = reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from) | bytes;
  const size_t piece = both % 16 == 0 ? 16 : both % 8 == 0 ? 8 : both % 4 == 0 ? 4 : 1;
  for (size_t at = rank * piece; at < bytes; at += threads * piece)
    copy_async(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, piece, 0, line);
}
}  // namespace ww

namespace cuda {
#ifndef WW_THREAD_SCOPE
#define WW_THREAD_SCOPE
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
#endif

// A number of bytes, where source and destination are aligned to `Alignment`.
template <size_t Alignment>
struct aligned_size_t {
  static constexpr size_t align = Alignment;
  size_t value;
  explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
  constexpr operator size_t() const { return value; }
};
}  // namespace cuda
