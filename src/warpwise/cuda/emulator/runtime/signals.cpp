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

struct sigaction old_faults[4], old_tick;
pthread_t launching;
stack_t old_stack;
alignas(64) char fault_stack[64 * 1024];

// Set by the fault handler, read once the scheduler runs again.
volatile sig_atomic_t fault_signal = 0;
Address fault_address = 0, fault_pc = 0, fault_stack_pointer = 0;
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
  return reinterpret_cast<Address>(&context);  // of the handler, which runs further down on the same stack
#endif
}

void note_place(void* context) {
  fault_pc = program_counter(context);
  fault_stack_pointer = stack_pointer(context);
  fault_thread = world.current;
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
  note_place(context);
  leave_launch();
}

// Kernels without checks never give way by themselves, and one that only computes never looks at the clock.
void on_tick(int, siginfo_t*, void* context) {
  if (!pthread_equal(pthread_self(), launching)) return;
  if (!world.stop && world.deadline > 0 && now() > world.deadline) world.stop = static_cast<int>(Stop::kTimeout);
  if (world.stop) {
    world.budget = 0;
    if (++ticks_stopped < kTicksUntilForced || !world.current) return;
    if (stack_pointer(context) - reinterpret_cast<Address>(world.current->stack) >= kStackBytes) return;  // on its way
    if (!in_kernel_code(program_counter(context)) && ticks_stopped < 20 * kTicksUntilForced) return;
    note_place(context);
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
  set_timer(kTick);
}

SignalGuard::~SignalGuard() {
  set_timer(0);
  for (int i = 0; i < 4; i++) sigaction(kFaults[i], &old_faults[i], nullptr);
  sigaltstack(&old_stack, nullptr);
}

namespace {

void report_signal() {
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

}  // namespace

void report_fault() {
  if (!forced && !fault_signal) return;
  world.current = fault_thread;
  if (fault_signal)
    report_signal();
  else if (world.stop == static_cast<int>(Stop::kTimeout))
    report_timeout(in_kernel_code(fault_pc) ? fault_pc + 1 : 0, place_on_stack(*fault_thread, fault_stack_pointer));
  world.current = nullptr;
}

}  // namespace ww
