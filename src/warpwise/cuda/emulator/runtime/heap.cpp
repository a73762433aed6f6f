#include "heap.h"

#include <stdlib.h>
#include <string.h>

#include <map>

#include "fibers.h"
#include "state.h"

namespace ww {
namespace {

constexpr size_t kHeapBytes = size_t{8} << 20;  // the default of cudaLimitMallocHeapSize
constexpr size_t kNear = size_t{1} << 16;  // bytes: an invalid access this near an allocation is reported as past it
constexpr int kUnwritten = 0xfe;           // new memory has this pattern, as local variables have

using Ranges = std::map<Address, size_t>;  // first byte, size

Ranges allocations;   // live
Ranges freed_ranges;  // freed, and not allocated again
size_t allocated = 0;

// The range that holds `address`, or that ends at most `past` bytes before it.
Ranges::const_iterator range_at(const Ranges& ranges, Address address, size_t past = 0) {
  const auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return ranges.end();
  const auto found = std::prev(after);
  return address < found->first + found->second + past ? found : ranges.end();
}

void* allocate(size_t bytes) {
  if (!on_kernel_fiber()) return malloc(bytes);
  if (!bytes || bytes > kHeapBytes - allocated) return nullptr;
  void* made = malloc(bytes);
  if (!made) return nullptr;
  memset(made, kUnwritten, bytes);
  const Address start = reinterpret_cast<Address>(made), end = start + bytes;
  auto reused = range_at(freed_ranges, start);
  if (reused == freed_ranges.end()) reused = freed_ranges.lower_bound(start);
  while (reused != freed_ranges.end() && reused->first < end) reused = freed_ranges.erase(reused);
  allocations[start] = bytes;
  allocated += bytes;
  return made;
}

void deallocate(void* memory, Address pc) {
  const auto found = allocations.find(reinterpret_cast<Address>(memory));
  if (found != allocations.end()) {
    allocated -= found->second;
    freed_ranges.insert(*found);
    allocations.erase(found);
  } else if (memory && on_kernel_fiber()) {
    fatal_report(
        new_report(kUndefinedBehaviour, pc, 0), "free or delete of memory that is %s",
        freed_ranges.count(reinterpret_cast<Address>(memory)) ? "freed already" : "not allocated by device code");
  }
  free(memory);
}

}  // namespace

bool check_heap_access(Address address, size_t bytes, bool write, Address pc, int line) {
  auto found = range_at(allocations, address);
  if (found != allocations.end() && address + bytes <= found->first + found->second) return true;
  const auto old = range_at(freed_ranges, address);
  const bool is_freed = found == allocations.end() && old != freed_ranges.end();
  if (!is_freed && (found = range_at(allocations, address, kNear)) == allocations.end()) return false;
  const auto [start, size] = is_freed ? *old : *found;
  Report report = new_report(kOutOfBounds, pc, line);
  report.address = address;
  report.access.action = write ? kWrite : kRead;
  report.access_bytes = static_cast<uint32_t>(bytes);
  const char* const text =
      is_freed ? "the address is in freed memory: byte %lld of %zu that malloc or new returned"
               : "the address is %lld bytes past the start of an allocation of %zu bytes by malloc or new";
  fatal_report(report, text, static_cast<long long>(address - start), size);
}

}  // namespace ww

// The linker redirects a kernel's calls to these functions (--wrap). The compiler's names: _Znwm is operator
// new(size_t), _Znam new[], _ZdlPv and _ZdaPv the corresponding deletes, with a size in _ZdlPvm and _ZdaPvm.
#pragma GCC visibility push(default)
extern "C" {
void* __wrap_malloc(size_t bytes) { return ww::allocate(bytes); }
void* __wrap__Znwm(size_t bytes) { return ww::allocate(bytes); }
void* __wrap__Znam(size_t bytes) { return ww::allocate(bytes); }
#define WW_PC reinterpret_cast<ww::Address>(__builtin_return_address(0))
void __wrap_free(void* memory) { ww::deallocate(memory, WW_PC); }
void __wrap__ZdlPv(void* memory) { ww::deallocate(memory, WW_PC); }
void __wrap__ZdaPv(void* memory) { ww::deallocate(memory, WW_PC); }
void __wrap__ZdlPvm(void* memory, size_t) { ww::deallocate(memory, WW_PC); }
void __wrap__ZdaPvm(void* memory, size_t) { ww::deallocate(memory, WW_PC); }
}
#pragma GCC visibility pop
