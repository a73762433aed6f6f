// Reports: one for each defect found during a launch, in the layout that Python reads. runtime.py mirrors the
// structures, and findings.py turns each report into a finding with a line of the kernel's source.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace ww {

using Address = uintptr_t;

enum Kind : int32_t {
  kOutOfBounds = 1,
  kDataRace,
  kUninitializedRead,
  kUnwrittenOutput,
  kReadOnlyWrite,
  kMisalignedAccess,
  kBarrierDivergence,
  kDeadlock,
  kUndefinedBehaviour,
  kKernelAssertion,
  kKernelTimeout,
  kUnsupportedFeature,
  kLaunchError,
  kSpecialValue,
};

enum Action : int32_t {
  kRead,
  kWrite,
  kAtomic,
  kAsyncCopy,
  kWait,
  kReturned,
  kExecuted,
  kUnknownThread,
  kVolatileRead,
  kVolatileWrite
};

enum Space : int32_t { kNoSpace, kGlobal, kShared, kDynamicShared, kModule, kLocal };

// One of the threads in a report, and what it did. `pc` is a return address in the kernel's library; `line` is set for
// operations that pass their place (ww_place), else 0.
struct Side {
  uint32_t block[3], thread[3];
  Action action;
  int32_t line;
  uint64_t pc;
  char label[32];  // name of the barrier or warp operation that the thread waits at
};

constexpr unsigned kCallers = 16;

struct Report {
  Kind kind;
  Space space;
  Side access, other;
  int32_t has_other;
  uint32_t access_bytes, element_bytes;
  int64_t index, elements;
  uint64_t address, count;
  uint64_t passed_operation, passed_access;  // see note_exited_lanes
  uint64_t callers[kCallers];                // of a timeout: see Callers
  uint32_t inner[2];                         // of ww_site
  char variable[64];
  char message[320];
  char hint[160];  // what a data race lacks, or empty
};

// A new report about the current thread, with `access.action` kExecuted.
Report new_report(Kind kind, Address pc = 0, int line = 0);
bool same_defect(const Report& a, const Report& b);
// Adds a report, or increments the count of an equal one.
void add_report(const Report& report);
// Adds a report and ends the launch: switches to the scheduler's fiber and does not return.
[[noreturn]] void fatal_report(Report report, const char* format, ...) __attribute__((format(printf, 2, 3)));
void set_message(Report& report, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace ww
