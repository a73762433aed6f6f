// make_writable: a variable of a shared library that C++ declares const, and that cudaMemcpyToSymbol writes. The
// compiler places such a variable in read-only memory.
#pragma once
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ww {

// Makes the pages of `bytes` at `address` writable; they keep the permission to execute. No effect outside the loaded
// libraries.
inline void make_writable(const void* address, size_t bytes) {
  struct Range {
    uintptr_t begin, end;
  } range{reinterpret_cast<uintptr_t>(address), reinterpret_cast<uintptr_t>(address) + bytes};
  const auto in_object = [](dl_phdr_info* object, size_t, void* data) {
    const auto* const wanted = static_cast<const Range*>(data);
    for (int i = 0; i < object->dlpi_phnum; i++) {
      const auto& segment = object->dlpi_phdr[i];
      const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
      if (segment.p_type != PT_LOAD || wanted->begin < start || wanted->end > start + segment.p_memsz) continue;
      const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
      const uintptr_t begin = wanted->begin / page * page;
      const int execute = (segment.p_flags & PF_X) ? PROT_EXEC : 0;
      mprotect(reinterpret_cast<void*>(begin), wanted->end - begin, PROT_READ | PROT_WRITE | execute);
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(in_object, &range);
}

}  // namespace ww
