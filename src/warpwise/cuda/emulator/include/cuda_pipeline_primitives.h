// cuda_pipeline_primitives.h for the emulator: the functions __pipeline_*.
#pragma once
#include "cuda_awbarrier_primitives.h"
#include "ww/async.h"

WW_INLINE void __pipeline_memcpy_async(void* __restrict__ to, const void* __restrict__ from, size_t bytes,
                                       size_t zeroed = 0, WW_LINE) {
  const size_t both = reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from);
  if (bytes != 4 && bytes != 8 && bytes != 16)
    ww_fail(WW_UNDEFINED, "__pipeline_memcpy_async copies 4, 8 or 16 bytes", line);
  if (both % bytes)
    ww_fail(WW_UNDEFINED, "__pipeline_memcpy_async: both addresses must be multiples of the number of bytes copied",
            line);
  if (zeroed > bytes)
    ww_fail(WW_UNDEFINED, "__pipeline_memcpy_async: zfill is larger than the number of bytes copied", line);
  ww::copy_async(to, from, bytes, zeroed, line);
}
WW_INLINE void __pipeline_commit() { ww_copy_commit(); }
WW_INLINE void __pipeline_wait_prior(size_t newest) { ww_copy_wait(static_cast<unsigned>(newest)); }
WW_INLINE void __pipeline_arrive_on(__mbarrier_t* barrier) { ww_barrier_track_copies(barrier); }
