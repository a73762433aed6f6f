// Signals while a kernel runs: a timer for kernels that never call us, faults that become findings, and Ctrl-C.
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

// After the launch: turns a fault that ended it into a report.
void report_fault();

}  // namespace ww
