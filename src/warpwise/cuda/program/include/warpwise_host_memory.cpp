// Linked into each program. Its calls of malloc and posix_memalign return zeroed memory, because some programs depend
// on it: in a new process most memory is zero, but the heap of this process has been used before.
#include <stdlib.h>
#include <string.h>

extern "C" {
int __real_posix_memalign(void** made, size_t alignment, size_t bytes);
__attribute__((visibility("hidden"))) void* __wrap_malloc(size_t bytes) { return calloc(1, bytes); }
__attribute__((visibility("hidden"))) int __wrap_posix_memalign(void** made, size_t alignment, size_t bytes) {
  const int error = __real_posix_memalign(made, alignment, bytes);
  if (!error) memset(*made, 0, bytes);
  return error;
}
}
