// Signal handling during a launch: a timer for the timeout and for preemption, and handlers that turn a kernel's faults
// (SIGSEGV, ...) into reports.
#pragma once

namespace ww {

// Installs the handlers and starts the timer; the destructor restores the previous state.
class SignalGuard {
 public:
  explicit SignalGuard(double timeout);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
};

// Adds a report if a fault or the timer ended the launch. Call it before the blocks and stacks are released.
void report_fault();

}  // namespace ww
