// Names only: kernels, which use these, are compiled elsewhere.
#pragma once
#include <cuda_runtime.h>

namespace nvcuda {
namespace wmma {}
}  // namespace nvcuda
