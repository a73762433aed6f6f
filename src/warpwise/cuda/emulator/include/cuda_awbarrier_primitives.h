// cuda_awbarrier_primitives.h for the emulator: mbarriers as functions of C. The token of an arrival is its phase.
#pragma once
#include "cuda/ptx"

typedef uint64_t __mbarrier_t;
typedef uint64_t __mbarrier_token_t;

WW_INLINE constexpr uint32_t __mbarrier_maximum_count() { return (1u << 20) - 1; }
WW_INLINE void __mbarrier_init(__mbarrier_t* barrier, uint32_t expected, WW_LINE) {
  ww_barrier_init(barrier, sizeof *barrier, expected, line);
}
WW_INLINE void __mbarrier_inval(__mbarrier_t* barrier) { cuda::ptx::mbarrier_inval(barrier); }
WW_INLINE __mbarrier_token_t __mbarrier_arrive(__mbarrier_t* barrier, WW_LINE) {
  return ww_barrier_arrive(barrier, 1, 0, line);
}
WW_INLINE __mbarrier_token_t __mbarrier_arrive_and_drop(__mbarrier_t* barrier, WW_LINE) {
  return ww_barrier_arrive(barrier, 1, 1, line);
}
WW_INLINE uint32_t __mbarrier_token_pending_count(__mbarrier_token_t, WW_LINE) {
  ww_fail(WW_UNSUPPORTED, "the pending count of an mbarrier's token is not emulated", line);
  return 0;
}
WW_INLINE bool __mbarrier_test_wait(__mbarrier_t* barrier, __mbarrier_token_t token, WW_LINE) {
  return ww_barrier_try_wait(barrier, token, line) != 0;
}
WW_INLINE bool __mbarrier_try_wait(__mbarrier_t* barrier, __mbarrier_token_t token, uint32_t, WW_LINE) {
  return ww_barrier_try_wait(barrier, token, line) != 0;
}
WW_INLINE bool __mbarrier_test_wait_parity(__mbarrier_t* barrier, bool parity) {
  return cuda::ptx::mbarrier_test_wait_parity(barrier, parity);
}
WW_INLINE bool __mbarrier_try_wait_parity(__mbarrier_t* barrier, bool parity, uint32_t) {
  return cuda::ptx::mbarrier_try_wait_parity(barrier, parity);
}
