// Resident memory: the device memory of a whole program. A block stays in an arena slot of its own from its allocation
// on, so device addresses are valid in every launch, also those stored in memory.
#pragma once
#include "arena.h"

namespace ww {

// The resident slot of an address, live or freed; nullptr for any other address.
Slot* resident_slot(Address address);
void begin_resident(bool races);  // makes the live blocks accessible to the kernel
void end_resident();
void add_resident_view(Slot& slot, const View& view);

}  // namespace ww
