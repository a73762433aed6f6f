// mbarrier objects in shared memory.
#pragma once
#include "machine.h"

namespace ww::machine {

// complete_tx of `bytes` of an asynchronous copy on the mbarrier at a shared address (sm_90 and later).
void complete_transactions(Warp& warp, const Instruction& instruction, u32 address, u32 bytes);

// One arrival at a barrier in the layout before sm_90: the lower word is 2^30 - expected arrivals, the upper word is
// 2^31 - pending arrivals, whose carry into bit 31 flips the phase.
void arrive_before_sm90(u8* pointer);

}  // namespace ww::machine
