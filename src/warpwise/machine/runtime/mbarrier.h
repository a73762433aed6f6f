// Barriers in shared memory (mbarrier).
#pragma once
#include "machine.h"

namespace ww::machine {

// `bytes` of an asynchronous copy have landed for the barrier at a shared address (sm_90 and later).
void complete_transactions(Warp& warp, const Instruction& instruction, u32 address, u32 bytes);

// One arrival at the barrier of 8 bytes there, before sm_90: its lower word is 2^30 - expected arrivals, its upper word
// 2^31 - pending ones and, in bit 31, the phase, which the last arrival carries into.
void arrive_before_sm90(u8* place);

}  // namespace ww::machine
