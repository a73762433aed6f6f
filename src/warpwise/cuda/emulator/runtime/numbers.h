// The first NaN, infinity and subnormal number that a kernel computes from operands that are none. The host's
// floating-point exceptions find those of arithmetic: a quiet NaN raises none, so an exception marks where one arises.
#pragma once
#include "state.h"

namespace ww {

// While it exists, the exceptions are trapped. `on`: this launch looks for such numbers.
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
