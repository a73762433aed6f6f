// Ctrl-C while a runtime works on a thread without Python: the work is stopped, and whoever listened before is told.
#pragma once
#include <signal.h>
#include <string.h>

namespace ww {

// Include it in one source of a library: each library has a handler of its own, and guards of one do not overlap.
class InterruptGuard {
 public:
  // Sets `stop` to 0, and to `value` when an interrupt comes, from now until the guard's end.
  InterruptGuard(volatile int& stop, int value) {
    stop = 0;
    value_ = value;
    stop_ = &stop;
    struct sigaction found;
    sigaction(SIGINT, nullptr, &found);
    const bool informed = found.sa_flags & SA_SIGINFO;
    // Another library's guard that has begun since our last one calls ours already: no second place in that chain.
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
  // Under another library's handler ours stays where it is, and only passes on what comes.
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
    // Last: Python's flag must be up when the work ends, or a second KeyboardInterrupt would follow the first.
    if (volatile int* stop = stop_) *stop = value_;
  }

  static inline struct sigaction before_;
  static inline volatile int* volatile stop_ = nullptr;
  static inline int value_ = 0;
  static inline bool in_chain_ = false;
};

}  // namespace ww
