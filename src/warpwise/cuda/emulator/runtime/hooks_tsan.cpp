// The entry points that g++ and clang call under -fsanitize=thread: one call before each access that the kernel makes.
// No ThreadSanitizer runtime is linked; these are all there is.
#include <string.h>

#include "access.h"

using namespace ww;

#define WW_PC reinterpret_cast<Address>(__builtin_return_address(0))
#define WW_HOOK extern "C" __attribute__((visibility("default"))) void

// A polled flag is read by volatile or relaxed accesses: they race with plain ones only, and let other threads run.
// Lanes of one warp that rely on volatile instead of __syncwarp() do race: since Volta they need not run in lockstep.
static void strong_access(Address address, unsigned bytes, bool write, Address pc) {
  if (!runs_kernel()) return;
  world.block->strong_seen = true;
  const Slot* slot = slot_of(address);
  if (slot && slot->shared && slot->cells && address - slot->start < slot->bytes)
    check_lockstep(*slot, address, bytes, write, pc);
  access_range(address, bytes, write, pc, kStrongAccess);
  if (!write && --world.strong_budget < 0) give_way();
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

// A struct is copied by one range access: a float4 is one vector access on a GPU.
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

// Compiler builtins (__atomic_fetch_add and the like) in kernels: one OS thread runs all fibers, so a plain
// read-modify-write is atomic.
#define WW_VISIBLE extern "C" __attribute__((visibility("default")))
template <class T>
static void before_atomic(const volatile T* p, bool write, Address pc) {
  if (!runs_kernel()) return;
  world.block->strong_seen = true;
  if (--world.strong_budget < 0) give_way();
  access_range(reinterpret_cast<Address>(p), sizeof(T), write, pc, kStrongAccess);
}
#define WW_FETCH(BITS, T, NAME, EXPRESSION)                                \
  WW_VISIBLE T __tsan_atomic##BITS##_##NAME(volatile T* p, T value, int) { \
    before_atomic(p, true, WW_PC);                                         \
    const T old = *p;                                                      \
    *p = static_cast<T>(EXPRESSION);                                       \
    return old;                                                            \
  }
#define WW_ATOMICS(BITS, T)                                                                                       \
  WW_VISIBLE T __tsan_atomic##BITS##_load(const volatile T* p, int) {                                             \
    before_atomic(p, false, WW_PC);                                                                               \
    return *p;                                                                                                    \
  }                                                                                                               \
  WW_VISIBLE void __tsan_atomic##BITS##_store(volatile T* p, T value, int) {                                      \
    before_atomic(p, true, WW_PC);                                                                                \
    *p = value;                                                                                                   \
  }                                                                                                               \
  WW_FETCH(BITS, T, exchange, value)                                                                              \
  WW_FETCH(BITS, T, fetch_add, old + value)                                                                       \
  WW_FETCH(BITS, T, fetch_sub, old - value)                                                                       \
  WW_FETCH(BITS, T, fetch_and, old& value)                                                                        \
  WW_FETCH(BITS, T, fetch_or, old | value)                                                                        \
  WW_FETCH(BITS, T, fetch_xor, old ^ value)                                                                       \
  WW_FETCH(BITS, T, fetch_nand, ~(old & value))                                                                   \
  WW_VISIBLE int __tsan_atomic##BITS##_compare_exchange_strong(volatile T* p, T* expected, T value, int, int) {   \
    before_atomic(p, true, WW_PC);                                                                                \
    const T old = *p;                                                                                             \
    if (old == *expected) {                                                                                       \
      *p = value;                                                                                                 \
      return 1;                                                                                                   \
    }                                                                                                             \
    *expected = old;                                                                                              \
    return 0;                                                                                                     \
  }                                                                                                               \
  WW_VISIBLE int __tsan_atomic##BITS##_compare_exchange_weak(volatile T* p, T* expected, T value, int a, int b) { \
    return __tsan_atomic##BITS##_compare_exchange_strong(p, expected, value, a, b);                               \
  }
WW_ATOMICS(8, uint8_t)
WW_ATOMICS(16, uint16_t)
WW_ATOMICS(32, uint32_t)
WW_ATOMICS(64, uint64_t)
WW_VISIBLE void __tsan_atomic_thread_fence(int) {
  if (runs_kernel()) ww_fence(2);
}
WW_VISIBLE void __tsan_atomic_signal_fence(int) {}
