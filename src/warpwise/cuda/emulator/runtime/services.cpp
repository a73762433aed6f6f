// The functions of abi.h other than barriers, warp operations and asynchronous copies: thread indices, shared memory,
// atomics, fences, failures, printf and the clock.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <algorithm>

#include "access.h"
#include "expected_reads.h"
#include "fibers.h"
#include "synchronise.h"

namespace ww {

constexpr size_t kStaticSharedLimit = 48 * 1024;
constexpr size_t kPrintedLimit = size_t{16} << 20;
constexpr int kSharedOffsetBits = 22;  // an address in the shared window is slot << 22 | offset

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

static Slot& allocate_shared_slot(Block& block, ww_site* site, size_t bytes, Space space) {
  if (runtime.free_shared_slots.empty())
    fatal_report(new_report(kUnsupportedFeature, 0, site->line),
                 "the resident blocks have more than %u shared variables; merge some of them", kSharedSlots);
  const unsigned number = runtime.free_shared_slots.back();
  runtime.free_shared_slots.pop_back();
  Slot& slot = slots[number];
  block.shared.push_back({site, number});
  // A variable of 1 KiB or more begins at a multiple of 1 KiB, the period of the 128-byte swizzle.
  const size_t alignment = bytes >= 1024 ? 1024 : std::max<size_t>(16, site->align), at = block.shared_offset;
  const size_t offset = (at + alignment - 1) & ~(alignment - 1);
  block.shared_offset = offset + bytes;
  if (!commit(slot, offset, bytes, !runtime.checks.any))
    fatal_report(new_report(kLaunchError, 0, site->line), "the emulator cannot allocate %zu bytes of shared memory",
                 bytes);
  slot.shared = 1;
  slot.constant = 0;
  slot.space = space;
  slot.report_unwritten_reads = runtime.checks.uninitialised;
  slot.views.assign(
      1, {slot.start, bytes, site->element_bytes, false, false, site->name, {site->inner[0], site->inner[1]}});
  if (runtime.checks.races) allocate_shadow_cells(slot);
  if (slot.cells && runtime.clustered)  // a block of the same cluster may have used the slot, and have exited
    memset(slot.cell_memory, 0, ((bytes >> 2) + 1) * sizeof(Cell));
  if (runtime.checks.uninitialised) allocate_written_bits(slot);
  memset(reinterpret_cast<void*>(slot.start), 0xff, bytes);
  return slot;
}

static Slot* find_shared(Block& block, const ww_site* site) {
  for (const SharedVariable& variable : block.shared)
    if (variable.site == site) return &slots[variable.slot];
  return nullptr;
}

SharedVariable& shared_variable(Block& block, const SharedVariable& like) {
  for (SharedVariable& variable : block.shared)
    if (variable.site == like.site) return variable;
  const Slot& slot = slots[like.slot];
  allocate_shared_slot(block, like.site, slot.bytes, slot.space);
  return block.shared.back();
}

void start_shared(Block& block) { block.shared.clear(); }

void end_shared(Block& block) {
  for (const SharedVariable& variable : block.shared) {
    release_slot(slots[variable.slot]);
    runtime.free_shared_slots.push_back(variable.slot);
  }
  block.shared.clear();
}

}  // namespace ww

using namespace ww;

extern "C" {

static uint64_t packed(ww_dim3 v) { return uint64_t{v.x} | uint64_t{v.y} << 32 | uint64_t{v.z} << 48; }
uint64_t ww_packed_thread_index() { return packed(runtime.thread_index[runtime.current->id]); }
uint64_t ww_packed_block_index() { return packed(runtime.block->index); }
uint64_t ww_packed_block_dim() { return packed(runtime.dim); }
uint64_t ww_packed_grid_dim() { return packed(runtime.grid); }
unsigned ww_lane() { return runtime.current->id & 31; }
unsigned ww_thread_rank() { return runtime.current->id; }
bool* ww_carry() { return &runtime.current->carry; }

void* ww_shared(ww_site* site) {
  Block& block = *runtime.block;
  if (site->block_instance == block.instance) return site->address;
  Slot* slot = find_shared(block, site);
  if (!slot) {
    block.static_shared += (site->bytes + 15u) & ~15u;
    if (block.static_shared > kStaticSharedLimit)
      fatal_report(
          new_report(kLaunchError, 0, site->line),
          "the static __shared__ variables up to '%s' take %zu bytes; a block may have at most %zu bytes of static "
          "shared memory: declare extern __shared__ and pass the size with the launch",
          site->name, block.static_shared, kStaticSharedLimit);
    if (block.static_shared + runtime.dynamic_shared > runtime.shared_limit)
      fatal_report(
          new_report(kLaunchError, 0, site->line),
          "the static __shared__ variables up to '%s' take %zu bytes and the dynamic shared memory takes %zu bytes; a "
          "block may have %zu bytes in all",
          site->name, block.static_shared, runtime.dynamic_shared, runtime.shared_limit);
    slot = &allocate_shared_slot(block, site, site->bytes, kShared);
  }
  site->block_instance = block.instance;
  return site->address = reinterpret_cast<void*>(slot->start);
}

void* ww_dynamic_shared(ww_site* site) {
  Block& block = *runtime.block;
  if (site->block_instance == block.instance) return site->address;
  Slot* slot = nullptr;
  for (const SharedVariable& variable : block.shared)  // all extern __shared__ arrays of a block share one allocation
    if (slots[variable.slot].space == kDynamicShared) slot = &slots[variable.slot];
  if (!slot) slot = &allocate_shared_slot(block, site, runtime.dynamic_shared, kDynamicShared);
  site->block_instance = block.instance;
  return site->address = reinterpret_cast<void*>(slot->start);
}

size_t ww_dynamic_shared_bytes() { return runtime.dynamic_shared; }

unsigned ww_to_shared(const void* pointer) {
  const Address address = reinterpret_cast<Address>(pointer);
  const Address offset = address - arena_start;
  const unsigned number = static_cast<unsigned>(offset >> kSlotShift);
  if (offset >= kArenaBytes || number < kTensorSlots || number >= kResidentFirst) return 0xffffffffu;
  return (number - kTensorSlots) << kSharedOffsetBits |
         static_cast<unsigned>((address - slots[number].middle) & ((1u << kSharedOffsetBits) - 1));
}

int ww_state_space(const void* pointer) {
  const Address address = reinterpret_cast<Address>(pointer);
  if (ww_to_shared(pointer) != 0xffffffffu)
    return ww_shared_rank(pointer) == static_cast<int>(runtime.block->rank) ? WW_SHARED_SPACE : WW_CLUSTER_SPACE;
  if (in_stacks(address)) return WW_LOCAL_SPACE;
  return in_constant_memory(address) ? WW_CONSTANT_SPACE : WW_GLOBAL_SPACE;
}

void* ww_from_shared(uint64_t handle) {
  if (handle >> 32) return reinterpret_cast<void*>(handle);  // already a generic address
  const unsigned number = static_cast<unsigned>(handle >> kSharedOffsetBits);
  if (number >= kSharedSlots) return reinterpret_cast<void*>(handle);
  return reinterpret_cast<void*>(slots[kTensorSlots + number].middle + (handle & ((1u << kSharedOffsetBits) - 1)));
}

// Yields after every kStrongBudget strong accesses, for a thread that polls a flag with atomics.
static void count_strong_access() {
  if (--runtime.strong_budget < 0) yield_thread();
}

void ww_atomic(void* address, unsigned bytes, const char* what, int line, int scope, unsigned order) {
  const Address pc = reinterpret_cast<Address>(__builtin_return_address(0)), at = reinterpret_cast<Address>(address);
  count_strong_access();
  preempt();
  if (!runtime.checks.any) return;
  Slot* slot = slot_with_cells(at);
  if (slot && (at & (bytes - 1)) && !(bytes & (bytes - 1)) && at - slot->start < slot->bytes)
    report_misaligned(*slot, at, bytes, true, pc, line);
  if (slot && slot->written && slot->report_unwritten_reads && strcmp(what, "atomicExch") &&
      at - slot->start + bytes <= slot->bytes)
    report_uninitialized_read(*slot, at, bytes, pc, line);
  resolve_pending_store();
  const bool compares = !strcmp(what, "atomicCAS");
  synchronise(at, bytes, Operation::kUpdate, scope ? kDeviceScope : kBlockScope, order, line, compares);
  check_scope(at, bytes, scope ? kDeviceScope : kBlockScope, pc, line);
  uint64_t writes[4], rest[4];
  const bool tracked = slot && slot->cells && bytes <= 16 && !(at & 3) && at - slot->start + bytes <= slot->bytes;
  for (unsigned word = 0; tracked && word < (bytes + 3) / 4; word++) {
    const Cell& cell = *cell_of(*slot, at + 4 * word);
    writes[word] = cell.write, rest[word] = cell.rest;
  }
  if (tracked && compares && runtime.checks.races) note_compare(*cell_of(*slot, at), at);
  access_range(at, bytes, true, pc, kStrongAccess, line);
  if (tracked && !slot->shared && runtime.checks.races) note_update(at, cell_of(*slot, at)->write);
  if (tracked) record_atomic(*slot, at, bytes, compares, !scope, writes, rest);
}

void ww_strong_access(void* address, unsigned bytes, int write, int line, int scope, unsigned order) {
  preempt();
  if (!runtime.checks.any) return;
  const Address pc = reinterpret_cast<Address>(__builtin_return_address(0)), at = reinterpret_cast<Address>(address);
  resolve_pending_store();
  if (!write) note_observed(at);
  synchronise(at, bytes, write ? Operation::kWrite : Operation::kRead, scope ? kDeviceScope : kBlockScope, order, line);
  access_range(at, bytes, write != 0, pc, kStrongAccess, line);
}

void ww_check_access(const void* address, size_t bytes, int write, int line) {
  if (!runtime.checks.any) return;
  access_range(reinterpret_cast<Address>(address), bytes, write != 0,
               reinterpret_cast<Address>(__builtin_return_address(0)), kPlainAccess, line);
}

void ww_check_read_only(const void* address, size_t bytes, int line) {
  if (!runtime.checks.races) return;
  const Address at = reinterpret_cast<Address>(address);
  const Slot* slot = slot_with_cells(at);
  if (!slot || at - slot->start + bytes > slot->bytes) return;
  for (Address word = at & ~Address{3}; word < at + bytes; word += 4) {
    const Address first = word < at ? at : word;
    Report report = new_report(kUndefinedBehaviour, reinterpret_cast<Address>(__builtin_return_address(0)), line);
    if (!describe_last_write(*slot, first, report.other)) continue;
    describe(report, *slot, first);
    report.has_other = 1;
    set_message(report,
                "a load through the read-only cache (__ldg, ld.global.nc) of memory that the kernel has written");
    return add_report(report);
  }
}

void ww_fence(int scope) {
  preempt();
  if (!runtime.checks.races) return;
  release_fence(scope ? kDeviceScope : kBlockScope);
  acquire_fence(scope ? kDeviceScope : kBlockScope);
}

void ww_yield(int) { yield_thread(); }

void ww_executes_ptx(const void* place) { runtime.current->ptx = runtime.ptx = reinterpret_cast<Address>(place); }

void ww_fail(ww_problem problem, const char* message, int line) {
  static constexpr Kind kinds[] = {kKernelAssertion, kUndefinedBehaviour, kUnsupportedFeature, kUndefinedBehaviour};
  fatal_report(new_report(kinds[problem], reinterpret_cast<Address>(__builtin_return_address(0)), line), "%s", message);
}

void ww_warn(ww_problem problem, const char* message, int line) {
  static constexpr Kind kinds[] = {kKernelAssertion, kUndefinedBehaviour, kUnsupportedFeature, kUndefinedBehaviour};
  Report report = new_report(kinds[problem], reinterpret_cast<Address>(__builtin_return_address(0)), line);
  set_message(report, "%s", message);
  if (runtime.checks.any) add_report(report);
}

int ww_printf(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < 0) return -1;
  if (runtime.text_output.size() + static_cast<size_t>(length) > kPrintedLimit) {
    runtime.text_dropped += static_cast<uint64_t>(length);
    return length;
  }
  if (static_cast<size_t>(length) < sizeof text) {
    runtime.text_output.append(text, static_cast<size_t>(length));
    return length;
  }
  std::string longer(static_cast<size_t>(length) + 1, '\0');
  va_start(arguments, format);
  vsnprintf(longer.data(), longer.size(), format, arguments);
  va_end(arguments);
  runtime.text_output.append(longer.data(), static_cast<size_t>(length));
  return length;
}

unsigned long long ww_clock() { return static_cast<unsigned long long>(now() * 1e9); }

}  // extern "C"
