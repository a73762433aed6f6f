// The runtime's C API for Python (runtime.py mirrors its structures). ww_run performs one launch: copies the arguments
// into the arena, runs the grid, copies results back, and returns the reports.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <mutex>

#include "access.h"
#include "default_arithmetic.h"
#include "described_access.h"
#include "fibers.h"
#include "interrupts.h"
#include "numbers.h"
#include "resident.h"
#include "signals.h"
#include "synchronise.h"
#include "writable.h"

namespace ww {

extern "C" {

struct ww_argument {
  const char* name;
  uint64_t host;  // address of the array's first element, or of a scalar's bytes
  uint64_t bytes;
  uint64_t storage;  // address of the storage that contains the array
  uint32_t element_bytes;
  uint8_t pointer, constant, output, writable;
};

struct ww_launch {
  void* entry;
  const ww_argument* arguments;
  uint32_t argument_count;
  uint32_t grid[3], block[3], cluster[3];
  uint64_t dynamic_shared, shared_limit;  // bytes per block
  uint32_t check_any, check_races, check_uninitialised, check_barrier_lines;
  uint32_t order, seed, max_findings, check_numbers;
  double timeout;
  uint64_t watched;  // a host address in an array argument, whose last write the result describes, or 0
};

struct ww_result {
  const Report* reports;
  uint64_t report_count;
  const char* text;  // the kernel's printf output
  uint64_t text_bytes, text_dropped;
  uint64_t blocks, barriers, load_bias;
  double seconds;
  int32_t interrupted, has_last_write;
  Side last_write;
};
}

namespace {

constexpr unsigned kRedzoneByte = 0xa5;

struct Binding {
  const ww_argument* argument;
  Slot* slot;
  Address device;
};
std::vector<Binding> bindings;
unsigned slots_used = 0;

// Redzones: the bytes before and after an array, on its first and last page, where a kernel compiled without checks can
// write without a page fault.
template <class F>
void for_each_redzone(const Slot& slot, F f) {
  char* begin = reinterpret_cast<char*>(slot.middle);
  char* start = reinterpret_cast<char*>(slot.start);
  char* end = start + slot.bytes;
  char* last = begin + (((end - begin) + static_cast<ptrdiff_t>(kPage)) & ~static_cast<ptrdiff_t>(kPage - 1));
  f(begin, start, -1);
  f(end, last, 1);
}

bool bind_overlapping(size_t first, size_t last) {
  if (slots_used >= kTensorSlots) {
    Report report = new_report(kLaunchError);
    set_message(report,
                "the kernel has more than %u array arguments that do not overlap; the emulator supports no more",
                kTensorSlots);
    add_report(report);
    return false;
  }
  Slot& slot = slots[slots_used++];
  uint64_t start = bindings[first].argument->host, end = start;
  bool any_output = false, any_constant = false, all_constant = true;
  for (size_t i = first; i < last; i++) {
    const ww_argument& argument = *bindings[i].argument;
    end = std::max(end, argument.host + argument.bytes);
    any_output |= argument.output;
    any_constant |= argument.constant;
    all_constant &= argument.constant != 0;
  }
  const size_t offset = (start - bindings[first].argument->storage) & 255, bytes = end - start;
  if (!commit(slot, offset, bytes, !runtime.checks.any)) {
    Report report = new_report(kLaunchError);
    set_message(report, "the emulator cannot allocate %zu bytes for its copy of '%s'", bytes,
                bindings[first].argument->name);
    add_report(report);
    return false;
  }
  slot.shared = 0;
  slot.space = kGlobal;
  slot.constant = all_constant ? 1 : any_constant ? kMixedConstant : 0;
  slot.report_unwritten_reads = runtime.checks.uninitialised;
  slot.views.clear();
  for (size_t i = first; i < last; i++) {
    const ww_argument& argument = *bindings[i].argument;
    bindings[i].slot = &slot;
    bindings[i].device = slot.start + (argument.host - start);
    slot.views.push_back({bindings[i].device, argument.bytes, argument.element_bytes, argument.constant != 0,
                          argument.output != 0, argument.name});
  }
  if (runtime.checks.races) allocate_shadow_cells(slot);
  if (runtime.checks.any && any_output) allocate_written_bits(slot);
  for (size_t i = first; i < last; i++)
    if (bindings[i].argument->output)
      memset(reinterpret_cast<void*>(bindings[i].device), 0xff, bindings[i].argument->bytes);
  for (size_t i = first; i < last; i++) {
    const ww_argument& argument = *bindings[i].argument;
    if (argument.output) continue;
    memcpy(reinterpret_cast<void*>(bindings[i].device), reinterpret_cast<const void*>(argument.host), argument.bytes);
    if (slot.written) mark_written(slot, bindings[i].device, argument.bytes);
  }
  if (!runtime.checks.any && !all_constant)
    for_each_redzone(slot,
                     [](char* from, char* to, int) { memset(from, kRedzoneByte, static_cast<size_t>(to - from)); });
  return true;
}

// Gives each array argument its own slot. Arguments that overlap share a slot, so that they alias in the arena.
bool bind_arguments(const ww_launch& launch) {
  bindings.clear();
  slots_used = 0;
  begin_resident(launch.check_races != 0);
  for (uint32_t i = 0; i < launch.argument_count; i++) {
    const ww_argument& argument = launch.arguments[i];
    if (!argument.pointer || !argument.host) continue;
    if (Slot* resident = resident_slot(argument.host))
      add_resident_view(*resident,
                        {argument.host, argument.bytes, argument.element_bytes, false, false, argument.name});
    else
      bindings.push_back({&argument, nullptr, 0});
  }
  std::stable_sort(bindings.begin(), bindings.end(),
                   [](const Binding& a, const Binding& b) { return a.argument->host < b.argument->host; });
  for (size_t first = 0; first < bindings.size();) {
    uint64_t end = bindings[first].argument->host + bindings[first].argument->bytes;
    size_t last = first + 1;
    for (; last < bindings.size() && bindings[last].argument->host < end; last++)
      end = std::max(end, bindings[last].argument->host + bindings[last].argument->bytes);
    if (!bind_overlapping(first, last)) return false;
    first = last;
  }
  return true;
}

void report_unwritten(const Binding& output) {
  const uint8_t* written = reinterpret_cast<const uint8_t*>(output.slot->written);
  const uint32_t width = output.argument->element_bytes ? output.argument->element_bytes : 1;
  uint64_t missing = 0, first = 0;
  const Address start = output.device, end = start + output.argument->bytes;
  for (Address at = start; at < end;) {
    if (!(at & 7) && end - at >= 8 && written[at >> 3] == 0xff) {
      at += 8;
      continue;
    }
    const Address element = start + (at - start) / width * width;
    if (written[at >> 3] >> (at & 7) & 1) {
      at++;
      continue;
    }
    if (!missing++) first = (element - start) / width;
    at = element + width;
  }
  if (!missing) return;
  Report report = new_report(kUnwrittenOutput);
  describe(report, *output.slot, start + first * width);
  snprintf(report.variable, sizeof report.variable, "%s", output.argument->name);
  report.index = static_cast<int64_t>(first);
  report.element_bytes = width;
  report.elements = static_cast<int64_t>(output.argument->bytes / width);
  report.count = missing;
  runtime.reports.push_back(report);
}

void check_redzones(const Slot& slot) {
  if (slot.constant == 1) return;
  for_each_redzone(slot, [&](char* from, char* to, int side) {
    char* bad = nullptr;
    for (char* at = from; at < to && !(bad && side > 0); at++)
      if (static_cast<unsigned char>(*at) != kRedzoneByte) bad = at;
    if (!bad) return;
    Report report = new_report(kOutOfBounds);
    describe(report, slot, reinterpret_cast<Address>(bad));
    report.access.action = kUnknownThread;
    set_message(report, "run with checks=\"all\" to find the thread and the line");
    runtime.reports.push_back(report);
  });
}

bool is_fatal(const Report& report) {
  switch (report.kind) {
    case kDataRace:
    case kUninitializedRead:
    case kBarrierDivergence:
    case kUnwrittenOutput:
    case kSpecialValue:
      return false;
    default:
      return true;
  }
}

void begin_launch(const ww_launch& launch) {
  runtime.entry = reinterpret_cast<Entry>(launch.entry);
  runtime.grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
  runtime.dim = {launch.block[0], launch.block[1], launch.block[2]};
  runtime.cluster = {launch.cluster[0], launch.cluster[1], launch.cluster[2]};
  runtime.threads = launch.block[0] * launch.block[1] * launch.block[2];
  runtime.blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  runtime.dynamic_shared = launch.dynamic_shared;
  runtime.shared_limit = launch.shared_limit;
  runtime.checks = {launch.check_any != 0, launch.check_races != 0, launch.check_uninitialised != 0,
                    launch.check_barrier_lines != 0};
  runtime.order = static_cast<Order>(launch.order);
  runtime.seed = launch.seed;
  if (runtime.order == Order::kPreempt) runtime.seed = (launch.seed + 1) * 2654435761u;  // spreads small seeds
  runtime.max_findings = std::max(1u, launch.max_findings);
  runtime.current = nullptr;
  runtime.block = nullptr;
  runtime.aborted = runtime.locating = runtime.pending_store = runtime.interleaved = runtime.clustered = false;
  runtime.stalls = 0;
  runtime.leaves_block = false;
  runtime.started_early.clear();
  runtime.proxy_fenced.clear();
  runtime.maps_released.clear();
  runtime.finished_blocks = runtime.barriers_completed = 0;
  runtime.reports.clear();
  runtime.text_output.clear();
  runtime.text_dropped = 0;
  runtime.epoch_owner.clear();
  start_knowledge(runtime.blocks);
  forget_all();
  runtime.epoch_floor[0] = runtime.last_epoch + 1;
  for (unsigned i = 0; i < runtime.threads; i++)
    runtime.thread_index[i] = {i % runtime.dim.x, i / runtime.dim.x % runtime.dim.y,
                               i / (runtime.dim.x * runtime.dim.y)};
  if (runtime.free_shared_slots.empty())
    for (unsigned i = kResidentFirst; i-- > kTensorSlots;) runtime.free_shared_slots.push_back(i);
  select_module(reinterpret_cast<Address>(launch.entry));
}

void run(const ww_launch& launch) {
  std::vector<void*> values(launch.argument_count + 1);
  std::vector<Address> pointers(launch.argument_count + 1);
  for (uint32_t i = 0; i < launch.argument_count; i++) {
    const ww_argument& argument = launch.arguments[i];
    if (argument.pointer && resident_slot(argument.host)) pointers[i] = argument.host;
    values[i] = argument.pointer ? static_cast<void*>(&pointers[i]) : reinterpret_cast<void*>(argument.host);
    for (const Binding& each : bindings)
      if (each.argument == &argument) pointers[i] = each.device;
  }
  runtime.arguments = values.data();
  SignalGuard guard(launch.timeout);
  const NumberGuard numbers(launch.check_numbers != 0);
  run_grid();
}

void finish_launch(const ww_launch& launch, ww_result& result) {
  const bool fatal = runtime.stop || std::any_of(runtime.reports.begin(), runtime.reports.end(), is_fatal);
  runtime.current = nullptr;
  runtime.block = nullptr;
  if (const Address device = launch.watched && runtime.checks.races ? device_address(launch.watched) : 0)
    if (const Slot* slot = slot_of(device))
      result.has_last_write = describe_last_write(*slot, device, result.last_write);
  for (const Binding& each : bindings) {
    if (!each.slot || fatal) continue;
    if (each.argument->output && each.slot->written) report_unwritten(each);
    if (!each.argument->constant && each.argument->writable)
      memcpy(reinterpret_cast<void*>(each.argument->host), reinterpret_cast<const void*>(each.device),
             each.argument->bytes);
  }
  for (unsigned i = 0; i < slots_used; i++) {
    if (!runtime.checks.any && !fatal && slots[i].bytes) check_redzones(slots[i]);
    release_slot(slots[i]);
  }
  end_resident();
}

std::mutex launch_mutex;

}  // namespace

Address device_address(Address host) {
  if (resident_slot(host)) return host;
  for (const Binding& each : bindings)
    if (each.argument->host <= host && host - each.argument->host < each.argument->bytes)
      return each.device + (host - each.argument->host);
  return 0;
}

}  // namespace ww

using namespace ww;

#define WW_EXPORT extern "C" __attribute__((visibility("default")))

// Runs a kernel. Returns 0, or 1 if the arena's address space cannot be reserved. Release the result with
// ww_release_result.
WW_EXPORT int ww_run(const ww_launch* launch, ww_result* result) {
  const std::lock_guard<std::mutex> lock(launch_mutex);
  const DefaultArithmetic arithmetic;
  memset(result, 0, sizeof *result);
  if (!reserve_arena()) return 1;
  const InterruptGuard interrupts(runtime.stop, static_cast<int>(Stop::kInterrupt));
  begin_launch(*launch);
  if (bind_arguments(*launch)) run(*launch);
  finish_launch(*launch, *result);
  const size_t count = runtime.reports.size();
  Report* reports = static_cast<Report*>(malloc(std::max<size_t>(1, count * sizeof(Report))));
  if (count) memcpy(reports, runtime.reports.data(), count * sizeof(Report));
  char* text = static_cast<char*>(malloc(runtime.text_output.size() + 1));
  memcpy(text, runtime.text_output.data(), runtime.text_output.size());
  *result = {reports,
             count,
             text,
             runtime.text_output.size(),
             runtime.text_dropped,
             runtime.finished_blocks,
             runtime.barriers_completed,
             load_bias(),
             now() - runtime.started,
             runtime.stop == static_cast<int>(Stop::kInterrupt),
             result->has_last_write,
             result->last_write};
  return 0;
}

// The numbers of finished and of all blocks of the launch that runs, for another thread.
WW_EXPORT void ww_progress(uint64_t counts[2]) {
  counts[0] = __atomic_load_n(&runtime.finished_blocks, __ATOMIC_RELAXED);
  counts[1] = __atomic_load_n(&runtime.blocks, __ATOMIC_RELAXED);
}

// Records that the host has set the __constant__ variable at this address, in the library of the kernel with this
// entry.
WW_EXPORT void ww_constant_is_set(uint64_t entry, uint64_t address) {
  const std::lock_guard<std::mutex> lock(launch_mutex);
  constant_is_set(entry, address);
}

// The host writes the variables of a kernel's library, also those that the kernel declares const.
WW_EXPORT void ww_make_writable(uint64_t address, uint64_t bytes) {
  make_writable(reinterpret_cast<const void*>(address), bytes);
}

WW_EXPORT void ww_release_result(ww_result* result) {
  free(const_cast<Report*>(result->reports));
  free(const_cast<char*>(result->text));
}

// sizeof ww_argument, ww_launch, ww_result and Report, which Python compares with its own structures.
WW_EXPORT void ww_structure_sizes(size_t sizes[4]) {
  sizes[0] = sizeof(ww_argument);
  sizes[1] = sizeof(ww_launch);
  sizes[2] = sizeof(ww_result);
  sizes[3] = sizeof(Report);
}
