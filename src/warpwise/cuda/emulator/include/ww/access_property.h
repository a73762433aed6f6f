// Properties of the cache for <cuda/annotated_ptr>, for kernels and for host code. They have no effect.
#pragma once
#include <stddef.h>

namespace cuda {
class access_property {
 public:
  struct shared {};
  struct global {};
  struct normal {};
  struct persisting {};
  struct streaming {};
  constexpr access_property() = default;
  template <class Property, class = decltype(Property{})>
  constexpr access_property(Property) {}
  template <class Property>
  constexpr access_property(Property, float) {}
  template <class First, class Second>
  constexpr access_property(First, float, Second) {}
  access_property(void*, size_t, size_t, access_property) {}
};

template <class T, class Property>
class annotated_ptr {
  T* address_ = nullptr;

 public:
  constexpr annotated_ptr() = default;
  constexpr explicit annotated_ptr(T* address) : address_(address) {}
  template <class Other>
  constexpr annotated_ptr(T* address, Other) : address_(address) {}
  template <class U, class Other>
  constexpr annotated_ptr(const annotated_ptr<U, Other>& other) : address_(other.get()) {}
  constexpr T* get() const { return address_; }
  constexpr T* operator->() const { return address_; }
  constexpr T& operator*() const { return *address_; }
  constexpr T& operator[](ptrdiff_t index) const { return address_[index]; }
  constexpr ptrdiff_t operator-(const annotated_ptr& other) const { return address_ - other.address_; }
  constexpr explicit operator bool() const { return address_ != nullptr; }
};

template <class T, class Property>
constexpr T* associate_access_property(T* address, Property) {
  return address;
}
template <class Shape, class Property>
constexpr void apply_access_property(const volatile void*, Shape, Property) {}
template <class Shape>
constexpr void discard_memory(volatile void*, Shape) {}
}  // namespace cuda
