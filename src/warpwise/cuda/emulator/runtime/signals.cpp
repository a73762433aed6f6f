// Signal handlers and the timer of a launch; see signals.h.
#include "signals.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "access.h"
#include "callers.h"
#include "fibers.h"
#include "numbers.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace ww {
namespace {

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}, kFaultCount = 5;
constexpr long kTick = 10'000'000;  // ns
constexpr int kTicksUntilForced = 3;

struct sigaction old_faults[kFaultCount], old_tick;
pthread_t launching;
stack_t old_stack;
alignas(64) char fault_stack[64 * 1024];

// Written by the signal handlers, read by the scheduler.
volatile sig_atomic_t fault_signal = 0;
Address fault_address = 0, fault_pc = 0;
Callers forced_at = {};
Thread* fault_thread = nullptr;
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

Address stack_pointer(void* context) {
  const ucontext_t* interrupted = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  return static_cast<Address>(interrupted->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return static_cast<Address>(interrupted->uc_mcontext.sp);
#else
  (void)interrupted;
  return reinterpret_cast<Address>(
      &context);  // an address in the handler's frame, below the kernel's on the same stack
#endif
}

void set_timer(long every);

// A fault in a kernel ends the launch; any other is passed to the previous handler.
void on_fault(int signal, siginfo_t* info, void* context) {
  if ((signal == SIGFPE || signal == SIGTRAP) && trap_number(signal, info->si_code, context)) return;
  if (!on_kernel_fiber()) {
    for (int i = 0; i < kFaultCount; i++)
      if (kFaults[i] == signal) sigaction(signal, &old_faults[i], nullptr);
    return;  // the faulting instruction repeats, with the previous handler installed
  }
  fault_signal = signal;
  fault_address = reinterpret_cast<Address>(info->si_addr);
  fault_pc = program_counter(context);
  fault_thread = runtime.current;
  abort_launch();
}

// Timer handler. Enforces the timeout, and preempts threads of kernels that are compiled without checks: these call no
// hooks that would let other threads run.
void on_tick(int, siginfo_t*, void* context) {
  if (!pthread_equal(pthread_self(), launching)) return;
  if (!runtime.stop && runtime.deadline > 0 && now() > runtime.deadline)
    runtime.stop = static_cast<int>(Stop::kTimeout);
  if (runtime.stop) {
    runtime.budget = 0;
    if (++ticks_stopped < kTicksUntilForced || !runtime.current || runtime.locating) return;
    if (stack_pointer(context) - reinterpret_cast<Address>(runtime.current->stack) >= kStackBytes)
      return;  // no longer on the thread's stack: already switching
    if (!in_kernel_code(program_counter(context)) && ticks_stopped < 20 * kTicksUntilForced) return;
    fault_thread = runtime.current;
    forced_at = callers_here();
    forced = 1;
    abort_launch();
  }
  if (runtime.resumes != resumes_seen) {
    resumes_seen = runtime.resumes;
    ticks_without_switch = 0;
  } else if (!runtime.checks.any && ++ticks_without_switch >= 2 && runtime.current &&
             in_kernel_code(program_counter(context))) {
    ticks_without_switch = 0;
    runtime.preempted = true;
    set_timer(kTick / 10);  // the kernel polls: preempt sooner from now on
    yield_thread();
  }
}

int tick_signal() { return SIGRTMIN + 7; }

struct sigaction action(void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction result;
  memset(&result, 0, sizeof result);
  result.sa_sigaction = handler;
  result.sa_flags = SA_SIGINFO | SA_NODEFER | flags;  // a handler may switch fibers and not return: block no signals
  return result;
}

// One timer per OS thread, created at its first launch.
struct Timer {
  timer_t id;
  pid_t owner = 0;  // a forked process does not inherit timers
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

bool on_kernel_fiber() { return runtime.current && pthread_equal(pthread_self(), launching); }

SignalGuard::SignalGuard(double timeout) {
  launching = pthread_self();
  fault_signal = forced = 0;
  ticks_stopped = ticks_without_switch = 0;
  runtime.timeout = timeout;
  runtime.started = now();
  runtime.deadline = timeout > 0 ? runtime.started + timeout : 0;
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = fault_stack;
  stack.ss_size = sizeof fault_stack;
  sigaltstack(&stack, &old_stack);
  const struct sigaction on_faults = action(on_fault, SA_ONSTACK), on_ticks = action(on_tick, SA_RESTART);
  for (int i = 0; i < kFaultCount; i++) sigaction(kFaults[i], &on_faults, &old_faults[i]);
  sigaction(tick_signal(), &on_ticks, &old_tick);
  set_timer(kTick);
}

SignalGuard::~SignalGuard() {
  set_timer(0);
  for (int i = 0; i < kFaultCount; i++) sigaction(kFaults[i], &old_faults[i], nullptr);
  sigaltstack(&old_stack, nullptr);
}

namespace {

void report_signal() {
  if (fault_signal == SIGFPE) {
    Report report = new_report(kUndefinedBehaviour, fault_pc + 1);
    set_message(report, "integer division by zero, or an integer division that overflows");
    add_report(report);
    return;
  }
  Report report = new_report(kOutOfBounds, fault_pc + 1);
  report.address = fault_address;
  if (fault_signal == SIGILL) {
    report.kind = kUndefinedBehaviour;
    set_message(report, "the kernel reaches code that is marked unreachable");
  } else if (in_guard_page(fault_address)) {
    report.space = kLocal;
    set_message(report, "stack overflow: a thread's local variables and function calls take more than %zu KB",
                kStackBytes / 1024);
  } else if (const Slot* slot = slot_of(fault_address); slot && !slot->views.empty()) {
    describe(report, *slot, fault_address);
  } else {
    set_message(report, fault_address < 4096
                            ? "null pointer"
                            : "the address is not in an argument, a shared variable or a local variable");
  }
  add_report(report);
}

}  // namespace

void report_fault() {
  if (!forced && !fault_signal) return;
  runtime.current = fault_thread;
  if (fault_signal)
    report_signal();
  else if (runtime.stop == static_cast<int>(Stop::kTimeout))
    report_timeout(forced_at);
  runtime.current = nullptr;
}

}  // namespace ww
