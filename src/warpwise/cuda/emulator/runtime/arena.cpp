// Allocation of slots, shadow cells and written bits; see arena.h.
#include "arena.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "shadow.h"

namespace ww {

Slot slots[kSlots + 1];
Address arena_start = 0, arena_bytes = 0;

namespace {

constexpr size_t kRetainedBytes = size_t{32} << 20;  // a slot with more memory is returned to the system after a launch

// Offsets slots against each other so that their memory is not a power of two apart: an index with one wrong bit must
// not reach another slot's memory.
constexpr Address kStagger = Address{16} << 20;
constexpr unsigned kStaggered = 512;  // slot i and slot i + kStaggered have the same offset
constexpr size_t kMaxBytes = kSlotBytes / 2 - kStaggered * kStagger;

size_t pages(size_t bytes) { return (bytes + kPage - 1) & ~(kPage - 1); }

char* map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

// Makes `memory` at least `bytes` long. New memory is zero; existing memory is reused as it is.
bool ensure_capacity(char*& memory, size_t& have, size_t bytes) {
  if (have >= bytes) return true;
  if (memory) munmap(memory, have);
  memory = nullptr;
  have = 0;
  char* fresh = map(pages(bytes));
  if (!fresh) return false;
  memory = fresh;
  have = pages(bytes);
  return true;
}

void unmap(char*& memory, size_t& have) {
  if (memory) munmap(memory, have);
  memory = nullptr;
  have = 0;
}

}  // namespace

bool reserve_arena(bool resident) {
  const unsigned count = resident ? kSlots : kResidentFirst;
  const Address bytes = Address{count} << kSlotShift;
  if (arena_start) return bytes <= arena_bytes;
  void* memory = mmap(nullptr, bytes + kSlotBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  arena_start = (reinterpret_cast<Address>(memory) + kSlotBytes - 1) >> kSlotShift << kSlotShift;
  arena_bytes = bytes;
  for (unsigned i = 0; i < count; i++)
    slots[i].middle = arena_start + (Address{i} << kSlotShift) + kSlotBytes / 2 + i % kStaggered * kStagger;
  return true;
}

bool commit(Slot& slot, size_t offset, size_t bytes, bool exact) {
  const size_t need = pages(offset + bytes + 1);
  if (need > kMaxBytes) return false;
  if (need > slot.committed) {
    if (mprotect(reinterpret_cast<void*>(slot.middle), need, PROT_READ | PROT_WRITE)) return false;
    slot.committed = need;
  } else if (exact && need < slot.committed) {  // without checks, page faults find accesses past the end
    mprotect(reinterpret_cast<void*>(slot.middle + need), slot.committed - need, PROT_NONE);
    slot.committed = need;
  }
  slot.start = slot.middle + offset;
  slot.bytes = bytes;
  slot.cells = slot.written = 0;
  return true;
}

void allocate_shadow_cells(Slot& slot) {
  const Address first = slot.start >> 2, last = (slot.start + slot.bytes) >> 2;
  if (ensure_capacity(slot.cell_memory, slot.cell_bytes, (last - first + 1) * sizeof(Cell)))
    slot.cells = reinterpret_cast<Address>(slot.cell_memory) - first * sizeof(Cell);
}

bool allocate_written_bits(Slot& slot) {
  const Address first = slot.start >> 3, last = (slot.start + slot.bytes) >> 3;
  const size_t need = last - first + 1 + sizeof(uint32_t);
  if (!ensure_capacity(slot.written_memory, slot.written_bytes, need)) return false;
  memset(slot.written_memory, 0, need);
  slot.written = reinterpret_cast<Address>(slot.written_memory) - first;
  return true;
}

void mark_written(Slot& slot, Address from, size_t bytes) {
  uint8_t* base = reinterpret_cast<uint8_t*>(slot.written);
  const Address end = from + bytes;
  while (from < end && (from & 7)) base[from >> 3] |= static_cast<uint8_t>(1 << (from & 7)), from++;
  if (end - from >= 8) {
    memset(base + (from >> 3), 0xff, (end - from) >> 3);
    from += (end - from) & ~Address{7};
  }
  for (; from < end; from++) base[from >> 3] |= static_cast<uint8_t>(1 << (from & 7));
}

void release_slot(Slot& slot) {
  slot.bytes = 0;
  slot.cells = slot.written = 0;
  slot.views.clear();
  if (slot.committed > kRetainedBytes) {
    madvise(reinterpret_cast<void*>(slot.middle), slot.committed, MADV_DONTNEED);
    mprotect(reinterpret_cast<void*>(slot.middle), slot.committed, PROT_NONE);
    slot.committed = 0;
  }
  if (slot.cell_bytes > kRetainedBytes) unmap(slot.cell_memory, slot.cell_bytes);
  if (slot.written_bytes > kRetainedBytes) unmap(slot.written_memory, slot.written_bytes);
}

void clear_shadow_cells() {
  for (Slot& slot : slots)
    if (slot.cell_memory) madvise(slot.cell_memory, slot.cell_bytes, MADV_DONTNEED);
  clear_module_shadow();
}

const View* nearest_view(const Slot& slot, Address address) {
  const View* nearest = nullptr;
  size_t least = ~size_t{0};
  for (const View& view : slot.views) {
    size_t distance = 0;
    if (address < view.start)
      distance = view.start - address;
    else if (address >= view.start + view.bytes)
      distance = address - (view.start + view.bytes) + 1;
    if (distance < least) nearest = &view, least = distance;
  }
  return nearest;
}

void describe(Report& report, const Slot& slot, Address address) {
  report.address = address;
  report.space = slot.space;
  const View* view = nearest_view(slot, address);
  if (!view) {
    report.space = kNoSpace;
    return;
  }
  snprintf(report.variable, sizeof report.variable, "%s", view->name);
  const int64_t width = view->element_bytes ? view->element_bytes : 1;
  const int64_t distance = static_cast<int64_t>(address - view->start);
  report.element_bytes = static_cast<uint32_t>(width);
  report.index = distance >= 0 ? distance / width : -((-distance + width - 1) / width);
  report.elements = static_cast<int64_t>(view->bytes) / width;
  memcpy(report.inner, view->inner, sizeof report.inner);
}

}  // namespace ww
