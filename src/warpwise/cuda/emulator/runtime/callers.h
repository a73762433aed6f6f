// Places in the kernel's code on the stack of a CUDA thread, found by the unwind tables of the kernel and the runtime.
#pragma once
#include "state.h"

namespace ww {

struct Callers {
  Address places[kCallers];  // return addresses in the kernel's code, innermost first; unused elements are 0
};

// Those of the running thread, on its fiber or in a signal handler that has interrupted it. A signal handler's result
// begins with the interrupted instruction, if it is in the kernel's code, plus 1.
Callers callers_here();
// Those of a thread that is parked. The thread must not be resumed afterwards.
Callers callers_of_parked(Thread& thread);
// Ends callers_of_parked, on the fiber of the thread. park calls it if runtime.locating is set.
[[noreturn]] void return_callers();

}  // namespace ww
