// Between the parts of the scheduler: one block's run, and the grid's.
#pragma once
#include "state.h"

namespace ww {

enum class Outcome { kFinished, kPolls, kStuck, kAborted, kOutOfStacks };
// Runs a block until it ends or can do nothing but wait.
Outcome run_block(Block& block);
void enter(Block& block);  // makes it the block that runs
uint32_t next_random();

}  // namespace ww
