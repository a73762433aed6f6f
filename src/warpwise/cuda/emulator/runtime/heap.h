// The device heap: malloc, free, new and delete in device code. Allocations stay valid until they are freed, across
// launches, as on a GPU.
#pragma once
#include "report.h"

namespace ww {

// True if the access is in a live allocation. Reports an access that is near an allocation but not in it.
bool check_heap_access(Address address, size_t bytes, bool write, Address pc, int line);

}  // namespace ww
