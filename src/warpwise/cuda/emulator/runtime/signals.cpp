#include "signals.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "access.h"
#include "fibers.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace ww {
namespace {

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr long kTick = 10'000'000;  // ns
constexpr int kTicksUntilForced = 3;

struct sigaction old_faults[4], old_interrupt, old_tick;
bool watches_interrupt = false;
pthread_t launching;
stack_t old_stack;
alignas(64) char fault_stack[64 * 1024];

// Set by the fault handler, read once the scheduler runs again.
volatile sig_atomic_t fault_signal = 0;
Address fault_address = 0, fault_pc = 0;
volatile sig_atomic_t forced = 0;
int ticks_stopped = 0;
uint64_t resumes_seen = 0;
int ticks_without_switch = 0;

Address program_counter(void* context) {
  const ucontext_t* interrupted = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  return static_cast<Address>(interrupted->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<Address>(interrupted->uc_mcontext.pc);
#else
  (void)interrupted;
  return 0;
#endif
}

void set_timer(long every);

// A fault in a kernel ends the launch; any other goes where it would have gone.
void on_fault(int signal, siginfo_t* info, void* context) {
  if (!runs_kernel()) {
    for (int i = 0; i < 4; i++)
      if (kFaults[i] == signal) sigaction(signal, &old_faults[i], nullptr);
    return;  // it happens again, under the old handler
  }
  fault_signal = signal;
  fault_address = reinterpret_cast<Address>(info->si_addr);
  fault_pc = program_counter(context);
  leave_launch();
}

// Kernels without checks never give way by themselves, and one that only computes never looks at the clock.
void on_tick(int, siginfo_t*, void* context) {
  if (!pthread_equal(pthread_self(), launching)) return;
  if (!world.stop && world.deadline > 0 && now() > world.deadline) world.stop = static_cast<int>(Stop::kTimeout);
  if (world.stop) {
    world.budget = 0;
    if (++ticks_stopped < kTicksUntilForced || !world.current) return;
    if (!in_kernel_code(program_counter(context)) && ticks_stopped < 20 * kTicksUntilForced) return;
    fault_pc = program_counter(context);
    forced = 1;
    leave_launch();
  }
  if (world.resumes != resumes_seen) {
    resumes_seen = world.resumes;
    ticks_without_switch = 0;
  } else if (!world.checks.any && ++ticks_without_switch >= 2 && world.current &&
             in_kernel_code(program_counter(context))) {
    ticks_without_switch = 0;
    world.preempted = true;
    set_timer(kTick / 10);  // it will happen again: be quicker
    give_way();
  }
}

// Two runtimes that end in another order than they began leave each other's handlers behind: told once, not in a
// circle.
volatile sig_atomic_t telling = 0;
void on_interrupt(int signal, siginfo_t* info, void* context) {
  if (telling) return;
  telling = 1;
  if (old_interrupt.sa_flags & SA_SIGINFO) {
    if (old_interrupt.sa_sigaction) old_interrupt.sa_sigaction(signal, info, context);
  } else if (old_interrupt.sa_handler != SIG_DFL && old_interrupt.sa_handler != SIG_IGN) {
    old_interrupt.sa_handler(signal);
  }
  telling = 0;
  // Last: Python's flag must be up when the call returns, or a second interrupt would follow ours.
  world.stop = static_cast<int>(Stop::kInterrupt);
}

int tick_signal() { return SIGRTMIN + 7; }

struct sigaction action(void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction result;
  memset(&result, 0, sizeof result);
  result.sa_sigaction = handler;
  result.sa_flags =
      SA_SIGINFO | SA_NODEFER | flags;  // handlers are left by switching fibers, so nothing may stay blocked
  return result;
}

// One timer an OS thread, made when it first launches and set for each launch.
struct Timer {
  timer_t id;
  pid_t owner = 0;  // a forked process has no timers
  bool made = false;
  void make() {
    if (owner == getpid()) return;
    owner = getpid();
    sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = tick_signal();
    event.sigev_notify_thread_id = static_cast<int>(syscall(SYS_gettid));
    made = timer_create(CLOCK_MONOTONIC, &event, &id) == 0;
  }
  ~Timer() {
    if (made && owner == getpid()) timer_delete(id);
  }
};
Timer& timer() {
  static thread_local Timer own;
  own.make();
  return own;
}
void set_timer(long every) {
  const itimerspec spec{{0, every}, {0, every}};
  if (timer().made) timer_settime(timer().id, 0, &spec, nullptr);
}

}  // namespace

bool runs_kernel() { return world.current && pthread_equal(pthread_self(), launching); }

SignalGuard::SignalGuard(double timeout) {
  launching = pthread_self();
  fault_signal = forced = 0;
  ticks_stopped = ticks_without_switch = 0;
  world.stop = 0;
  world.timeout = timeout;
  world.started = now();
  world.deadline = timeout > 0 ? world.started + timeout : 0;
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = fault_stack;
  stack.ss_size = sizeof fault_stack;
  sigaltstack(&stack, &old_stack);
  const struct sigaction on_faults = action(on_fault, SA_ONSTACK), on_ticks = action(on_tick, SA_RESTART);
  for (int i = 0; i < 4; i++) sigaction(kFaults[i], &on_faults, &old_faults[i]);
  sigaction(tick_signal(), &on_ticks, &old_tick);
  struct sigaction found;
  sigaction(SIGINT, nullptr, &found);
  const bool informed = found.sa_flags & SA_SIGINFO;
  watches_interrupt =
      informed ? found.sa_sigaction != on_interrupt : found.sa_handler != SIG_DFL && found.sa_handler != SIG_IGN;
  if (watches_interrupt) {
    old_interrupt = found;
    struct sigaction on_interrupts = action(on_interrupt, SA_ONSTACK);
    on_interrupts.sa_flags &= ~SA_NODEFER;
    sigaction(SIGINT, &on_interrupts, nullptr);
  }
  set_timer(kTick);
}

SignalGuard::~SignalGuard() {
  set_timer(0);
  if (watches_interrupt) sigaction(SIGINT, &old_interrupt, nullptr);
  for (int i = 0; i < 4; i++) sigaction(kFaults[i], &old_faults[i], nullptr);
  sigaltstack(&old_stack, nullptr);
}

void report_fault() {
  if (forced && world.stop == static_cast<int>(Stop::kTimeout)) {
    Report report = new_report(kKernelTimeout, fault_pc + 1);
    set_message(report, "still running after %.1f s (%llu of %llu blocks done)", world.timeout,
                static_cast<unsigned long long>(world.finished_blocks), static_cast<unsigned long long>(world.blocks));
    add_report(report);
  }
  if (!fault_signal) return;
  if (fault_signal == SIGFPE) {
    Report report = new_report(kUndefinedBehaviour, fault_pc + 1);
    set_message(report, "integer division by zero, or one that overflows");
    add_report(report);
    return;
  }
  Report report = new_report(kOutOfBounds, fault_pc + 1);
  report.address = fault_address;
  if (fault_signal == SIGILL) {
    report.kind = kUndefinedBehaviour;
    set_message(report, "code marked unreachable was reached");
  } else if (in_guard_page(fault_address)) {
    report.space = kLocal;
    set_message(report, "stack overflow: a thread's local variables and calls need more than %zu KB",
                kStackBytes / 1024);
  } else if (const Slot* slot = slot_of(fault_address); slot && !slot->views.empty()) {
    describe(report, *slot, fault_address);
  } else {
    set_message(report,
                fault_address < 4096 ? "null pointer" : "the address belongs to no argument, shared or local variable");
  }
  add_report(report);
}

}  // namespace ww
