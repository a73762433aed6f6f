// mbarriers: the barriers of PTX with a count of the bytes of bulk copies that a phase expects.
#include "access.h"

using namespace ww;

extern "C" void ww_mbarrier_init(void* object, unsigned expected, int line) {
  if (expected < 1 || expected >= 1u << 20)
    fatal_report(new_report(kUndefinedBehaviour, 0, line), "mbarrier.init: expected 1 to 1048575 arrivals, got %u",
                 expected);
  if (runtime.checks.races) runtime.block->clocks.use_agents();
  initialise_barrier(object, 8, expected, kStrongAccess, __builtin_return_address(0), line);
}

extern "C" void ww_mbarrier_invalidate(void* object, int line) {
  access_barrier(object, "mbarrier.inval", line, __builtin_return_address(0));
  owner_of_shared(reinterpret_cast<Address>(object)).barriers.erase(reinterpret_cast<Address>(object));
}

extern "C" void ww_mbarrier_expect(void* object, int64_t bytes, int line) {
  Barrier& barrier = access_barrier(object, "mbarrier", line, __builtin_return_address(0));
  constexpr int64_t kMost = (1 << 20) - 1;
  barrier.bytes += bytes;
  if (barrier.bytes > kMost || barrier.bytes < -kMost)
    fatal_report(new_report(kUndefinedBehaviour, 0, line),
                 "mbarrier: a phase counts at most %lld bytes of bulk copies, not %lld", static_cast<long long>(kMost),
                 static_cast<long long>(barrier.bytes));
  if (!barrier.pending && !barrier.bytes) complete_phase(barrier, object);
}

extern "C" uint64_t ww_mbarrier_arrive(void* object, unsigned count, int drop, int line) {
  Barrier& barrier = access_barrier(object, "mbarrier.arrive", line, __builtin_return_address(0));
  return arrive_at(barrier, object, count, drop != 0, line);
}

extern "C" int ww_mbarrier_wait(void* object, uint64_t phase, int is_parity, int blocks, int line) {
  const char* what = blocks ? "mbarrier.try_wait" : "mbarrier.test_wait";
  Barrier& barrier = access_barrier(object, what, line, __builtin_return_address(0));
  deliver(barrier, object);
  if (is_parity) {  // of the current phase, or of the one before, which is complete
    if ((barrier.phase & 1) != (phase & 1)) {
      acquire_barrier(barrier, object);
      return 1;
    }
    phase = barrier.phase;
  }
  if (barrier.phase <= phase && !blocks) yield_thread();
  if (barrier.phase <= phase && !blocks) return 0;
  wait_for(barrier, object, phase, what, line, true);
  return barrier.phase > phase;
}

extern "C" unsigned ww_mbarrier_pending(void* object, int line) {
  return access_barrier(object, "mbarrier.pending_count", line, __builtin_return_address(0)).pending;
}
