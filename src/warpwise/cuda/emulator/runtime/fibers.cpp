// Stack allocation, and the context switch for x86-64, AArch64 and (through ucontext) other processors.
#include "arena.h"
#include "fibers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <vector>

namespace ww {
namespace {

constexpr size_t kChunk = 128;  // stacks per mmap
struct Chunk {
  char* base;
};
std::vector<Chunk> chunks;
std::vector<char*> free_stacks;
size_t stacks_made = 0;

constexpr size_t kStride = kStackBytes + kPage;

void grow() {
  void* mapped = mmap(nullptr, kChunk * kStride, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapped == MAP_FAILED) return;
  char* base = static_cast<char*>(mapped);
  chunks.push_back({base});
  for (size_t i = kChunk; i-- > 0;) {
    mprotect(base + i * kStride, kPage, PROT_NONE);
    free_stacks.push_back(base + i * kStride + kPage);
  }
  stacks_made += kChunk;
}

}  // namespace

char* acquire_stack() {
  if (free_stacks.empty() && stacks_made < kMaxFibers) grow();
  if (free_stacks.empty()) return nullptr;
  char* stack = free_stacks.back();
  free_stacks.pop_back();
  return stack;
}

void release_stack(char* stack) { free_stacks.push_back(stack); }

size_t stacks_in_use() { return stacks_made - free_stacks.size(); }

void reclaim_all_stacks() {
  if (!stacks_in_use()) return;
  free_stacks.clear();
  for (size_t c = chunks.size(); c-- > 0;)
    for (size_t i = kChunk; i-- > 0;) free_stacks.push_back(chunks[c].base + i * kStride + kPage);
}

bool in_stacks(Address address) {
  for (const Chunk& chunk : chunks)
    if (address - reinterpret_cast<Address>(chunk.base) < kChunk * kStride) return true;
  return false;
}

bool in_guard_page(Address address) {
  for (const Chunk& chunk : chunks) {
    const Address offset = address - reinterpret_cast<Address>(chunk.base);
    if (offset < kChunk * kStride) return offset % kStride < kPage;
  }
  return false;
}

// Stacks are a multiple of the page size apart, so their tops would map to the same few cache sets. Offset each one.
static char* stack_top(char* stack) {
  const size_t index = reinterpret_cast<Address>(stack) / kStride;
  return stack + kStackBytes - (index % 64) * 704 - 64;
}

}  // namespace ww

#if defined(__x86_64__) && !defined(WW_UCONTEXT)
namespace ww {
void* make_fiber(char* stack, void (*entry)()) {
  void** top = reinterpret_cast<void**>(reinterpret_cast<Address>(stack_top(stack)) & ~Address{15});
  *--top = nullptr;                         // the return address of `entry`, which never returns
  *--top = reinterpret_cast<void*>(entry);  // where switch_fiber goes
  return top;
}
}  // namespace ww

#elif defined(__aarch64__) && !defined(WW_UCONTEXT)
// x19-x30 and d8-d15 are callee-saved by AAPCS64.
asm(R"(
.text
.globl ww_switch_fiber
.hidden ww_switch_fiber
.type ww_switch_fiber,%function
ww_switch_fiber:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size ww_switch_fiber,.-ww_switch_fiber
)");
extern "C" void ww_switch_fiber(void** save, void* to);

namespace ww {
void switch_fiber(void** save, void* to) { ww_switch_fiber(save, to); }

void* make_fiber(char* stack, void (*entry)()) {
  Address* frame = reinterpret_cast<Address*>(reinterpret_cast<Address>(stack_top(stack)) & ~Address{15}) - 20;
  memset(frame, 0, 160);
  frame[11] = reinterpret_cast<Address>(entry);  // x30, where `ret` goes
  return frame;
}
}  // namespace ww

#else
#include <ucontext.h>

namespace ww {
// For other processors. A saved fiber is a ucontext_t on its own stack; each switch costs two system calls.
void switch_fiber(void** save, void* to) {
  ucontext_t here;
  *save = &here;
  swapcontext(&here, static_cast<ucontext_t*>(to));
}

void* make_fiber(char* stack, void (*entry)()) {
  char* top = reinterpret_cast<char*>(reinterpret_cast<Address>(stack_top(stack)) & ~Address{63});
  ucontext_t* context = reinterpret_cast<ucontext_t*>(top - ((sizeof(ucontext_t) + 63) & ~size_t{63}));
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = static_cast<size_t>(reinterpret_cast<char*>(context) - stack);
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}
}  // namespace ww
#endif
