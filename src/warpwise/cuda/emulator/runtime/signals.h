// Signals while a kernel runs: a timer for kernels that never call us, and faults that become findings.
#pragma once

namespace ww {

// Installs handlers and starts the timer; the destructor puts back what was there before.
class SignalGuard {
 public:
  explicit SignalGuard(double timeout);
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
};

// Turns a fault that ended the launch into a report, while blocks and stacks are as they were.
void report_fault();

}  // namespace ww
