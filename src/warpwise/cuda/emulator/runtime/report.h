// What a launch found, in the layout that Python reads (runtime.py mirrors these structures and compares their sizes).
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
};

enum Action : int32_t { kRead, kWrite, kAtomic, kAsyncCopy, kWait, kReturned, kExecuted, kNobody };

enum Space : int32_t { kNoSpace, kGlobal, kShared, kDynamicShared, kModule, kLocal };

// One side of a report. `pc` is a return address in the kernel's library, `line` is known for calls that carry it.
struct Side {
  uint32_t block[3], thread[3];
  Action action;
  int32_t line;
  uint64_t pc;
  char label[32];  // of what is waited for
};

struct Report {
  Kind kind;
  Space space;
  Side access, other;
  int32_t has_other;
  uint32_t access_bytes, element_bytes;
  int64_t index, elements;
  uint64_t address, count;
  char variable[64];
  char message[320];
};

// A report about what the current thread does; `access.action` is kExecuted until set.
Report new_report(Kind kind, Address pc = 0, int line = 0);
// Adds a report, or counts it if the same one stands already.
void add_report(const Report& report);
// Adds a report and ends the launch: switches to the scheduler and never comes back.
[[noreturn]] void fatal_report(Report report, const char* format, ...) __attribute__((format(printf, 2, 3)));
void set_message(Report& report, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace ww
