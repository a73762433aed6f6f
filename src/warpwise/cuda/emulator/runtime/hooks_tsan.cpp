// The interface of ThreadSanitizer's instrumentation: kernels are compiled with -fsanitize=thread, so that g++ and
// clang call one of these functions before each memory access. They replace the ThreadSanitizer runtime, which is not
// linked.
#include <string.h>

#include "access.h"
#include "synchronise.h"
#include "volatile_data.h"

using namespace ww;

#define WW_PC reinterpret_cast<Address>(__builtin_return_address(0))
#define WW_HOOK extern "C" __attribute__((visibility("default"))) void

// A volatile access is a strong operation of the PTX memory model: it races with weak accesses only. A thread that
// polls a flag yields after some of them. Implicit warp-synchronous code, which uses volatile shared memory in place of
// __syncwarp(), is a data race: since Volta, the lanes of a warp need not run in lockstep.
static void strong_access(Address address, unsigned bytes, bool write, Address pc) {
  if (!on_kernel_fiber()) return;
  if (!write && --runtime.strong_budget < 0) yield_thread();
  preempt();
  resolve_pending_store();
  const Slot* slot = slot_with_cells(address);
  if (slot && slot->shared && slot->cells && address - slot->start < slot->bytes)
    check_warp_synchronous(*slot, address, bytes, write, pc);
  synchronise(address, bytes, write ? Operation::kWrite : Operation::kRead, kDeviceScope, kRelaxed, 0);
  if (!write) note_observed(address);
  access_range(address, bytes, write, pc, kStrongAccess);
  if (runtime.checks.races && slot) note_volatile(address, write);
}

#define WW_HOOKS(N)                                                                                                    \
  WW_HOOK __tsan_read##N(void* p) { access<N, false>(reinterpret_cast<Address>(p), WW_PC); }                           \
  WW_HOOK __tsan_write##N(void* p) { access<N, true>(reinterpret_cast<Address>(p), WW_PC); }                           \
  WW_HOOK __tsan_read_write##N(void* p) {                                                                              \
    access<N, false>(reinterpret_cast<Address>(p), WW_PC);                                                             \
    access<N, true>(reinterpret_cast<Address>(p), WW_PC);                                                              \
  }                                                                                                                    \
  WW_HOOK __tsan_unaligned_read##N(void* p) { access_range(reinterpret_cast<Address>(p), N, false, WW_PC); }           \
  WW_HOOK __tsan_unaligned_write##N(void* p) { access_range(reinterpret_cast<Address>(p), N, true, WW_PC); }           \
  WW_HOOK __tsan_unaligned_read_write##N(void* p) {                                                                    \
    access_range(reinterpret_cast<Address>(p), N, false, WW_PC);                                                       \
    access_range(reinterpret_cast<Address>(p), N, true, WW_PC);                                                        \
  }                                                                                                                    \
  WW_HOOK __tsan_volatile_read##N(void* p) { strong_access(reinterpret_cast<Address>(p), N, false, WW_PC); }           \
  WW_HOOK __tsan_volatile_write##N(void* p) { strong_access(reinterpret_cast<Address>(p), N, true, WW_PC); }           \
  WW_HOOK __tsan_unaligned_volatile_read##N(void* p) { strong_access(reinterpret_cast<Address>(p), N, false, WW_PC); } \
  WW_HOOK __tsan_unaligned_volatile_write##N(void* p) { strong_access(reinterpret_cast<Address>(p), N, true, WW_PC); }
WW_HOOKS(1)
WW_HOOKS(2)
WW_HOOKS(4)
WW_HOOKS(8)
WW_HOOKS(16)
#undef WW_HOOKS

// A struct copy is one range access. A float4 or float2 is one vector access on a GPU and is checked as one.
WW_HOOK __tsan_read_range(void* p, size_t bytes) {
  if (bytes == 16 && !(reinterpret_cast<Address>(p) & 15))
    access<16, false>(reinterpret_cast<Address>(p), WW_PC);
  else if (bytes == 8 && !(reinterpret_cast<Address>(p) & 7))
    access<8, false>(reinterpret_cast<Address>(p), WW_PC);
  else
    access_range(reinterpret_cast<Address>(p), bytes, false, WW_PC);
}
WW_HOOK __tsan_write_range(void* p, size_t bytes) {
  if (bytes == 16 && !(reinterpret_cast<Address>(p) & 15))
    access<16, true>(reinterpret_cast<Address>(p), WW_PC);
  else if (bytes == 8 && !(reinterpret_cast<Address>(p) & 7))
    access<8, true>(reinterpret_cast<Address>(p), WW_PC);
  else
    access_range(reinterpret_cast<Address>(p), bytes, true, WW_PC);
}

WW_HOOK __tsan_init() {}
WW_HOOK __tsan_func_entry(void*) {}
WW_HOOK __tsan_func_exit() {}
WW_HOOK __tsan_vptr_update(void**, void*) {}
WW_HOOK __tsan_vptr_read(void**) {}

extern "C" {
__attribute__((visibility("default"))) void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  access_range(reinterpret_cast<Address>(from), bytes, false, WW_PC);
  access_range(reinterpret_cast<Address>(to), bytes, true, WW_PC);
  return memcpy(to, from, bytes);
}
__attribute__((visibility("default"))) void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  access_range(reinterpret_cast<Address>(from), bytes, false, WW_PC);
  access_range(reinterpret_cast<Address>(to), bytes, true, WW_PC);
  return memmove(to, from, bytes);
}
__attribute__((visibility("default"))) void* __tsan_memset(void* to, int value, size_t bytes) {
  access_range(reinterpret_cast<Address>(to), bytes, true, WW_PC);
  return memset(to, value, bytes);
}
}

// Atomic builtins of the compiler (__atomic_fetch_add, ...). One OS thread runs all fibers, so a plain
// read-modify-write is atomic.
#define WW_VISIBLE extern "C" __attribute__((visibility("default")))
template <class T>
static void before_atomic(const volatile T* p, Operation operation, int order, Address pc) {
  if (!on_kernel_fiber()) return;
  if (--runtime.strong_budget < 0) yield_thread();
  preempt();
  resolve_pending_store();
  const bool write = operation != Operation::kRead, releases = order >= __ATOMIC_RELEASE;
  const bool acquires = order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE;
  synchronise(reinterpret_cast<Address>(p), sizeof(T), operation, kDeviceScope,
              (acquires ? kAcquire : 0) | (releases ? kRelease : 0), 0);
  access_range(reinterpret_cast<Address>(p), sizeof(T), write, pc, kStrongAccess);
}
#define WW_FETCH(BITS, T, NAME, EXPRESSION)                                      \
  WW_VISIBLE T __tsan_atomic##BITS##_##NAME(volatile T* p, T value, int order) { \
    before_atomic(p, Operation::kUpdate, order, WW_PC);                          \
    const T old = *p;                                                            \
    *p = static_cast<T>(EXPRESSION);                                             \
    return old;                                                                  \
  }
#define WW_ATOMICS(BITS, T)                                                                                           \
  WW_VISIBLE T __tsan_atomic##BITS##_load(const volatile T* p, int order) {                                           \
    before_atomic(p, Operation::kRead, order, WW_PC);                                                                 \
    return *p;                                                                                                        \
  }                                                                                                                   \
  WW_VISIBLE void __tsan_atomic##BITS##_store(volatile T* p, T value, int order) {                                    \
    before_atomic(p, Operation::kWrite, order, WW_PC);                                                                \
    *p = value;                                                                                                       \
  }                                                                                                                   \
  WW_FETCH(BITS, T, exchange, value)                                                                                  \
  WW_FETCH(BITS, T, fetch_add, old + value)                                                                           \
  WW_FETCH(BITS, T, fetch_sub, old - value)                                                                           \
  WW_FETCH(BITS, T, fetch_and, old& value)                                                                            \
  WW_FETCH(BITS, T, fetch_or, old | value)                                                                            \
  WW_FETCH(BITS, T, fetch_xor, old ^ value)                                                                           \
  WW_FETCH(BITS, T, fetch_nand, ~(old & value))                                                                       \
  WW_VISIBLE int __tsan_atomic##BITS##_compare_exchange_strong(volatile T* p, T* expected, T value, int order, int) { \
    before_atomic(p, Operation::kUpdate, order, WW_PC);                                                               \
    const T old = *p;                                                                                                 \
    if (old == *expected) {                                                                                           \
      *p = value;                                                                                                     \
      return 1;                                                                                                       \
    }                                                                                                                 \
    *expected = old;                                                                                                  \
    return 0;                                                                                                         \
  }                                                                                                                   \
  WW_VISIBLE int __tsan_atomic##BITS##_compare_exchange_weak(volatile T* p, T* expected, T value, int a, int b) {     \
    return __tsan_atomic##BITS##_compare_exchange_strong(p, expected, value, a, b);                                   \
  }
WW_ATOMICS(8, uint8_t)
WW_ATOMICS(16, uint16_t)
WW_ATOMICS(32, uint32_t)
WW_ATOMICS(64, uint64_t)
WW_VISIBLE void __tsan_atomic_thread_fence(int) {
  if (on_kernel_fiber()) ww_fence(2);
}
WW_VISIBLE void __tsan_atomic_signal_fence(int) {}
