// Kernel launches in host code. As with nvcc, each __global__ function becomes a host stub of the same signature, and
// kernel<<<grid, block>>>(x, n) becomes warpwise_host::configure(line, grid, block), kernel(x, n). The C++ compiler
// thus resolves overloads, deduces template arguments and converts arguments.
#pragma once
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <cuda_runtime.h>
#include <warpwise_host/api.h>

#ifndef WW_EXTENSION
#error "WW_EXTENSION is not defined: load_inline defines it as the key of the extension"
#endif

#ifndef __CUDACC__
// PyTorch defines this only for nvcc.
namespace at {
template <class T>
struct RestrictPtrTraits {
  typedef T* __restrict__ PtrType;
};
}  // namespace at
#endif

namespace warpwise_host {
// The type of a parameter in its function's type, that is, without top-level const, volatile and __restrict__.
template <class T>
struct unqualified {
  using type = std::remove_cv_t<T>;
};
template <class T>
struct unqualified<T* __restrict__> {
  using type = T*;
};
template <class T>
struct unqualified<T* const __restrict__> {
  using type = T*;
};
template <class T>
using unqualified_t = typename unqualified<T>::type;

template <auto kernel>
struct instance {};

// The stream is ignored: launches are synchronous.
inline void configure(int line, dim3 grid, dim3 block, size_t shared_bytes = 0, cudaStream_t = nullptr) {
  const uint32_t blocks[3] = {grid.x, grid.y, grid.z}, threads[3] = {block.x, block.y, block.z};
  ww_host_configure(blocks, threads, shared_bytes, 0, line);
}

// The argument at `at`. As in a kernel's parameters on a GPU, a reference is stored as an address.
template <class P>
decltype(auto) argument(void* at) {
  if constexpr (std::is_reference_v<P>)
    return static_cast<P>(**static_cast<std::remove_reference_t<P>**>(at));
  else
    return (*static_cast<P*>(at));
}
template <auto kernel, class... P, size_t... I>
void call_registered(void (*)(P...), void** arguments, std::index_sequence<I...>) {
  kernel(argument<P>(arguments[I])...);
}
template <auto kernel, class... P>
int register_stub(void (*stub)(P...)) {
  return ww_host_register_stub(reinterpret_cast<const void*>(stub), [](void** arguments) {
    call_registered<kernel>(kernel, arguments, std::index_sequence_for<P...>{});
  });
}
// Initialised when the program is loaded, for each stub whose code is generated.
template <auto kernel>
inline const int registered = register_stub<kernel>(kernel);

template <class T>
ww_argument describe(const char* name, const void* data) {
  if constexpr (std::is_pointer_v<T>) {
    using Pointee = std::remove_pointer_t<T>;
    uint32_t bytes = 1;
    if constexpr (!std::is_void_v<Pointee> && !std::is_function_v<Pointee>) bytes = sizeof(Pointee);
    return {
        name, data, typeid(std::remove_cv_t<Pointee>).name(), sizeof(T), bytes, WW_POINTER, std::is_const_v<Pointee>};
  } else {
    return {name, data, typeid(T).name(), sizeof(T), sizeof(T), std::is_class_v<T> ? WW_OBJECT : WW_BY_VALUE, 0};
  }
}

template <class P, class T>
ww_argument describe_parameter(const char* name, const void* const* address) {
  if constexpr (std::is_reference_v<P>)
    return describe<std::remove_reference_t<P>*>(name, address);
  else
    return describe<unqualified_t<T>>(name, *address);
}

template <auto kernel, class... P, class... T>
void launch_with(void (*)(P...), const char* const* names, const T&... values) {
  (void)&registered<kernel>;
  static constexpr const char* const no_names[sizeof...(T) + 1] = {};
  const char* const* name = names ? names : no_names;
  const void* const addresses[] = {(const void*)&values..., nullptr};
  const void* const* address = addresses;
  const ww_argument arguments[] = {describe_parameter<P, T>(*name++, address++)..., ww_argument{}};
  ww_host_launch(WW_EXTENSION, typeid(instance<kernel>).name(), reinterpret_cast<const void*>(kernel), arguments,
                 sizeof...(values));
}
template <auto kernel, class... T>
void launch(const char* const* names, const T&... values) {
  launch_with<kernel>(kernel, names, values...);
}
}  // namespace warpwise_host
