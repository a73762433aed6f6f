#include "heap.h"

#include <stdlib.h>
#include <string.h>

#include <map>

#include "fibers.h"
#include "state.h"

namespace ww {
namespace {

constexpr size_t kHeapBytes = size_t{8} << 20;  // the default of cudaLimitMallocHeapSize
constexpr size_t kNear = size_t{1} << 16;  // reports describe an access within this distance of an allocation by it
constexpr int kUnwritten = 0xfe;           // new memory has this pattern, as local variables have

std::map<Address, size_t> allocations;  // live ones: first byte, size
size_t allocated = 0;

void* allocate(size_t bytes) {
  if (!on_kernel_fiber()) return malloc(bytes);
  if (!bytes || bytes > kHeapBytes - allocated) return nullptr;
  void* made = malloc(bytes);
  if (!made) return nullptr;
  memset(made, kUnwritten, bytes);
  allocations[reinterpret_cast<Address>(made)] = bytes;
  allocated += bytes;
  return made;
}

void deallocate(void* memory, Address pc) {
  const auto found = allocations.find(reinterpret_cast<Address>(memory));
  if (found != allocations.end()) {
    allocated -= found->second;
    allocations.erase(found);
  } else if (memory && on_kernel_fiber()) {
    fatal_report(new_report(kUndefinedBehaviour, pc, 0),
                 "free or delete of memory that is not allocated by device code");
  }
  free(memory);
}

}  // namespace

bool check_heap_access(Address address, size_t bytes, bool write, Address pc, int line) {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return false;
  const auto [start, size] = *std::prev(after);
  if (address + bytes <= start + size) return true;
  const Address end = start + size;
  if (address >= end + kNear) return false;
  Report report = new_report(kOutOfBounds, pc, line);
  report.address = address;
  report.access.action = write ? kWrite : kRead;
  report.access_bytes = static_cast<uint32_t>(bytes);
  fatal_report(report, "the address is %lld bytes past the start of an allocation of %zu bytes by malloc or new",
               static_cast<long long>(address - start), size);
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
