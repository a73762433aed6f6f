// The built-in variables threadIdx, blockIdx, blockDim, gridDim and warpSize; the clock; __trap.
#pragma once

namespace ww {
WW_INLINE const uint3 index(ww_dim3 v) { return {v.x, v.y, v.z}; }
WW_INLINE const dim3 extent(ww_dim3 v) { return {v.x, v.y, v.z}; }
}  // namespace ww

#define threadIdx (ww::index(ww_thread_index()))
#define blockIdx (ww::index(ww_block_index()))
#define blockDim (ww::extent(ww_block_dim()))
#define gridDim (ww::extent(ww_grid_dim()))
static constexpr int warpSize = 32;

WW_INLINE long long clock64() { return static_cast<long long>(ww_clock()); }
WW_INLINE long clock() noexcept { return static_cast<long>(ww_clock()); }
WW_INLINE unsigned long long globaltimer() { return ww_clock(); }

[[noreturn]] WW_INLINE void __trap(WW_LINE) {
  ww_fail(WW_ASSERT, "__trap() was called", line);
  __builtin_unreachable();
}
WW_INLINE void __brkpt() {}
#define __builtin_assume(condition) ((condition) ? static_cast<void>(0) : __builtin_unreachable())
