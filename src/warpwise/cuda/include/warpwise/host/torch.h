// Macros, types and functions of PyTorch's headers that kernels use.
#pragma once

#include "torch_numbers.h"

#ifndef C10_WARP_SIZE
#define C10_WARP_SIZE 32
#define C10_HOST __host__
#define C10_DEVICE __device__
#define C10_HOST_DEVICE __host__ __device__
#define C10_ALWAYS_INLINE __inline__ __attribute__((always_inline))
#define C10_RESTRICT __restrict__
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(max_threads) __launch_bounds__(max_threads)
#define C10_LAUNCH_BOUNDS_2(max_threads, min_blocks) __launch_bounds__(max_threads, min_blocks)
#endif

#ifndef MAX_TENSORINFO_DIMS
#define MAX_TENSORINFO_DIMS 25
#endif

#ifndef CUDA_KERNEL_LOOP
#define CUDA_KERNEL_LOOP_TYPE(i, n, type) \
  for (type i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
#endif

namespace at {
using c10::BFloat16;
using c10::Half;

// The type of intermediate results: float for the 16-bit types.
template <class T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<Half> {
  using type = float;
};
template <>
struct OpMathType<BFloat16> {
  using type = float;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;
template <class T, bool is_cuda>
using acc_type = typename OpMathType<T>::type;

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

// accessor[i] is an accessor of one dimension less, and for one dimension the element.
template <class T, int N, template <class> class Traits, class Index>
struct TensorAccessor {
  typename Traits<T>::PtrType data_;
  const Index* sizes_;
  const Index* strides_;
  __host__ __device__ Index size(int dimension) const { return sizes_[dimension]; }
  __host__ __device__ Index stride(int dimension) const { return strides_[dimension]; }
  __host__ __device__ T* data() const { return data_; }
  __host__ __device__ decltype(auto) operator[](Index i) const {
    if constexpr (N == 1) {
      return (data_[i * strides_[0]]);
    } else {
      using Inner = TensorAccessor<T, N - 1, Traits, Index>;
      return Inner{data_ + i * strides_[0], sizes_ + 1, strides_ + 1};
    }
  }
};

// A kernel's parameter of N dimensions: a pointer, N sizes and N strides in elements.
template <class T, unsigned long N, template <class> class Traits = DefaultPtrTraits, class Index = long>
struct GenericPackedTensorAccessor {
  typename Traits<T>::PtrType data_;
  Index sizes_[N];
  Index strides_[N];
  __host__ __device__ Index size(int dimension) const { return sizes_[dimension]; }
  __host__ __device__ Index stride(int dimension) const { return strides_[dimension]; }
  __host__ __device__ T* data() const { return data_; }
  __host__ __device__ decltype(auto) operator[](Index i) const {
    return TensorAccessor<T, (int)N, Traits, Index>{data_, sizes_, strides_}[i];
  }
};
template <class T, unsigned long N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int>;
template <class T, unsigned long N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, long>;

namespace cuda::detail {
// A kernel's parameter of `dims` dimensions, at most 25, with sizes and strides in elements.
template <class T, class Index>
struct TensorInfo {
  T* data;
  Index sizes[MAX_TENSORINFO_DIMS];
  Index strides[MAX_TENSORINFO_DIMS];
  int dims;
  __host__ __device__ bool isContiguous() const { return dims == 1 && strides[0] == 1; }
};

// The offset of element `i` in row-major order. N: the number of dimensions, or -1 for that of the tensor.
template <class T, class Index, int N>
struct IndexToOffset {
  static __host__ __device__ Index get(Index i, const TensorInfo<T, Index>& info) {
    Index offset = 0;
    for (int d = (N == -1 ? info.dims : N) - 1; d > 0; d--, i /= info.sizes[d + 1])
      offset += i % info.sizes[d] * info.strides[d];
    return offset + i * info.strides[0];
  }
};
}  // namespace cuda::detail
}  // namespace at

namespace torch {
using namespace at;
}

template <class T>
__device__ __forceinline__ T gpuAtomicAdd(T* address, T value) {
  return atomicAdd(address, value);
}
__device__ __forceinline__ c10::Half gpuAtomicAdd(c10::Half* address, c10::Half value) {
  return atomicAdd(reinterpret_cast<__half*>(address), __half(value));
}
__device__ __forceinline__ c10::BFloat16 gpuAtomicAdd(c10::BFloat16* address, c10::BFloat16 value) {
  return atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), __nv_bfloat16(value));
}
