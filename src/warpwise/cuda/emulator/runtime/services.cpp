// What device headers ask for besides synchronisation: indices, shared memory, atomics, printf, failures, the clock.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "access.h"

namespace ww {

constexpr size_t kStaticSharedLimit = 48 * 1024;
constexpr size_t kPrintedLimit = size_t{16} << 20;
constexpr int kSharedOffsetBits = 22;  // of a 32-bit shared address: slot << 22 | offset

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

static Slot& take_shared_slot(Block& block, ww_site* site, size_t bytes, Space space) {
  if (world.free_shared_slots.empty())
    fatal_report(new_report(kUnsupportedFeature, 0, site->line),
                 "more than %u shared variables are alive at once; join some of them", kSharedSlots);
  const unsigned number = world.free_shared_slots.back();
  world.free_shared_slots.pop_back();
  Slot& slot = slots[number];
  block.shared.push_back({site, number});
  if (!commit(slot, 0, bytes, !world.checks.any))
    fatal_report(new_report(kLaunchError, 0, site->line), "no memory for %zu bytes of shared memory", bytes);
  slot.shared = 1;
  slot.constant = 0;
  slot.space = space;
  slot.report_unwritten_reads = world.checks.uninitialised;
  slot.views.assign(1, {slot.start, bytes, site->element_bytes, false, false, site->name});
  if (world.checks.races) follow_races(slot);
  if (world.checks.uninitialised) follow_writes(slot);
  memset(reinterpret_cast<void*>(slot.start), 0xff, bytes);
  return slot;
}

static Slot* find_shared(Block& block, const ww_site* site) {
  for (const SharedVariable& variable : block.shared)
    if (variable.site == site) return &slots[variable.slot];
  return nullptr;
}

void start_shared(Block& block) { block.shared.clear(); }

void end_shared(Block& block) {
  for (const SharedVariable& variable : block.shared) {
    retire(slots[variable.slot]);
    world.free_shared_slots.push_back(variable.slot);
  }
  block.shared.clear();
}

}  // namespace ww

using namespace ww;

extern "C" {

ww_dim3 ww_thread_index() { return world.thread_index[world.current->id]; }
ww_dim3 ww_block_index() { return world.block->index; }
ww_dim3 ww_block_dim() { return world.dim; }
ww_dim3 ww_grid_dim() { return world.grid; }
unsigned ww_lane() { return world.current->id & 31; }
unsigned ww_thread_rank() { return world.current->id; }

void* ww_shared(ww_site* site) {
  Block& block = *world.block;
  if (site->launch == block.instance) return site->addr;
  Slot* slot = find_shared(block, site);
  if (!slot) {
    block.static_shared += (site->bytes + 15u) & ~15u;
    if (block.static_shared > kStaticSharedLimit)
      fatal_report(new_report(kLaunchError, 0, site->line),
                   "static __shared__ variables up to '%s' need %zu bytes; at most %zu may be static: declare extern "
                   "__shared__ and pass "
                   "the bytes with the launch",
                   site->name, block.static_shared, kStaticSharedLimit);
    if (block.static_shared + world.dynamic_shared > world.shared_limit)
      fatal_report(
          new_report(kLaunchError, 0, site->line),
          "static __shared__ variables up to '%s' need %zu bytes, beside %zu of dynamic shared memory; a block "
          "may have %zu in all",
          site->name, block.static_shared, world.dynamic_shared, world.shared_limit);
    slot = &take_shared_slot(block, site, site->bytes, kShared);
  }
  site->launch = block.instance;
  return site->addr = reinterpret_cast<void*>(slot->start);
}

void* ww_dynamic_shared(ww_site* site) {
  Block& block = *world.block;
  if (site->launch == block.instance) return site->addr;
  Slot* slot = nullptr;
  for (const SharedVariable& variable : block.shared)  // every extern __shared__ array is the same memory
    if (slots[variable.slot].space == kDynamicShared) slot = &slots[variable.slot];
  if (!slot) slot = &take_shared_slot(block, site, world.dynamic_shared, kDynamicShared);
  site->launch = block.instance;
  return site->addr = reinterpret_cast<void*>(slot->start);
}

size_t ww_dynamic_shared_bytes() { return world.dynamic_shared; }

unsigned ww_to_shared(const void* pointer) {
  const Address address = reinterpret_cast<Address>(pointer);
  const Address offset = address - arena_start;
  const unsigned number = static_cast<unsigned>(offset >> kSlotShift);
  if (offset >= kArenaBytes || number < kTensorSlots) return 0xffffffffu;
  return (number - kTensorSlots) << kSharedOffsetBits |
         static_cast<unsigned>((address - slots[number].middle) & ((1u << kSharedOffsetBits) - 1));
}

void* ww_from_shared(uint64_t handle) {
  if (handle >> 32) return reinterpret_cast<void*>(handle);  // a generic address already
  const unsigned number = static_cast<unsigned>(handle >> kSharedOffsetBits);
  if (number >= kSharedSlots) return reinterpret_cast<void*>(handle);
  return reinterpret_cast<void*>(slots[kTensorSlots + number].middle + (handle & ((1u << kSharedOffsetBits) - 1)));
}

// Every thread that polls by an atomic lets others run once in a while.
static void strong_access_made() {
  world.block->strong_seen = true;
  if (--world.strong_budget < 0) give_way();
}

void ww_atomic(void* address, unsigned bytes, const char* what, int line) {
  const Address pc = reinterpret_cast<Address>(__builtin_return_address(0)), at = reinterpret_cast<Address>(address);
  strong_access_made();
  if (!world.checks.any) return;
  Slot* slot = slot_of(at);
  if (slot && (at & (bytes - 1)) && !(bytes & (bytes - 1)) && at - slot->start < slot->bytes)
    misaligned(*slot, at, bytes, true, pc, line);
  if (slot && slot->written && slot->report_unwritten_reads && strcmp(what, "atomicExch") &&
      at - slot->start + bytes <= slot->bytes)
    unwritten_read(*slot, at, bytes, pc, line);
  access_range(at, bytes, true, pc, kStrongAccess, line);
}

void ww_touch(const void* address, size_t bytes, int write, int line) {
  if (!world.checks.any) return;
  access_range(reinterpret_cast<Address>(address), bytes, write != 0,
               reinterpret_cast<Address>(__builtin_return_address(0)), kPlainAccess, line);
}

void ww_fence(int scope) {
  if (!world.checks.races) return;
  Block& block = *world.block;
  settle_store();
  block.clocks.fence(world.current->id);
  if (block.clocks.exhausted()) next_epoch(block);
  refresh_stamp();
  if (scope == 0) return;
  if (world.fence_epochs.size() <= block.number) world.fence_epochs.resize(block.number + 1, 0);
  world.fence_epochs[block.number] = block.epoch;
}

void ww_yield(int) { give_way(); }

void ww_fail(ww_problem problem, const char* message, int line) {
  static constexpr Kind kinds[] = {kKernelAssertion, kUndefinedBehaviour, kUnsupportedFeature, kUndefinedBehaviour};
  fatal_report(new_report(kinds[problem], reinterpret_cast<Address>(__builtin_return_address(0)), line), "%s", message);
}

void ww_warn(ww_problem problem, const char* message, int line) {
  static constexpr Kind kinds[] = {kKernelAssertion, kUndefinedBehaviour, kUnsupportedFeature, kUndefinedBehaviour};
  Report report = new_report(kinds[problem], reinterpret_cast<Address>(__builtin_return_address(0)), line);
  set_message(report, "%s", message);
  if (world.checks.any) add_report(report);
}

int ww_printf(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < 0) return -1;
  if (world.text_output.size() + static_cast<size_t>(length) > kPrintedLimit) {
    world.text_dropped += static_cast<uint64_t>(length);
    return length;
  }
  if (static_cast<size_t>(length) < sizeof text) {
    world.text_output.append(text, static_cast<size_t>(length));
    return length;
  }
  std::string longer(static_cast<size_t>(length) + 1, '\0');
  va_start(arguments, format);
  vsnprintf(longer.data(), longer.size(), format, arguments);
  va_end(arguments);
  world.text_output.append(longer.data(), static_cast<size_t>(length));
  return length;
}

unsigned long long ww_clock() { return static_cast<unsigned long long>(now() * 1e9); }

}  // extern "C"
