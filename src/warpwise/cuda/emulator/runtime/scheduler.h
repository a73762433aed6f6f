// The interface between the grid's scheduler (grid.cpp) and that of one block (scheduler.cpp).
#pragma once
#include "state.h"

namespace ww {

enum class Outcome { kFinished, kPolling, kBlocked, kAborted, kOutOfStacks };
// Runs a block until it ends, or until its threads only wait.
Outcome run_block(Block& block);
void thread_main();        // what each fiber runs
void enter(Block& block);  // makes `block` the running block
uint32_t next_random();

}  // namespace ww
