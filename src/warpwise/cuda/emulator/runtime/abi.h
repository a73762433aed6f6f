// What device headers and the runtime agree on: every entry point that a compiled kernel calls.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct ww_dim3 {
  unsigned x, y, z;
};

// One __shared__ declaration, as the rewritten source describes it; `launch` and `addr` are the runtime's.
struct ww_site {
  const char* name;
  uint32_t element_bytes, bytes, align;  // bytes is 0 for extern __shared__
  int line;
  uint64_t launch;
  void* addr;
};

// A warp operation's table: lane L's deposit lies at data + L * stride if bit L of present is set.
// Valid until the calling lane's next warp operation.
struct ww_exchange {
  const char* data;
  unsigned stride, present;
};

enum ww_problem { WW_ASSERT, WW_UNDEFINED, WW_UNSUPPORTED, WW_WARP };

#pragma GCC visibility push(default)
extern "C" {
// Constant for a thread's life, so the compiler may merge calls.
ww_dim3 ww_thread_index() __attribute__((const));
ww_dim3 ww_block_index() __attribute__((const));
ww_dim3 ww_block_dim() __attribute__((const));
ww_dim3 ww_grid_dim() __attribute__((const));
unsigned ww_lane() __attribute__((const));

void* ww_shared(ww_site*);
void* ww_dynamic_shared(ww_site*);
size_t ww_dynamic_shared_bytes();

int ww_syncthreads(int kind, int predicate, int line);                            // kind: 0 plain, 1 count, 2 and, 3 or
void ww_named_barrier(unsigned id, unsigned threads, int arrive_only, int line);  // PTX bar.sync / bar.arrive
void ww_grid_sync(int line);
void ww_syncwarp(unsigned mask, int line);
ww_exchange ww_warp_exchange(unsigned mask, const void* in, unsigned bytes, const char* what, int line);
unsigned ww_activemask();  // the lanes that have not returned

void ww_atomic(void* address, unsigned bytes, const char* what, int line);  // before each read-modify-write
void ww_touch(const void* address, size_t bytes, int write, int line);      // a checked access made by a header
void ww_fence(int scope);                                                   // 0 block, 1 device, 2 system
void ww_yield(int line);

// Asynchronous copies. The bytes land when they are waited for, so a missing wait is seen; zero-filled past from_bytes.
void ww_copy_async(void* to, const void* from, size_t bytes, size_t from_bytes, int line);
void ww_copy_commit();                      // closes this thread's group
void ww_copy_wait(unsigned still_pending);  // all but the newest `still_pending` groups of this thread have landed

void ww_fail(ww_problem, const char* message, int line);  // does not return
void ww_warn(ww_problem, const char* message, int line);
int ww_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
unsigned long long ww_clock();

// Shared addresses as PTX sees them: 32 bits, slot << 22 | offset; 0xffffffff if the address is not shared.
unsigned ww_to_shared(const void*);
void* ww_from_shared(uint64_t);

// Barriers of `threads` consecutive threads of the block that begin at thread `first` (tiles of more than a warp).
void ww_group_barrier(unsigned first, unsigned threads, int line);
// The same with a deposit of each; gives all deposits in order, valid until this thread's next call.
const void* ww_group_exchange(unsigned first, unsigned threads, const void* in, unsigned bytes, int line);

// Barrier objects (cuda::barrier), known by their address; `bytes` of it are taken as written by init.
void ww_barrier_init(void* barrier, unsigned bytes, unsigned expected, int line);
uint64_t ww_barrier_arrive(void* barrier, unsigned count, int drop, int line);  // gives the phase to wait for
void ww_barrier_wait(void* barrier, uint64_t phase, int line);
int ww_barrier_test(void* barrier, uint64_t phase, int line);
uint64_t ww_barrier_phase(void* barrier, int line);  // how many phases have completed
void ww_barrier_track_copies(void* barrier);         // this thread's copies so far land when the phase completes

// The lanes of the warp that are here together: waits until no other lane can come any more (__activemask,
// coalesced_threads).
unsigned ww_converged(int line);
unsigned ww_thread_rank() __attribute__((const));  // linear index in the block
}
#pragma GCC visibility pop
