// Thrust's iterators: counting, constant, discard, transform, permutation, zip and reverse. detail::raw(iterator) gives
// the iterator on plain pointers, which algorithms use while device memory is accessible.
#pragma once
#include <tuple>

#include "memory.h"

namespace thrust {
template <class... T>
using tuple = std::tuple<T...>;
template <class A, class B>
using pair = std::pair<A, B>;
using std::get;
using std::make_pair;
using std::make_tuple;
using std::tie;
template <size_t N, class T>
using tuple_element = std::tuple_element<N, T>;

namespace detail {
// An iterator whose element i is self().at(i).
template <class Self, class Value, class Reference>
struct Indexed {
  typedef std::random_access_iterator_tag iterator_category;
  typedef Value value_type;
  typedef ptrdiff_t difference_type;
  typedef Reference reference;
  typedef std::remove_reference_t<Reference>* pointer;
  ptrdiff_t index = 0;

  Self& self() { return static_cast<Self&>(*this); }
  const Self& self() const { return static_cast<const Self&>(*this); }
  Reference operator*() const { return self().at(index); }
  Reference operator[](ptrdiff_t i) const { return self().at(index + i); }
  Self& operator+=(ptrdiff_t n) { return index += n, self(); }
  Self& operator-=(ptrdiff_t n) { return index -= n, self(); }
  Self& operator++() { return ++index, self(); }
  Self& operator--() { return --index, self(); }
  Self operator++(int) {
    Self old = self();
    ++index;
    return old;
  }
  Self operator--(int) {
    Self old = self();
    --index;
    return old;
  }
  friend Self operator+(Self a, ptrdiff_t n) { return a += n; }
  friend Self operator+(ptrdiff_t n, Self a) { return a += n; }
  friend Self operator-(Self a, ptrdiff_t n) { return a -= n; }
  friend ptrdiff_t operator-(const Self& a, const Self& b) { return a.position() - b.position(); }
  friend bool operator==(const Self& a, const Self& b) { return a.position() == b.position(); }
  friend bool operator!=(const Self& a, const Self& b) { return a.position() != b.position(); }
  friend bool operator<(const Self& a, const Self& b) { return a.position() < b.position(); }
  ptrdiff_t position() const { return index + self().start(); }
  ptrdiff_t start() const { return 0; }
};

template <class I>
I raw(I at) {
  return at;
}
template <class T>
T* raw(device_ptr<T> at) {
  return at.get();
}
template <class I>
using raw_t = decltype(raw(std::declval<I>()));
template <class I>
using value_of = typename std::iterator_traits<I>::value_type;
template <class I>
constexpr bool is_indexed =
    std::is_base_of_v<std::random_access_iterator_tag, typename std::iterator_traits<I>::iterator_category>;
template <class I>
using reference_of = decltype(*std::declval<I&>());

// Marks [at, at + count) as written if it is plain memory.
template <class I>
void mark(const I&, ptrdiff_t) {}
template <class T>
void mark(T* at, ptrdiff_t count) {
  if (count > 0) ww_resident_written(at, count * sizeof(T));
}
}  // namespace detail

template <class T>
struct counting_iterator : detail::Indexed<counting_iterator<T>, T, T> {
  T first = T();
  counting_iterator() = default;
  explicit counting_iterator(T first) : first(first) {}
  T at(ptrdiff_t i) const { return static_cast<T>(first + i); }
  ptrdiff_t start() const { return static_cast<ptrdiff_t>(first); }
};
template <class T>
counting_iterator<T> make_counting_iterator(T first) {
  return counting_iterator<T>(first);
}

template <class T>
struct constant_iterator : detail::Indexed<constant_iterator<T>, T, T> {
  T value = T();
  constant_iterator() = default;
  explicit constant_iterator(T value, ptrdiff_t i = 0) : value(value) { this->index = i; }
  T at(ptrdiff_t) const { return value; }
};
template <class T>
constant_iterator<T> make_constant_iterator(T value) {
  return constant_iterator<T>(value);
}

struct discard_iterator : detail::Indexed<discard_iterator, char, discard_iterator> {
  discard_iterator at(ptrdiff_t) const { return {}; }
  template <class T>
  const discard_iterator& operator=(const T&) const {
    return *this;
  }
};
inline discard_iterator make_discard_iterator() { return {}; }

template <class F, class I, class = void, class = void>
struct transform_iterator
    : detail::Indexed<transform_iterator<F, I>, std::decay_t<std::invoke_result_t<F, detail::value_of<I>>>,
                      std::decay_t<std::invoke_result_t<F, detail::value_of<I>>>> {
  typedef std::decay_t<std::invoke_result_t<F, detail::value_of<I>>> value;
  I base;
  F f;
  transform_iterator(I base, F f) : base(base), f(f) {}
  value at(ptrdiff_t i) const {
    const detail::Scope scope;
    F call = f;
    return call(*(detail::raw(base) + i));
  }
};
template <class I, class F>
transform_iterator<F, I> make_transform_iterator(I base, F f) {
  return {base, f};
}

template <class I, class J>
struct permutation_iterator
    : detail::Indexed<permutation_iterator<I, J>, detail::value_of<I>, detail::reference_of<I>> {
  I base;
  J places;
  permutation_iterator(I base, J places) : base(base), places(places) {}
  detail::reference_of<I> at(ptrdiff_t i) const {
    const detail::Scope scope;
    return *(base + static_cast<ptrdiff_t>(*(detail::raw(places) + i)));
  }
};
template <class I, class J>
permutation_iterator<I, J> make_permutation_iterator(I base, J places) {
  return {base, places};
}

template <class Tuple>
struct zip_iterator;
template <class... I>
struct zip_iterator<std::tuple<I...>>
    : detail::Indexed<zip_iterator<std::tuple<I...>>, std::tuple<detail::value_of<I>...>,
                      std::tuple<detail::reference_of<I>...>> {
  std::tuple<I...> base;
  zip_iterator(std::tuple<I...> base) : base(base) {}
  std::tuple<detail::reference_of<I>...> at(ptrdiff_t i) const {
    return std::apply([i](const I&... each) { return std::tuple<detail::reference_of<I>...>(*(each + i)...); }, base);
  }
  const std::tuple<I...> get_iterator_tuple() const {
    return std::apply([this](const I&... each) { return std::tuple<I...>((each + this->index)...); }, base);
  }
};
template <class... I>
zip_iterator<std::tuple<I...>> make_zip_iterator(std::tuple<I...> base) {
  return {base};
}
template <class... I>
zip_iterator<std::tuple<I...>> make_zip_iterator(I... each) {
  return {std::tuple<I...>(each...)};
}
template <class I>
using reverse_iterator = std::reverse_iterator<I>;
template <class I>
std::reverse_iterator<I> make_reverse_iterator(I at) {
  return std::reverse_iterator<I>(at);
}

namespace detail {
template <class... I>
zip_iterator<std::tuple<raw_t<I>...>> raw(zip_iterator<std::tuple<I...>> at) {
  zip_iterator<std::tuple<raw_t<I>...>> made(
      std::apply([](const I&... each) { return std::tuple<raw_t<I>...>(raw(each)...); }, at.base));
  made.index = at.index;
  return made;
}
template <class I, class J>
permutation_iterator<raw_t<I>, raw_t<J>> raw(permutation_iterator<I, J> at) {
  permutation_iterator<raw_t<I>, raw_t<J>> made(raw(at.base), raw(at.places));
  made.index = at.index;
  return made;
}
template <class F, class I>
transform_iterator<F, raw_t<I>> raw(transform_iterator<F, I> at) {
  transform_iterator<F, raw_t<I>> made(raw(at.base), at.f);
  made.index = at.index;
  return made;
}
template <class T>
std::reverse_iterator<T*> raw(std::reverse_iterator<device_ptr<T>> at) {
  return std::reverse_iterator<T*>(at.base().get());
}
template <class... I>
void mark(const zip_iterator<std::tuple<I...>>& at, ptrdiff_t count) {
  std::apply([&](const I&... each) { (mark(each + at.index, count), ...); }, at.base);
}
}  // namespace detail

template <class I>
ptrdiff_t distance(I first, I last) {
  return last - first;
}
template <class I, class N>
void advance(I& at, N n) {
  at += n;
}
template <class I>
struct iterator_traits : std::iterator_traits<I> {};
template <class I>
using iterator_value = std::iterator_traits<I>;
}  // namespace thrust
