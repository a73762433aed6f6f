// InterruptGuard: lets Ctrl-C (SIGINT) stop a launch while a runtime runs outside Python's interpreter. The handler
// sets a flag that the runtime polls, and calls the previous handler, so that Python raises KeyboardInterrupt
// afterwards.
#pragma once
#include <signal.h>
#include <string.h>

namespace ww {

// Include this header in one source file of a library: each library has its own handler. Two guards of the same library
// must not exist at the same time.
class InterruptGuard {
 public:
  // Sets `stop` to 0, and to `value` if an interrupt arrives during the guard's lifetime.
  InterruptGuard(volatile int& stop, int value) {
    stop = 0;
    value_ = value;
    stop_ = &stop;
    struct sigaction found;
    sigaction(SIGINT, nullptr, &found);
    const bool informed = found.sa_flags & SA_SIGINFO;
    // Already installed, or another library's handler calls this one: do not install it twice.
    if (informed && (in_chain_ || found.sa_sigaction == on_interrupt)) return;
    if (!informed && (found.sa_handler == SIG_DFL || found.sa_handler == SIG_IGN)) return;
    before_ = found;
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_interrupt;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigaction(SIGINT, &ours, nullptr);
    in_chain_ = true;
  }
  // If another library's handler was installed later, this one stays in its chain and only forwards signals.
  ~InterruptGuard() {
    stop_ = nullptr;
    struct sigaction found;
    sigaction(SIGINT, nullptr, &found);
    if (!(found.sa_flags & SA_SIGINFO) || found.sa_sigaction != on_interrupt) return;
    sigaction(SIGINT, &before_, nullptr);
    in_chain_ = false;
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  static void on_interrupt(int signal, siginfo_t* info, void* context) {
    if (before_.sa_flags & SA_SIGINFO)
      before_.sa_sigaction(signal, info, context);
    else
      before_.sa_handler(signal);
    // After the previous handler: if Python recorded the interrupt after the launch, KeyboardInterrupt would occur
    // twice.
    if (volatile int* stop = stop_) *stop = value_;
  }

  static inline struct sigaction before_;
  static inline volatile int* volatile stop_ = nullptr;
  static inline int value_ = 0;
  static inline bool in_chain_ = false;
};

}  // namespace ww
