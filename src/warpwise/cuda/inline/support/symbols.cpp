// The extensions' global variables (__device__, __constant__, __managed__): their table, copies, and device addresses.
// Kernels have copies of a variable. If the program requests its address, the variable also has a block of device
// memory, which is copied to the host's shadow before a launch or a copy, and back after it. The host accesses the
// shadow of a __managed__ variable: before a launch its block is copied from the shadow instead.
#include <warpwise_host/api.h>

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "memory.h"
#include "writable.h"

namespace {
struct Block {
  unsigned char* data;
  size_t bytes;
  std::vector<unsigned char> before;  // the value at the last read_symbols
  bool managed;
};
std::mutex symbol_guard;
std::map<std::string, std::vector<ww_symbol>>& symbols() {  // keyed by extension
  static auto* const made = new std::map<std::string, std::vector<ww_symbol>>;
  return *made;
}
std::map<void*, Block> blocks;  // keyed by shadow
std::set<const void*> set;      // shadows that the host has written, or whose address it has

std::vector<ww_symbol>& managed() {
  static auto* const made = new std::vector<ww_symbol>;
  return *made;
}
bool is_managed(const void* shadow) {
  for (const ww_symbol& symbol : managed())
    if (symbol.data == shadow) return true;
  return false;
}
}  // namespace

namespace warpwise_host {
void read_symbols() {
  for (auto& [shadow, block] : blocks) {
    const Access access(block.data);
    if (block.managed)
      memcpy(block.data, shadow, block.bytes);
    else
      memcpy(shadow, block.data, block.bytes);
    block.before.assign(block.data, block.data + block.bytes);
  }
}
// A kernel may have written the variable by its name, or the block by its address. For each byte the changed value is
// kept.
void write_symbols() {
  for (auto& [shadow, block] : blocks) {
    const Access access(block.data);
    auto* named = static_cast<unsigned char*>(shadow);
    for (size_t i = 0; i < block.bytes; i++)
      if (block.data[i] == block.before[i])
        block.data[i] = named[i];
      else
        named[i] = block.data[i];
  }
}
void* address_on_device(void* address) {
  for (const ww_symbol& symbol : managed()) {
    const size_t offset = static_cast<size_t>(static_cast<char*>(address) - static_cast<char*>(symbol.data));
    void* block = nullptr;
    if (offset < symbol.bytes && ww_cuda_symbol_address(&block, symbol.data, symbol.bytes) == cudaSuccess)
      return static_cast<char*>(block) + offset;
  }
  return address;
}
void symbol_is_set(const void* shadow) {
  const std::lock_guard<std::mutex> lock(symbol_guard);
  set.insert(shadow);
}
}  // namespace warpwise_host

extern "C" {
int ww_host_register_symbols(const char* extension, const ww_symbol* table, uint64_t count) {
  const std::lock_guard<std::mutex> lock(symbol_guard);
  symbols()[extension].insert(symbols()[extension].end(), table, table + count);
  for (uint64_t i = 0; i < count; i++) {
    ww::make_writable(table[i].data, table[i].bytes);
    if (table[i].managed) managed().push_back(table[i]);
  }
  return 0;
}

const ww_symbol* ww_host_find_symbols(const char* extension, uint64_t* count) {
  const std::lock_guard<std::mutex> lock(symbol_guard);
  const auto found = symbols().find(extension);
  *count = found == symbols().end() ? 0 : found->second.size();
  return *count ? found->second.data() : nullptr;
}

int ww_host_symbol_is_set(const void* shadow) {
  const std::lock_guard<std::mutex> lock(symbol_guard);
  return static_cast<int>(set.count(shadow));
}

cudaError_t ww_cuda_symbol_address(void** address, void* symbol, size_t bytes) {
  warpwise_host::symbol_is_set(symbol);
  const auto known = blocks.find(symbol);
  *address = known == blocks.end() ? nullptr : known->second.data;
  if (*address) return cudaSuccess;
  *address = warpwise_host::allocate(bytes, warpwise_host::Kind::kSymbol);
  if (!*address) return cudaErrorMemoryAllocation;
  blocks[symbol] = {static_cast<unsigned char*>(*address), bytes, {}, is_managed(symbol)};
  const warpwise_host::Access access(*address);
  memcpy(*address, symbol, bytes);
  warpwise_host::written(*address, bytes);
  return cudaSuccess;
}
}
