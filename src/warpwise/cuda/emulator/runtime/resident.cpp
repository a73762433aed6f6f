// Allocation and host protection of resident memory; see resident.h.
#include "resident.h"

#include <string.h>
#include <sys/mman.h>

#include <deque>
#include <mutex>
#include <vector>

namespace ww {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kRetainedCells = size_t{32} << 20;
constexpr unsigned char kPoison[2] = {0xff, 0x7f};  // NaN in every floating-point type

enum HostAccess { kNoHostAccess, kHostAccess };

struct Allocation {
  size_t bytes = 0;
  bool live = false;
  HostAccess access = kNoHostAccess;
  bool open = false;
};

Allocation residents[kResidentSlots];
std::deque<unsigned> freed;  // oldest first: a slot is reused as late as possible
unsigned slots_begun = 0;    // slots that were ever used
std::recursive_mutex resident_mutex;

Slot& slot_at(unsigned number) { return slots[kResidentFirst + number]; }

void protect(unsigned number, bool accessible) {
  if (residents[number].open == accessible) return;
  Slot& slot = slot_at(number);
  mprotect(reinterpret_cast<void*>(slot.middle), slot.committed, accessible ? PROT_READ | PROT_WRITE : PROT_NONE);
  residents[number].open = accessible;
}

// The number of the resident block whose slot contains the address; -1 for none.
int number_of(Address address) {
  const Slot* slot = arena_start ? slot_of(address) : nullptr;
  const auto index = slot ? slot - slots : 0;
  if (!slot || index < kResidentFirst) return -1;
  const int number = static_cast<int>(index - kResidentFirst);
  return residents[number].bytes ? number : -1;
}

void release_memory(char*& memory, size_t& have) {
  if (memory) munmap(memory, have);
  memory = nullptr;
  have = 0;
}

}  // namespace

Slot* resident_slot(Address address) {
  const int number = number_of(address);
  return number < 0 ? nullptr : &slot_at(static_cast<unsigned>(number));
}

void begin_resident(bool races) {
  const std::lock_guard<std::recursive_mutex> lock(resident_mutex);
  for (unsigned i = 0; i < slots_begun; i++) {
    if (!residents[i].live) continue;
    Slot& slot = slot_at(i);
    protect(i, true);
    slot.views.clear();
    if (races) allocate_shadow_cells(slot);
  }
}

void add_resident_view(Slot& slot, const View& view) { slot.views.push_back(view); }

void end_resident() {
  const std::lock_guard<std::recursive_mutex> lock(resident_mutex);
  for (unsigned i = 0; i < slots_begun; i++) {
    if (!residents[i].live) continue;
    Slot& slot = slot_at(i);
    slot.views.clear();
    slot.cells = 0;
    if (slot.cell_bytes > kRetainedCells) release_memory(slot.cell_memory, slot.cell_bytes);
    protect(i, residents[i].access == kHostAccess);
  }
}

}  // namespace ww

using namespace ww;

#define WW_EXPORT extern "C" __attribute__((visibility("default")))

struct ww_block {
  uint64_t address, bytes;
  int32_t live, host_access;
};

// Reserves the address space of resident memory; call it before the first launch. Returns 0 if it is refused.
WW_EXPORT int ww_resident_reserve() { return reserve_arena(true); }

// Whether the address is in the emulator's address space: of device memory, allocated or not.
WW_EXPORT int ww_resident_contains(uint64_t address) { return address - arena_start < arena_bytes; }

// Returns the address of a new block, a multiple of 256, or nullptr. Without `host_access`, host code that reads or
// writes the block gets a page fault. With `track`, reads of bytes that were never written are reported.
WW_EXPORT void* ww_resident_allocate(size_t bytes, int host_access, int track) {
  const std::lock_guard<std::recursive_mutex> lock(resident_mutex);
  if (!bytes || !reserve_arena(true)) return nullptr;
  unsigned number = slots_begun;
  if (slots_begun < kResidentSlots) {
    slots_begun++;
  } else if (!freed.empty()) {
    number = freed.front();
    freed.pop_front();
  } else {
    return nullptr;
  }
  Slot& slot = slot_at(number);
  if (!commit(slot, 0, bytes, false)) {
    freed.push_back(number);
    return nullptr;
  }
  mprotect(reinterpret_cast<void*>(slot.middle), slot.committed, PROT_READ | PROT_WRITE);
  // Each launch changes the protection of all blocks twice, which takes time for each page.
  if (slot.committed >= kHugePage) madvise(reinterpret_cast<void*>(slot.middle), slot.committed, MADV_HUGEPAGE);
  residents[number] = {bytes, true, host_access ? kHostAccess : kNoHostAccess, true};
  slot.shared = 0;
  slot.space = kGlobal;
  slot.constant = 0;
  slot.report_unwritten_reads = 1;
  unsigned char* memory = reinterpret_cast<unsigned char*>(slot.start);
  if (track) {
    for (size_t i = 0; i < bytes; i++) memory[i] = kPoison[i & 1];
    allocate_written_bits(slot);
  }
  protect(number, host_access != 0);
  return memory;
}

// Returns 1, or 0 if no live block starts at the address.
WW_EXPORT int ww_resident_free(const void* address) {
  const std::lock_guard<std::recursive_mutex> lock(resident_mutex);
  const int number = number_of(reinterpret_cast<Address>(address));
  if (number < 0) return 0;
  Allocation& block = residents[number];
  Slot& slot = slot_at(static_cast<unsigned>(number));
  if (!block.live || slot.start != reinterpret_cast<Address>(address)) return 0;
  block.live = false;
  slot.bytes = 0;
  slot.written = slot.cells = 0;
  release_memory(slot.written_memory, slot.written_bytes);
  release_memory(slot.cell_memory, slot.cell_bytes);
  madvise(reinterpret_cast<void*>(slot.middle), slot.committed, MADV_DONTNEED);
  mprotect(reinterpret_cast<void*>(slot.middle), slot.committed, PROT_NONE);
  slot.committed = 0;
  block.open = false;
  freed.push_back(static_cast<unsigned>(number));
  return 1;
}

// The block, live or freed, that contains the address or is nearest to it. Returns 0 if there is none.
WW_EXPORT int ww_resident_find(const void* address, ww_block* found) {
  const std::lock_guard<std::recursive_mutex> lock(resident_mutex);
  const int number = number_of(reinterpret_cast<Address>(address));
  if (number < 0) return 0;
  const Allocation& block = residents[number];
  *found = {slot_at(static_cast<unsigned>(number)).start, block.bytes, block.live, block.access};
  return 1;
}

// Lets the host access the block that contains the address, or ends its access.
WW_EXPORT void ww_resident_open(const void* address, int accessible) {
  const std::lock_guard<std::recursive_mutex> lock(resident_mutex);
  const int number = number_of(reinterpret_cast<Address>(address));
  if (number >= 0 && residents[number].live) protect(static_cast<unsigned>(number), accessible);
}

// Marks bytes as written by the host.
WW_EXPORT void ww_resident_written(const void* address, size_t bytes) {
  const std::lock_guard<std::recursive_mutex> lock(resident_mutex);
  const int number = number_of(reinterpret_cast<Address>(address));
  if (number < 0) return;
  Slot& slot = slot_at(static_cast<unsigned>(number));
  if (slot.written) mark_written(slot, reinterpret_cast<Address>(address), bytes);
}

// Writes the blocks that are live, at most `room`, and returns their number.
WW_EXPORT size_t ww_resident_list(ww_block* list, size_t room) {
  const std::lock_guard<std::recursive_mutex> lock(resident_mutex);
  size_t count = 0;
  for (unsigned i = 0; i < slots_begun; i++) {
    if (!residents[i].live) continue;
    if (count < room) list[count] = {slot_at(i).start, residents[i].bytes, 1, residents[i].access};
    count++;
  }
  return count;
}
