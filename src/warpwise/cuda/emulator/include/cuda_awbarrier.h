// cuda_awbarrier.h for the emulator: nvcuda::experimental::awbarrier, an mbarrier as a class.
#pragma once
#include "cuda_awbarrier_primitives.h"

namespace nvcuda {
namespace experimental {

class awbarrier {
 public:
  class arrival_token {
   public:
    arrival_token() = default;
    WW_MEMBER uint32_t pending_count(WW_LINE) const { return __mbarrier_token_pending_count(token_, line); }

   private:
    WW_MEMBER explicit arrival_token(uint64_t token) : token_(token) {}
    uint64_t token_;
    friend class awbarrier;
  };

  awbarrier() = default;
  awbarrier(const awbarrier&) = delete;
  awbarrier& operator=(const awbarrier&) = delete;

  WW_MEMBER arrival_token arrive(WW_LINE) { return arrival_token(__mbarrier_arrive(&state_, line)); }
  WW_MEMBER arrival_token arrive_and_drop(WW_LINE) { return arrival_token(__mbarrier_arrive_and_drop(&state_, line)); }
  WW_MEMBER void wait(arrival_token token, WW_LINE) { ww_barrier_wait(&state_, token.token_, line); }
  WW_MEMBER void arrive_and_wait(WW_LINE) { wait(arrive(line), line); }
  WW_MEMBER bool timed_wait(arrival_token token, uint32_t, WW_LINE) {
    return __mbarrier_test_wait(&state_, token.token_, line);
  }
  WW_MEMBER bool timed_wait_parity(bool phase, uint32_t) { return __mbarrier_test_wait_parity(&state_, phase); }
  WW_MEMBER bool try_wait(arrival_token token, uint32_t nanoseconds, WW_LINE) {
    return __mbarrier_try_wait(&state_, token.token_, nanoseconds, line);
  }
  WW_MEMBER bool try_wait_parity(bool phase, uint32_t nanoseconds) {
    return __mbarrier_try_wait_parity(&state_, phase, nanoseconds);
  }
  static constexpr uint32_t max() { return __mbarrier_maximum_count(); }

 private:
  uint64_t state_;
  friend WW_MEMBER void init(awbarrier* barrier, uint32_t expected, WW_LINE) {
    __mbarrier_init(&barrier->state_, expected, line);
  }
  friend WW_MEMBER void inval(awbarrier* barrier) { __mbarrier_inval(&barrier->state_); }
  friend class pipeline;
};

}  // namespace experimental
}  // namespace nvcuda
