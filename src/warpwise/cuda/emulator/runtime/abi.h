// The ABI between compiled kernels and the emulator's runtime: every function that the device headers under
// emulator/include call. A kernel is host code here: one CUDA thread runs as one fiber, and these functions switch
// fibers, check memory accesses and report findings. `line` is always the place of the call, as ww_place gives it.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct ww_dim3 {
  unsigned x, y, z;
};

// One __shared__ declaration of the kernel's source. The runtime caches the variable's address for one block in
// `block_instance` and `address`.
struct ww_site {
  const char* name;
  uint32_t element_bytes, bytes, align;  // bytes is 0 for extern __shared__
  uint32_t inner[2];                     // the second and third extent of an array, 0 if it has fewer dimensions
  int line;
  uint64_t block_instance;
  void* address;
};

// The values that the lanes of a warp exchange in one operation: lane L's value is at data + L * stride if bit L of
// `present` is set. Valid until the calling lane's next warp operation.
struct ww_exchange {
  const char* data;
  unsigned stride, present;
};

// A line of a source (18 bits) and a hash of the end of the file's name (13 bits), which findings.py resolves. Clang
// folds loops of up to 100 iterations at -O1.
constexpr int kLineBits = 18;
constexpr size_t kHashedBytes = 80;
constexpr int ww_line_of(int place) { return place & ((1 << kLineBits) - 1); }
__attribute__((always_inline)) constexpr int ww_place(int line, const char* file) {
  const size_t bytes = __builtin_strlen(file);
  if (bytes > kHashedBytes) file += bytes - kHashedBytes;
  uint32_t hash = 2166136261u;  // FNV-1a
  for (; *file; ++file) hash = (hash ^ static_cast<unsigned char>(*file)) * 16777619u;
  return ww_line_of(line) | static_cast<int>((hash ^ hash >> 13) % 8191 << kLineBits);
}

enum { WW_BAR_SYNC = 4 };
enum ww_problem { WW_ASSERT, WW_UNDEFINED, WW_UNSUPPORTED, WW_WARP };

#pragma GCC visibility push(default)
extern "C" {
// Constant during a thread's lifetime, so the compiler may merge calls. It merges calls that return a scalar only: an
// index or a size is packed as x (32 bits), y (16), z (16), the widths of a grid's dimensions.
uint64_t ww_packed_thread_index() __attribute__((const));
uint64_t ww_packed_block_index() __attribute__((const));
uint64_t ww_packed_block_dim() __attribute__((const));
uint64_t ww_packed_grid_dim() __attribute__((const));
unsigned ww_lane() __attribute__((const));

void* ww_shared(ww_site*);
void* ww_dynamic_shared(ww_site*);
size_t ww_dynamic_shared_bytes();

// kind: 0 plain, 1 count, 2 and, 3 or, or WW_BAR_SYNC: PTX's bar.sync 0, which warps may execute at different places.
int ww_syncthreads(int kind, int predicate, int line);
void ww_named_barrier(unsigned id, unsigned threads, int arrive_only, int line);  // PTX bar.sync / bar.arrive
void ww_grid_sync(int line);
void ww_syncwarp(unsigned mask, int line);
ww_exchange ww_warp_exchange(unsigned mask, const void* in, unsigned bytes, const char* what, int line);
unsigned ww_activemask();  // the lanes that have not exited

// Before each read-modify-write, and before each atomic load or store. Scope as for ww_fence; order: 1 acquire, 2
// release, 3 both.
void ww_atomic(void* address, unsigned bytes, const char* what, int line, int scope = 1, unsigned order = 0);
void ww_strong_access(void* address, unsigned bytes, int write, int line, int scope = 1, unsigned order = 0);
void ww_check_access(const void* address, size_t bytes, int write, int line);  // a checked access made by a header
void ww_check_read_only(const void* address, size_t bytes, int line);          // a load through the read-only cache
void ww_fence(int scope);                                                      // 0 block, 1 device, 2 system
void ww_yield(int line);

// Asynchronous copies (cp.async). The runtime reads the source when the copy is issued and writes the destination when
// a wait completes it, so a missing wait gives a finding. Bytes past from_bytes are filled with zeros.
void ww_copy_async(void* to, const void* from, size_t bytes, size_t from_bytes, int line);
void ww_copy_commit();                      // commits the thread's copies since the last commit as a group
void ww_copy_wait(unsigned still_pending);  // until only the newest `still_pending` groups are pending

void ww_fail(ww_problem, const char* message, int line);  // does not return
void ww_warn(ww_problem, const char* message, int line);
int ww_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
unsigned long long ww_clock();

// Addresses in PTX's .shared window: 32 bits, slot << 22 | offset. ww_to_shared gives 0xffffffff for an address outside
// shared memory.
unsigned ww_to_shared(const void*);
void* ww_from_shared(uint64_t);

// The state space of a generic address. WW_CLUSTER_SPACE: the shared memory of another block of the cluster.
enum ww_space { WW_GLOBAL_SPACE, WW_SHARED_SPACE, WW_CLUSTER_SPACE, WW_LOCAL_SPACE, WW_CONSTANT_SPACE };
int ww_state_space(const void*);
int ww_shared_rank(const void*);  // the rank in the cluster of the block whose shared memory it is, or -1

// A barrier of `threads` consecutive threads of the block, from thread `first` on (thread_block_tile of more than 32).
void ww_group_barrier(unsigned first, unsigned threads, int line);
// The same barrier, exchanging one value of each thread. Returns the values in thread order, valid until the calling
// thread's next exchange.
const void* ww_group_exchange(unsigned first, unsigned threads, const void* in, unsigned bytes, int line);

// cuda::barrier objects, identified by their address. ww_barrier_init counts as a write of `bytes` bytes.
void ww_barrier_init(void* barrier, unsigned bytes, unsigned expected, int line);
uint64_t ww_barrier_arrive(void* barrier, unsigned count, int drop, int line);  // returns the phase
void ww_barrier_wait(void* barrier, uint64_t phase, int line);
int ww_barrier_try_wait(void* barrier, uint64_t phase, int line);
uint64_t ww_barrier_phase(void* barrier, int line);  // number of completed phases
// Like cp.async.mbarrier.arrive: the thread's pending copies complete when the barrier's current phase completes.
void ww_barrier_track_copies(void* barrier);

// The lanes of the warp that execute this call together (__activemask, coalesced_threads). Returns once every other
// lane of the warp waits elsewhere or has exited.
unsigned ww_converged_lanes(int line);
unsigned ww_thread_rank() __attribute__((const));  // linear index in the block

// Thread block clusters. __cluster_dims__ of a kernel becomes a call of ww_cluster_dims at its beginning.
void ww_cluster_dims(unsigned x, unsigned y, unsigned z, int line);
unsigned ww_cluster_rank();
ww_dim3 ww_cluster_shape();                      // 1 x 1 x 1 without a cluster
void ww_cluster_arrive(int releases, int line);  // barrier.cluster
void ww_cluster_wait(int line);
void* ww_map_shared(const void* address, unsigned rank, int line);  // mapa, of generic addresses
}
#pragma GCC visibility pop

inline __attribute__((always_inline)) ww_dim3 ww_unpacked(uint64_t v) {
  return {static_cast<unsigned>(v), static_cast<unsigned>(v >> 32) & 0xffff, static_cast<unsigned>(v >> 48)};
}
inline __attribute__((always_inline)) ww_dim3 ww_thread_index() { return ww_unpacked(ww_packed_thread_index()); }
inline __attribute__((always_inline)) ww_dim3 ww_block_index() { return ww_unpacked(ww_packed_block_index()); }
inline __attribute__((always_inline)) ww_dim3 ww_block_dim() { return ww_unpacked(ww_packed_block_dim()); }
inline __attribute__((always_inline)) ww_dim3 ww_grid_dim() { return ww_unpacked(ww_packed_grid_dim()); }
