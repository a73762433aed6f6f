// The memory of a whole program: blocks that reside in the emulator's arena. Device memory is inaccessible to the host
// outside of the API's copies; managed memory is inaccessible between a launch and the next synchronization.
#include "memory.h"

#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <cuda_runtime.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <mutex>
#include <set>

#include "program.h"

extern "C" {  // of the emulator's runtime
void* ww_resident_allocate(size_t bytes, int host_access, int track);
int ww_resident_free(const void* address);
void ww_resident_open(const void* address, int accessible);
void ww_resident_written(const void* address, size_t bytes);
}

namespace {
using warpwise_host::Kind;

constexpr int kMostBlocks = 1536;  // kResidentSlots of the emulator's arena.h

std::recursive_mutex guard;
std::map<uint64_t, ww_program_block> blocks;  // keyed by address; a freed block stays until its address is used again
std::set<uint64_t> attached;                  // addresses of managed blocks that belong to one stream or to the host
bool pending = false;                         // a launch since the last synchronization
int library_calls = 0;                        // that are running: device memory is accessible to the host
ww_problem_callback on_problem = nullptr;
ww_exit_callback on_finish = nullptr;

ww_trace trace() {
  ww_trace made{};
  void* frames[kFrames + 2];
  const int count = backtrace(frames, kFrames + 2);
  for (int i = 2; i < count; i++) made.frames[made.count++] = reinterpret_cast<uint64_t>(frames[i]);
  return made;
}

ww_program_block* find(uint64_t address) {
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return nullptr;
  --after;
  // The addresses of two blocks differ by gigabytes, so an address near a block was computed from it.
  return address - after->first <= after->second.bytes + (uint64_t{1} << 30) ? &after->second : nullptr;
}

std::map<const ww_program_block*, int> accesses;  // by block; device_mutex() guards it

void open_managed(bool accessible) {
  for (const auto& each : blocks)
    if (each.second.live && Kind(each.second.memory) == Kind::kManaged && !attached.count(each.first))
      ww_resident_open(reinterpret_cast<void*>(each.first), accessible);
}

void open_device(bool open) {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  for (const auto& [address, block] : blocks) {
    const Kind kind = Kind(block.memory);
    if (block.live && (warpwise_host::on_device(kind) || kind == Kind::kManaged))
      ww_resident_open(reinterpret_cast<void*>(address),
                       open || (kind == Kind::kManaged && (!pending || attached.count(address))));
  }
}

uint64_t faulting_instruction(const void* context) {
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#ifdef __aarch64__
  return machine.pc;
#else
  return uint64_t(machine.gregs[REG_RIP]);
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
  ww_program_block* block = find(address);
  const bool managed = block && block->live && Kind(block->memory) == Kind::kManaged;
  const bool inside = block && address - block->address < block->bytes;
  const int kind = !block || !inside ? WW_HOST_FAULT : managed && pending ? WW_MANAGED_ACCESS : WW_DEVICE_ACCESS;
  ww_problem problem = {kind, "", address, 0, trace()};
  // The other frames are return addresses, one past their call.
  for (uint64_t& frame : problem.at.frames) frame += frame == faulting_instruction(context);
  on_problem(&problem);
  if (kind == WW_MANAGED_ACCESS) {
    open_managed(true);
    return;  // the access repeats
  }
  fflush(nullptr);
  _exit(on_finish(128 + signal));
}

void finish(int status, void*) {
  std::cout.flush();
  fflush(nullptr);
  _exit(on_finish(status));
}
// Says once that the program has too many blocks: its own message is that the memory is exhausted.
void explain_failure() {
  static bool told = false;
  const auto live = std::count_if(blocks.begin(), blocks.end(), [](const auto& each) { return each.second.live != 0; });
  if (told || live < kMostBlocks) return;
  told = true;
  fprintf(stderr,
          "UnsupportedFeature: %d blocks of memory are live, the most that the emulator holds: further allocations "
          "fail with cudaErrorMemoryAllocation\n",
          kMostBlocks);
}
}  // namespace

namespace warpwise_host {
void* allocate(size_t bytes, Kind kind) {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  void* made = ww_resident_allocate(bytes, !warpwise_host::on_device(kind), warpwise_host::on_device(kind));
  if (!made) return explain_failure(), nullptr;
  const uint64_t address = reinterpret_cast<uint64_t>(made);
  attached.erase(address);
  blocks[address] = {address, bytes, int(kind), 1, trace(), {}};
  return made;
}
bool release(void* address) {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  const auto found = blocks.find(reinterpret_cast<uint64_t>(address));
  if (found == blocks.end() || !found->second.live) return false;
  found->second.live = 0;
  found->second.freed = trace();
  ww_resident_free(address);
  return true;
}
bool kind_of(const void* address, Kind& kind) {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  const ww_program_block* block = find(reinterpret_cast<uint64_t>(address));
  if (block) kind = Kind(block->memory);
  return block && block->live;
}
void synchronized() {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  if (!pending) return;
  pending = false;
  open_managed(true);
}
void attach(void* managed, bool alone) {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  const ww_program_block* block = find(reinterpret_cast<uint64_t>(managed));
  if (!block || !block->live) return;
  if (!alone) {
    attached.erase(block->address);
    return;
  }
  attached.insert(block->address);
  ww_resident_open(managed, 1);
}
void written(const void* address, size_t bytes) { ww_resident_written(address, bytes); }
void report(const char* function, const void* address, size_t bytes) {
  const ww_problem problem = {WW_BAD_RANGE, function, reinterpret_cast<uint64_t>(address), bytes, trace()};
  on_problem(&problem);
}
bool wrong_direction(const void* address, bool host, int kind) {
  Kind memory;
  const bool known = kind_of(address, memory);
  return kind != cudaMemcpyDefault && host && known && on_device(memory);
}
// The accesses to a block nest: only the outermost one changes the protection of its pages, which takes longer than a
// copy of a row.
Access::Access(const void* address) : address_(address) {
  if (!accesses[find(reinterpret_cast<uint64_t>(address))]++) ww_resident_open(address_, 1);
}
Access::~Access() {
  const auto held = accesses.find(find(reinterpret_cast<uint64_t>(address_)));
  if (held == accesses.end() || --held->second) return;
  accesses.erase(held);
  Kind kind;
  if (!library_calls && kind_of(address_, kind) && on_device(kind)) ww_resident_open(address_, 0);
}
int check_range(const void* address, size_t bytes) {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  const uint64_t first = reinterpret_cast<uint64_t>(address);
  const ww_program_block* block = find(first);
  if (!block) return -1;
  if (!block->live) return -2;
  const uint64_t offset = first - block->address;
  return offset <= block->bytes && bytes <= block->bytes - offset;
}
}  // namespace warpwise_host

extern "C" {
// Called before the program is loaded: its static destructors then run before `finish`.
void ww_program_prepare(ww_problem_callback problem, ww_exit_callback exited) {
  on_problem = problem;
  on_finish = exited;
  on_exit(finish, nullptr);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}
void ww_program_run(int (*main)(int, char**, char**), int count, char** arguments) {
  exit(main(count, arguments, environ));
}
void ww_program_report(int kind, const char* message) {
  const ww_problem problem = {kind, message, 0, 0, trace()};
  on_problem(&problem);
}
void ww_program_launched() {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  pending = true;
  open_managed(false);
}
// While a CPU version of a CUDA library runs, it accesses all device and managed memory. Calls nest.
void ww_program_open_device(int open) {
  if (open) warpwise_host::device_mutex().lock();
  library_calls += open ? 1 : -1;
  if (library_calls == (open ? 1 : 0)) open_device(open);
  if (!open) warpwise_host::device_mutex().unlock();
}
int ww_program_find(uint64_t address, ww_program_block* found) {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  const ww_program_block* block = find(address);
  if (block) *found = *block;
  return block != nullptr;
}
uint64_t ww_program_live(ww_program_block* list, uint64_t room) {
  const std::lock_guard<std::recursive_mutex> lock(guard);
  uint64_t count = 0;
  for (const auto& each : blocks) {
    if (!each.second.live || Kind(each.second.memory) == Kind::kSymbol) continue;
    if (count < room) list[count] = each.second;
    count++;
  }
  return count;
}
}
