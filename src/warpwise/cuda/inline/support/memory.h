// The record of the memory that kernels may access: tensors allocated while a call is tracked, and cudaMalloc's blocks.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <mutex>

#include <warpwise_host/api.h>

namespace warpwise_host {
// Fills new memory with a pattern that is NaN in every floating-point type and that programs are unlikely to store.
inline void poison(void* memory, size_t bytes) {
  unsigned char* const at = static_cast<unsigned char*>(memory);
  for (size_t i = 0; i < bytes; i++) at[i] = i % 2 ? 0x7f : 0xff;
}

void track(const void* address, size_t bytes, bool device);
bool untrack(const void* address, bool device);           // returns false if there is no such block
enum class Kind { kDevice, kManaged, kPinned, kSymbol };  // kSymbol: device memory of a global variable
inline bool on_device(Kind kind) { return kind == Kind::kDevice || kind == Kind::kSymbol; }
void* allocate(size_t bytes, Kind kind);  // nullptr if the allocation fails
bool release(void* address);              // false if no live block starts there
bool kind_of(const void* address, Kind& kind);
// The program may read managed memory again.
void synchronized();
// Managed memory that is attached to one stream or to the host is accessible between a launch and a synchronization.
void attach(void* managed, bool alone);
void written(const void* address, size_t bytes);
// Reports a range that check_range refuses, or an address that release refuses.
void report(const char* function, const void* address, size_t bytes);
// True if `address` is device memory where a copy of this kind needs host memory, or the reverse.
bool wrong_direction(const void* address, bool host, int kind);
// Held by each launch, copy and library call: the threads of a program use device memory one after the other.
std::recursive_mutex& device_mutex();
// Host access to the block that contains an address, during a copy.
class Access {
 public:
  explicit Access(const void* address);
  ~Access();
  Access(const Access&) = delete;

 private:
  const std::lock_guard<std::recursive_mutex> lock_{device_mutex()};
  const void* address_;
};

// Copy the global variables that have an address from their device memory to the host's shadows, and back.
void read_symbols();
void write_symbols();
void* address_on_device(void* address);  // of a __managed__ variable, by the host's address; else the address itself
void symbol_is_set(const void* shadow);  // the host writes the variable, or can by its address

// Adds the launch to the graph that is captured; `run` will run it. False if there is none.
bool capture_launch(const ww_launch& launch, void (*run)(const ww_launch&));

// Checks [address, address + bytes): 1 if it is inside a tracked block, 0 if it extends past the block's end, -1 if the
// address is in no tracked block, -2 if it is in a block that is freed.
int check_range(const void* address, size_t bytes);
}  // namespace warpwise_host
