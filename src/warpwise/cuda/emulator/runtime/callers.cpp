// See callers.h. The words of a stack do not suffice: they contain return addresses of calls that have ended.
#include "callers.h"

#include <unwind.h>

#include "fibers.h"
#include "scheduler.h"

namespace ww {
namespace {

constexpr unsigned kMaxFrames = 256;

struct Walk {
  Callers found;
  unsigned places, frames;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  if (_Unwind_GetRegionStart(context) == reinterpret_cast<Address>(thread_main)) return _URC_END_OF_STACK;
  int is_interrupted = 0;  // the address is that of an instruction that a signal has interrupted
  const Address pc = _Unwind_GetIPInfo(context, &is_interrupted) + (is_interrupted ? 1 : 0);
  if (in_kernel_code(pc - 1)) walk.found.places[walk.places++] = pc;
  return walk.places < kCallers && ++walk.frames < kMaxFrames ? _URC_NO_REASON : _URC_END_OF_STACK;
}

Callers parked;  // the result of return_callers

}  // namespace

Callers callers_here() {
  Walk walk = {};
  const bool before = runtime.locating;
  runtime.locating = true;
  _Unwind_Backtrace(visit, &walk);
  runtime.locating = before;
  return walk.found;
}

Callers callers_of_parked(Thread& thread) {
  parked = {};
  runtime.locating = true;
  switch_fiber(&runtime.scheduler, thread.stack_pointer);
  runtime.locating = false;
  return parked;
}

void return_callers() {
  parked = callers_here();
  void* never;
  switch_fiber(&never, runtime.scheduler);
  __builtin_unreachable();
}

}  // namespace ww
