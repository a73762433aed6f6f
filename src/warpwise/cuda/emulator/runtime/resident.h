// Resident memory: the device memory of a whole program. A block has its own arena slot from its allocation on, so
// device addresses, also those stored in memory, are valid in every launch.
#pragma once
#include "arena.h"

namespace ww {

// The resident slot of an address, live or freed; nullptr for any other address.
Slot* resident_slot(Address address);
void begin_resident(bool races);  // makes the live blocks accessible to the kernel
void end_resident();
void add_resident_view(Slot& slot, const View& view);

}  // namespace ww
