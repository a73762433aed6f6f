// What Python calls: one launch from the arguments' copies into the arena to the reports.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <mutex>

#include "access.h"
#include "default_arithmetic.h"
#include "fibers.h"
#include "interrupts.h"
#include "signals.h"

namespace ww {

extern "C" {

struct ww_argument {
  const char* name;
  uint64_t host;  // of a pointer: the view's first byte; of a scalar: where its bytes are
  uint64_t bytes;
  uint64_t storage;  // the first byte of the storage that the view lies in
  uint32_t element_bytes;
  uint8_t pointer, constant, output, writable;
};

struct ww_launch {
  void* entry;
  const ww_argument* arguments;
  uint32_t argument_count;
  uint32_t grid[3], block[3];
  uint64_t dynamic_shared, shared_limit;  // bytes of a block
  uint32_t check_any, check_races, check_uninitialised, check_barrier_lines;
  uint32_t order, seed, max_findings;
  double timeout;
};

struct ww_result {
  const Report* reports;
  uint64_t report_count;
  const char* text;  // what the kernel printed
  uint64_t text_bytes, text_dropped;
  uint64_t blocks, barriers, load_bias;
  double seconds;
  int32_t interrupted;
};
}

namespace {

constexpr unsigned kGuardByte = 0xa5;

struct Bound {
  const ww_argument* argument;
  Slot* slot;
  Address device;
};
std::vector<Bound> bound;
unsigned slots_bound = 0;

// Bytes that an unchecked kernel could touch around the slot without a fault.
template <class F>
void for_each_guard(const Slot& slot, F f) {
  char* begin = reinterpret_cast<char*>(slot.middle);
  char* start = reinterpret_cast<char*>(slot.start);
  char* end = start + slot.bytes;
  char* last = begin + (((end - begin) + static_cast<ptrdiff_t>(kPage)) & ~static_cast<ptrdiff_t>(kPage - 1));
  f(begin, start, -1);
  f(end, last, 1);
}

bool bind_component(size_t first, size_t last) {
  if (slots_bound >= kTensorSlots) {
    Report report = new_report(kLaunchError);
    set_message(report, "more than %u separate arrays", kTensorSlots);
    add_report(report);
    return false;
  }
  Slot& slot = slots[slots_bound++];
  uint64_t start = bound[first].argument->host, end = start;
  bool any_output = false, any_constant = false, all_constant = true;
  for (size_t i = first; i < last; i++) {
    const ww_argument& argument = *bound[i].argument;
    end = std::max(end, argument.host + argument.bytes);
    any_output |= argument.output;
    any_constant |= argument.constant;
    all_constant &= argument.constant != 0;
  }
  const size_t offset = (start - bound[first].argument->storage) & 255, bytes = end - start;
  if (!commit(slot, offset, bytes, !world.checks.any)) {
    Report report = new_report(kLaunchError);
    set_message(report, "no memory to copy %zu bytes of '%s' for the emulator", bytes, bound[first].argument->name);
    add_report(report);
    return false;
  }
  slot.shared = 0;
  slot.space = kGlobal;
  slot.constant = all_constant ? 1 : any_constant ? kSomeConstant : 0;
  slot.report_unwritten_reads = world.checks.uninitialised;
  slot.views.clear();
  for (size_t i = first; i < last; i++) {
    const ww_argument& argument = *bound[i].argument;
    bound[i].slot = &slot;
    bound[i].device = slot.start + (argument.host - start);
    slot.views.push_back({bound[i].device, argument.bytes, argument.element_bytes, argument.constant != 0,
                          argument.output != 0, argument.name});
  }
  if (world.checks.races) follow_races(slot);
  if (world.checks.any && any_output) follow_writes(slot);
  for (size_t i = first; i < last; i++)
    if (bound[i].argument->output) memset(reinterpret_cast<void*>(bound[i].device), 0xff, bound[i].argument->bytes);
  for (size_t i = first; i < last; i++) {
    const ww_argument& argument = *bound[i].argument;
    if (argument.output) continue;
    memcpy(reinterpret_cast<void*>(bound[i].device), reinterpret_cast<const void*>(argument.host), argument.bytes);
    if (slot.written) mark_written(slot, bound[i].device, argument.bytes);
  }
  if (!world.checks.any && !all_constant)
    for_each_guard(slot, [](char* from, char* to, int) { memset(from, kGuardByte, static_cast<size_t>(to - from)); });
  return true;
}

// Views that overlap share a slot, so that they keep their aliasing; all others get one each.
bool bind_arguments(const ww_launch& launch) {
  bound.clear();
  slots_bound = 0;
  for (uint32_t i = 0; i < launch.argument_count; i++) {
    const ww_argument& argument = launch.arguments[i];
    if (argument.pointer && argument.host) bound.push_back({&argument, nullptr, 0});
  }
  std::stable_sort(bound.begin(), bound.end(),
                   [](const Bound& a, const Bound& b) { return a.argument->host < b.argument->host; });
  for (size_t first = 0; first < bound.size();) {
    uint64_t end = bound[first].argument->host + bound[first].argument->bytes;
    size_t last = first + 1;
    for (; last < bound.size() && bound[last].argument->host < end; last++)
      end = std::max(end, bound[last].argument->host + bound[last].argument->bytes);
    if (!bind_component(first, last)) return false;
    first = last;
  }
  return true;
}

void report_unwritten(const Bound& output) {
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
  world.reports.push_back(report);
}

void check_guards(const Slot& slot) {
  if (slot.constant == 1) return;
  for_each_guard(slot, [&](char* from, char* to, int side) {
    char* bad = nullptr;
    for (char* at = from; at < to && !(bad && side > 0); at++)
      if (static_cast<unsigned char>(*at) != kGuardByte) bad = at;
    if (!bad) return;
    Report report = new_report(kOutOfBounds);
    describe(report, slot, reinterpret_cast<Address>(bad));
    report.access.action = kNobody;
    set_message(report, "some thread wrote there; run with checks=\"all\" to learn which");
    world.reports.push_back(report);
  });
}

bool is_fatal(const Report& report) {
  switch (report.kind) {
    case kDataRace:
    case kUninitializedRead:
    case kBarrierDivergence:
    case kUnwrittenOutput:
      return false;
    default:
      return true;
  }
}

void set_up(const ww_launch& launch) {
  world.entry = reinterpret_cast<Entry>(launch.entry);
  world.grid = {launch.grid[0], launch.grid[1], launch.grid[2]};
  world.dim = {launch.block[0], launch.block[1], launch.block[2]};
  world.threads = launch.block[0] * launch.block[1] * launch.block[2];
  world.blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  world.dynamic_shared = launch.dynamic_shared;
  world.shared_limit = launch.shared_limit;
  world.checks = {launch.check_any != 0, launch.check_races != 0, launch.check_uninitialised != 0,
                  launch.check_barrier_lines != 0};
  world.order = static_cast<Order>(launch.order);
  world.seed = launch.seed;
  world.max_findings = std::max(1u, launch.max_findings);
  world.current = nullptr;
  world.block = nullptr;
  world.aborted = world.pending_store = world.interleaved = false;
  world.finished_blocks = world.barriers_passed = 0;
  world.reports.clear();
  world.text_output.clear();
  world.text_dropped = 0;
  world.epoch_owner.clear();
  world.fence_epochs.clear();
  world.floors[0] = world.last_epoch + 1;
  for (unsigned i = 0; i < world.threads; i++)
    world.thread_index[i] = {i % world.dim.x, i / world.dim.x % world.dim.y, i / (world.dim.x * world.dim.y)};
  if (world.free_shared_slots.empty())
    for (unsigned i = kSlots; i-- > kTensorSlots;) world.free_shared_slots.push_back(i);
  enter_module(reinterpret_cast<Address>(launch.entry));
}

void run(const ww_launch& launch) {
  std::vector<void*> values(launch.argument_count + 1);
  std::vector<Address> pointers(launch.argument_count + 1);
  for (uint32_t i = 0; i < launch.argument_count; i++) {
    const ww_argument& argument = launch.arguments[i];
    values[i] = argument.pointer ? static_cast<void*>(&pointers[i]) : reinterpret_cast<void*>(argument.host);
    for (const Bound& each : bound)
      if (each.argument == &argument) pointers[i] = each.device;
  }
  world.arguments = values.data();
  SignalGuard guard(launch.timeout);
  run_grid();
}

void take_down() {
  const bool fatal = world.stop || std::any_of(world.reports.begin(), world.reports.end(), is_fatal);
  world.current = nullptr;
  world.block = nullptr;
  for (const Bound& each : bound) {
    if (!each.slot || fatal) continue;
    if (each.argument->output && each.slot->written) report_unwritten(each);
    if (!each.argument->constant && each.argument->writable)
      memcpy(reinterpret_cast<void*>(each.argument->host), reinterpret_cast<const void*>(each.device),
             each.argument->bytes);
  }
  for (unsigned i = 0; i < slots_bound; i++) {
    if (!world.checks.any && !fatal && slots[i].bytes) check_guards(slots[i]);
    retire(slots[i]);
  }
}

std::mutex one_at_a_time;

}  // namespace
}  // namespace ww

using namespace ww;

#define WW_EXPORT extern "C" __attribute__((visibility("default")))

// Runs a kernel. The result is the caller's to give back by ww_release_result. Returns 0, or 1 without address space.
WW_EXPORT int ww_run(const ww_launch* launch, ww_result* result) {
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  const DefaultArithmetic arithmetic;
  memset(result, 0, sizeof *result);
  if (!reserve_arena()) return 1;
  const InterruptGuard interrupts(world.stop, static_cast<int>(Stop::kInterrupt));
  set_up(*launch);
  if (bind_arguments(*launch)) run(*launch);
  take_down();
  const size_t count = world.reports.size();
  Report* reports = static_cast<Report*>(malloc(std::max<size_t>(1, count * sizeof(Report))));
  if (count) memcpy(reports, world.reports.data(), count * sizeof(Report));
  char* text = static_cast<char*>(malloc(world.text_output.size() + 1));
  memcpy(text, world.text_output.data(), world.text_output.size());
  *result = {reports,
             count,
             text,
             world.text_output.size(),
             world.text_dropped,
             world.finished_blocks,
             world.barriers_passed,
             load_bias(),
             now() - world.started,
             world.stop == static_cast<int>(Stop::kInterrupt)};
  return 0;
}

WW_EXPORT void ww_release_result(ww_result* result) {
  free(const_cast<Report*>(result->reports));
  free(const_cast<char*>(result->text));
}

// The sizes of the structures that Python mirrors: argument, launch, result, report.
WW_EXPORT void ww_structure_sizes(size_t sizes[4]) {
  sizes[0] = sizeof(ww_argument);
  sizes[1] = sizeof(ww_launch);
  sizes[2] = sizeof(ww_result);
  sizes[3] = sizeof(Report);
}
