// Finds the first NaN, infinity and subnormal number that a kernel computes although no operand is one. In arithmetic
// the host's floating-point exceptions detect them: a quiet NaN as operand raises no exception, so an exception marks
// the operation that creates a NaN.
#pragma once
#include "state.h"

namespace ww {

// Traps the exceptions during its lifetime. `on`: the launch has this check.
class NumberGuard {
 public:
  explicit NumberGuard(bool on);
  ~NumberGuard();
  NumberGuard(const NumberGuard&) = delete;
  NumberGuard& operator=(const NumberGuard&) = delete;

 private:
  const bool on_;
};

constexpr bool kCanTrapNumbers =
#if defined(__x86_64__)
    true;
#else
    false;
#endif

// Handles SIGFPE and SIGTRAP of a floating-point operation; false for other causes.
bool trap_number(int signal, int code, void* context);

}  // namespace ww
