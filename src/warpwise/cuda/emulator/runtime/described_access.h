// Descriptions of accesses for a report: the thread, the kind of access, and the source line.
#pragma once
#include "shadow.h"

namespace ww {

// Fills in the access that has this stamp, a write or a read.
void describe_stamp(Side& side, uint64_t stamp, bool wrote);
// Fills in the access that last wrote the word of `address` in this launch; false if none did, or nothing is recorded.
bool describe_last_write(const Slot& slot, Address address, Side& side);

// A data race of the running thread's `access` of `word` with the access that has the stamp `other`.
Report race_report(const Slot& slot, const AccessInfo& access, Address word, bool write, uint64_t other,
                   bool other_wrote);

}  // namespace ww
