// The parts of PyTorch that kernels of extensions use, with the same memory layout: 16-bit floating-point types and
// tensor accessors. source.py joins this file into one line in front of a kernel's source, so it must not contain
// directives.
namespace c10 {
struct alignas(2) Half {
  unsigned short x;
  struct from_bits_t {};
  Half() = default;
  __host__ __device__ constexpr Half(unsigned short bits, from_bits_t) : x(bits) {}
  __host__ __device__ Half(float value) : x(ww::bits<unsigned short>(static_cast<_Float16>(value))) {}
  __host__ __device__ operator float() const { return static_cast<float>(ww::bits<_Float16>(x)); }
};
struct alignas(2) BFloat16 {
  unsigned short x;
  struct from_bits_t {};
  BFloat16() = default;
  __host__ __device__ constexpr BFloat16(unsigned short bits, from_bits_t) : x(bits) {}
  __host__ __device__ BFloat16(float value) : x(rounded(ww::bits<unsigned>(value))) {}
  __host__ __device__ operator float() const { return ww::bits<float>(static_cast<unsigned>(x) << 16); }
  // Round to nearest even; NaN stays NaN.
  __host__ __device__ static unsigned short rounded(unsigned bits) {
    return (bits & 0x7fffffffu) > 0x7f800000u
               ? 0x7fc0u
               : static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
};

// As in PyTorch, arithmetic with float or double gives that type; with an integer or the same type, the 16-bit type.
template <class T>
struct is_16_bit_float {
  static constexpr bool value = false;
};
template <>
struct is_16_bit_float<Half> {
  static constexpr bool value = true;
};
template <>
struct is_16_bit_float<BFloat16> {
  static constexpr bool value = true;
};
template <class T, class R>
using if_16_bit_t = typename std::enable_if<is_16_bit_float<T>::value, R>::type;
template <class T, class U>
using if_16_bit_and_integer_t =
    typename std::enable_if<is_16_bit_float<T>::value && std::is_integral<U>::value, T>::type;
template <class T, class U>
using if_16_bit_and_float_t =
    typename std::enable_if<is_16_bit_float<T>::value && std::is_floating_point<U>::value, U>::type;

template <class T>
__host__ __device__ if_16_bit_t<T, T> operator+(T a, T b) {
  return T(float(a) + float(b));
}
template <class T>
__host__ __device__ if_16_bit_t<T, T> operator-(T a, T b) {
  return T(float(a) - float(b));
}
template <class T>
__host__ __device__ if_16_bit_t<T, T> operator*(T a, T b) {
  return T(float(a) * float(b));
}
template <class T>
__host__ __device__ if_16_bit_t<T, T> operator/(T a, T b) {
  return T(float(a) / float(b));
}
template <class T>
__host__ __device__ if_16_bit_t<T, T> operator-(T a) {
  return T(-float(a));
}
template <class T, class U>
__host__ __device__ if_16_bit_and_float_t<T, U> operator+(T a, U b) {
  return float(a) + b;
}
template <class T, class U>
__host__ __device__ if_16_bit_and_float_t<T, U> operator-(T a, U b) {
  return float(a) - b;
}
template <class T, class U>
__host__ __device__ if_16_bit_and_float_t<T, U> operator*(T a, U b) {
  return float(a) * b;
}
template <class T, class U>
__host__ __device__ if_16_bit_and_float_t<T, U> operator/(T a, U b) {
  return float(a) / b;
}
template <class T, class U>
__host__ __device__ if_16_bit_and_float_t<T, U> operator+(U a, T b) {
  return a + float(b);
}
template <class T, class U>
__host__ __device__ if_16_bit_and_float_t<T, U> operator-(U a, T b) {
  return a - float(b);
}
template <class T, class U>
__host__ __device__ if_16_bit_and_float_t<T, U> operator*(U a, T b) {
  return a * float(b);
}
template <class T, class U>
__host__ __device__ if_16_bit_and_float_t<T, U> operator/(U a, T b) {
  return a / float(b);
}
template <class T, class U>
__host__ __device__ if_16_bit_and_integer_t<T, U> operator+(T a, U b) {
  return a + T(float(b));
}
template <class T, class U>
__host__ __device__ if_16_bit_and_integer_t<T, U> operator-(T a, U b) {
  return a - T(float(b));
}
template <class T, class U>
__host__ __device__ if_16_bit_and_integer_t<T, U> operator*(T a, U b) {
  return a * T(float(b));
}
template <class T, class U>
__host__ __device__ if_16_bit_and_integer_t<T, U> operator/(T a, U b) {
  return a / T(float(b));
}
template <class T, class U>
__host__ __device__ if_16_bit_and_integer_t<T, U> operator+(U a, T b) {
  return T(float(a)) + b;
}
template <class T, class U>
__host__ __device__ if_16_bit_and_integer_t<T, U> operator-(U a, T b) {
  return T(float(a)) - b;
}
template <class T, class U>
__host__ __device__ if_16_bit_and_integer_t<T, U> operator*(U a, T b) {
  return T(float(a)) * b;
}
template <class T, class U>
__host__ __device__ if_16_bit_and_integer_t<T, U> operator/(U a, T b) {
  return T(float(a)) / b;
}
template <class T, class U>
__host__ __device__ if_16_bit_t<T, T&> operator+=(T& a, U b) {
  return a = T(float(a) + float(b));
}
template <class T, class U>
__host__ __device__ if_16_bit_t<T, T&> operator-=(T& a, U b) {
  return a = T(float(a) - float(b));
}
template <class T, class U>
__host__ __device__ if_16_bit_t<T, T&> operator*=(T& a, U b) {
  return a = T(float(a) * float(b));
}
template <class T, class U>
__host__ __device__ if_16_bit_t<T, T&> operator/=(T& a, U b) {
  return a = T(float(a) / float(b));
}
}  // namespace c10

namespace at {
using c10::BFloat16;
using c10::Half;

template <class T>
struct DefaultPtrTraits {
  typedef T* PtrType;
};
template <class T>
struct RestrictPtrTraits {
  typedef T* __restrict__ PtrType;
};

// A view of N dimensions that refers to its sizes and strides; indexing gives a view of N - 1 dimensions.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
struct TensorAccessor {
  typename Traits<T>::PtrType data_;
  const index_t* sizes_;
  const index_t* strides_;
  __host__ __device__ TensorAccessor(typename Traits<T>::PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
  __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
  __host__ __device__ T* data() const { return data_; }
  __host__ __device__ TensorAccessor<T, N - 1, Traits, index_t> operator[](index_t i) const {
    return TensorAccessor<T, N - 1, Traits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
};
template <class T, template <class> class Traits, class index_t>
struct TensorAccessor<T, 1, Traits, index_t> {
  typename Traits<T>::PtrType data_;
  const index_t* sizes_;
  const index_t* strides_;
  __host__ __device__ TensorAccessor(typename Traits<T>::PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
  __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
  __host__ __device__ T* data() const { return data_; }
  __host__ __device__ T& operator[](index_t i) const { return data_[strides_[0] * i]; }
};

// The result of packed_accessor32: a view that contains its sizes and strides, passed to kernels by value.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
struct GenericPackedTensorAccessor {
  typename Traits<T>::PtrType data_;
  index_t sizes_[N];
  index_t strides_[N];
  __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
  __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
  __host__ __device__ T* data() const { return data_; }
  __host__ __device__ TensorAccessor<T, N - 1, Traits, index_t> operator[](index_t i) const {
    return TensorAccessor<T, N - 1, Traits, index_t>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
};
template <class T, template <class> class Traits, class index_t>
struct GenericPackedTensorAccessor<T, 1, Traits, index_t> {
  typename Traits<T>::PtrType data_;
  index_t sizes_[1];
  index_t strides_[1];
  __host__ __device__ index_t size(index_t i) const { return sizes_[i]; }
  __host__ __device__ index_t stride(index_t i) const { return strides_[i]; }
  __host__ __device__ T* data() const { return data_; }
  __host__ __device__ T& operator[](index_t i) const { return data_[strides_[0] * i]; }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, index_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;

// The type in which values of T are accumulated.
template <class T>
struct OpMathType {
  using type = T;
};
template <>
struct OpMathType<c10::Half> {
  using type = float;
};
template <>
struct OpMathType<c10::BFloat16> {
  using type = float;
};
template <class T>
using opmath_type = typename OpMathType<T>::type;
template <class T, bool on_gpu>
using acc_type = typename OpMathType<T>::type;
}  // namespace at

namespace torch = at;

template <class T>
__device__ T gpuAtomicAdd(T* address, T value) {
  return atomicAdd(address, value);
}
template <class T>
__device__ void gpuAtomicAddNoReturn(T* address, T value) {
  atomicAdd(address, value);
}

// A wrapper around a kernel whose parameters are objects that contain pointers. The emulator passes each pointer as an
// additional argument, so that it maps to the arena; the wrapper stores it into its object.
namespace warpwise_pointers {
struct PointerField {
  unsigned short parameter, offset;
};
struct PointerFields {
  PointerField at[16];
  unsigned count;
};
template <auto kernel, class F = decltype(kernel)>
struct with_pointers;
template <auto kernel, class... P>
struct with_pointers<kernel, void (*)(P...)> {
  static __global__ void run(P... values, PointerFields fields, char* a, char* b, char* c, char* d, char* e, char* f,
                             char* g, char* h, char* i, char* j, char* k, char* l, char* m, char* n, char* o, char* p) {
    char* const pointers[] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};
    void* const parameters[] = {(void*)&values...};
    for (unsigned index = 0; index < fields.count; index++) {
      __builtin_memcpy(static_cast<char*>(parameters[fields.at[index].parameter]) + fields.at[index].offset,
                       &pointers[index], sizeof(char*));
    }
    kernel(values...);
  }
};
}  // namespace warpwise_pointers
