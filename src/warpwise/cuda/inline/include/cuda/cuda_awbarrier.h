// A stub for host code: kernels, which use this header's contents, are compiled by the emulator. The type may be a
// member of a structure or a parameter of a device function.
#pragma once
#include "cuda_awbarrier_primitives.h"

namespace nvcuda {
namespace experimental {
class awbarrier {
 public:
  class arrival_token;
  static constexpr uint32_t max() { return __mbarrier_maximum_count(); }

 private:
  uint64_t state_;
};
}  // namespace experimental
}  // namespace nvcuda
