// Device pointers, references to device memory, and the vectors of Thrust, for whole programs on a CPU. Device memory
// is the emulator's: kernels and cudaMemcpy take raw_pointer_cast of it.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <ostream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" {
void ww_program_open_device(int open);
void ww_resident_written(const void* address, size_t bytes);
}

namespace thrust {
namespace detail {
// While a Scope exists, this thread may access device memory.
struct Scope {
  Scope() { ww_program_open_device(1); }
  ~Scope() { ww_program_open_device(0); }
  Scope(const Scope&) = delete;
};
inline void check(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) throw std::bad_alloc();
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
}  // namespace detail

template <class T>
class device_ptr;

template <class T>
class device_reference {
 public:
  explicit device_reference(T* at) : at_(at) {}
  device_reference(const device_reference&) = default;
  operator std::remove_cv_t<T>() const {
    std::remove_cv_t<T> value;
    detail::check(cudaMemcpy(&value, at_, sizeof value, cudaMemcpyDeviceToHost));
    return value;
  }
  const device_reference& operator=(const T& value) const {
    detail::check(cudaMemcpy(at_, &value, sizeof value, cudaMemcpyHostToDevice));
    return *this;
  }
  device_reference& operator=(const device_reference& other) {
    *this = static_cast<std::remove_cv_t<T>>(other);
    return *this;
  }
  device_ptr<T> operator&() const { return device_ptr<T>(at_); }
#define WW_THRUST_UPDATE(OP)                                         \
  const device_reference& operator OP## = (const T& value) const {   \
    return *this = static_cast<std::remove_cv_t<T>>(*this) OP value; \
  }
  WW_THRUST_UPDATE(+)
  WW_THRUST_UPDATE(-)
  WW_THRUST_UPDATE(*)
  WW_THRUST_UPDATE(/)
#undef WW_THRUST_UPDATE
  friend std::ostream& operator<<(std::ostream& out, const device_reference& from) {
    return out << static_cast<std::remove_cv_t<T>>(from);
  }

 private:
  T* at_;
};

template <class T>
class device_ptr {
 public:
  typedef std::random_access_iterator_tag iterator_category;
  typedef std::remove_cv_t<T> value_type;
  typedef ptrdiff_t difference_type;
  typedef device_ptr pointer;
  typedef device_reference<T> reference;
  device_ptr() : at_(nullptr) {}
  device_ptr(std::nullptr_t) : at_(nullptr) {}
  explicit device_ptr(T* at) : at_(at) {}
  template <class U, class = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  device_ptr(const device_ptr<U>& other) : at_(other.get()) {}
  T* get() const { return at_; }
  reference operator*() const { return reference(at_); }
  reference operator[](ptrdiff_t i) const { return reference(at_ + i); }
  device_ptr& operator+=(ptrdiff_t n) { return at_ += n, *this; }
  device_ptr& operator-=(ptrdiff_t n) { return at_ -= n, *this; }
  device_ptr& operator++() { return ++at_, *this; }
  device_ptr& operator--() { return --at_, *this; }
  device_ptr operator++(int) { return device_ptr(at_++); }
  device_ptr operator--(int) { return device_ptr(at_--); }
  friend device_ptr operator+(device_ptr a, ptrdiff_t n) { return a += n; }
  friend device_ptr operator+(ptrdiff_t n, device_ptr a) { return a += n; }
  friend device_ptr operator-(device_ptr a, ptrdiff_t n) { return a -= n; }
  friend ptrdiff_t operator-(device_ptr a, device_ptr b) { return a.at_ - b.at_; }
#define WW_THRUST_COMPARE(OP) \
  friend bool operator OP(device_ptr a, device_ptr b) { return a.at_ OP b.at_; }
  WW_THRUST_COMPARE(==)
  WW_THRUST_COMPARE(!=)
  WW_THRUST_COMPARE(<)
  WW_THRUST_COMPARE(>)
  WW_THRUST_COMPARE(<=)
  WW_THRUST_COMPARE(>=)
#undef WW_THRUST_COMPARE

 private:
  T* at_;
};

template <class T>
T* raw_pointer_cast(device_ptr<T> pointer) {
  return pointer.get();
}
template <class T>
T* raw_pointer_cast(T* pointer) {
  return pointer;
}
template <class T>
device_ptr<T> device_pointer_cast(T* pointer) {
  return device_ptr<T>(pointer);
}
template <class T>
device_ptr<T> device_pointer_cast(device_ptr<T> pointer) {
  return pointer;
}
template <class T>
device_ptr<T> device_malloc(size_t count) {
  T* made = nullptr;
  detail::check(cudaMalloc(&made, count * sizeof(T)));
  return device_ptr<T>(made);
}
template <class T>
void device_free(device_ptr<T> pointer) {
  detail::check(cudaFree(pointer.get()));
}

template <class T>
using device_allocator = std::allocator<T>;

template <class T, class A = std::allocator<T>>
class device_vector;

template <class T, class A = std::allocator<T>>
class host_vector : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  host_vector() = default;
  host_vector(const std::vector<T>& other) : std::vector<T>(other) {}
  template <class U, class B>
  host_vector(const device_vector<U, B>& other) {
    *this = other;
  }
  template <class U>
  host_vector(device_ptr<U> first, device_ptr<U> last) : std::vector<T>(last - first) {
    const detail::Scope scope;
    for (size_t i = 0; i < this->size(); i++) (*this)[i] = first.get()[i];
  }
  template <class U, class B>
  host_vector& operator=(const device_vector<U, B>& other) {
    this->resize(other.size());
    const detail::Scope scope;
    for (size_t i = 0; i < other.size(); i++) (*this)[i] = other.data().get()[i];
    return *this;
  }
};

template <class T, class A>
class device_vector {
 public:
  typedef T value_type;
  typedef size_t size_type;
  typedef ptrdiff_t difference_type;
  typedef device_ptr<T> iterator, pointer;
  typedef device_ptr<const T> const_iterator, const_pointer;
  typedef device_reference<T> reference;
  typedef device_reference<const T> const_reference;

  device_vector() = default;
  explicit device_vector(size_t count) { resize(count); }
  device_vector(size_t count, const T& value) { resize(count, value); }
  device_vector(std::initializer_list<T> values) { assign(values.begin(), values.end()); }
  template <class I, class = typename std::iterator_traits<I>::iterator_category>
  device_vector(I first, I last) {
    assign(first, last);
  }
  device_vector(const device_vector& other) { assign(other.begin(), other.end()); }
  device_vector(device_vector&& other) { swap(other); }
  template <class U>
  device_vector(const std::vector<U>& other) {
    assign(other.begin(), other.end());
  }
  template <class U, class B>
  device_vector(const device_vector<U, B>& other) {
    assign(other.begin(), other.end());
  }
  ~device_vector() { cudaFree(data_); }
  device_vector& operator=(const device_vector& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  device_vector& operator=(device_vector&& other) {
    swap(other);
    return *this;
  }
  template <class U>
  device_vector& operator=(const std::vector<U>& other) {
    assign(other.begin(), other.end());
    return *this;
  }

  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return !size_; }
  pointer data() { return pointer(data_); }
  const_pointer data() const { return const_pointer(data_); }
  iterator begin() { return iterator(data_); }
  iterator end() { return iterator(data_ + size_); }
  const_iterator begin() const { return const_iterator(data_); }
  const_iterator end() const { return const_iterator(data_ + size_); }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  reference operator[](size_t i) { return reference(data_ + i); }
  const_reference operator[](size_t i) const { return const_reference(data_ + i); }
  reference front() { return (*this)[0]; }
  reference back() { return (*this)[size_ - 1]; }
  const_reference front() const { return (*this)[0]; }
  const_reference back() const { return (*this)[size_ - 1]; }

  void reserve(size_t count) {
    if (count <= capacity_) return;
    T* made = nullptr;
    detail::check(cudaMalloc(&made, count * sizeof(T)));
    if (size_) detail::check(cudaMemcpy(made, data_, size_ * sizeof(T), cudaMemcpyDeviceToDevice));
    cudaFree(data_);
    data_ = made;
    capacity_ = count;
  }
  void resize(size_t count, const T& value = T()) {
    reserve(count);
    const detail::Scope scope;
    for (size_t i = size_; i < count; i++) new (data_ + i) T(value);
    if (count > size_) ww_resident_written(data_ + size_, (count - size_) * sizeof(T));
    size_ = count;
  }
  void assign(size_t count, const T& value) {
    size_ = 0;
    resize(count, value);
  }
  template <class I, class = typename std::iterator_traits<I>::iterator_category>
  void assign(I first, I last) {
    const size_t count = static_cast<size_t>(std::distance(first, last));
    size_ = 0;
    reserve(count);
    const detail::Scope scope;
    size_t i = 0;
    for (auto at = unwrapped(first); i < count; i++, ++at) new (data_ + i) T(*at);
    if (count) ww_resident_written(data_, count * sizeof(T));
    size_ = count;
  }
  void push_back(const T& value) {
    if (size_ == capacity_) reserve(size_ ? 2 * size_ : 8);
    resize(size_ + 1, value);
  }
  void pop_back() { size_--; }
  void clear() { size_ = 0; }
  void shrink_to_fit() {}
  iterator erase(iterator first, iterator last) {
    const detail::Scope scope;
    std::move(last.get(), data_ + size_, first.get());
    size_ -= static_cast<size_t>(last - first);
    return first;
  }
  iterator erase(iterator at) { return erase(at, at + 1); }
  void swap(device_vector& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  template <class I>
  static I unwrapped(I at) {
    return at;
  }
  template <class U>
  static U* unwrapped(device_ptr<U> at) {
    return at.get();
  }
  T* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};
template <class T, class A, class B>
bool operator==(const device_vector<T, A>& a, const B& b) {
  return host_vector<T>(a) == host_vector<T>(b);
}
template <class T, class A, class B>
bool operator!=(const device_vector<T, A>& a, const B& b) {
  return !(a == b);
}
}  // namespace thrust
