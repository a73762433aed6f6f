// Thrust's algorithms on a CPU, in the order of their elements. Each takes an execution policy as an optional first
// argument (end of the file).
#pragma once
#include <thrust/version.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

#include "functional.h"

namespace thrust {
namespace detail {
// A copy of a range, which can be sorted also if its elements are tuples of references.
template <class I>
std::deque<value_of<I>> copied(I first, I last) {
  std::deque<value_of<I>> made;
  for (; first != last; ++first) made.push_back(*first);
  return made;
}
template <class C, class O>
O written(const C& values, O to) {
  for (const auto& value : values) *to++ = value;
  return to;
}
}  // namespace detail

// Begins an algorithm on [first, last): FIRST and LAST become iterators on plain memory.
#define WW_RANGE                \
  const detail::Scope scope;    \
  auto at = detail::raw(first); \
  const ptrdiff_t n = last - first;

template <class I, class T>
void fill(I first, I last, const T& value) {
  WW_RANGE
  for (ptrdiff_t i = 0; i < n; i++) at[i] = value;
  detail::mark(at, n);
}
template <class I, class N, class T>
I fill_n(I first, N count, const T& value) {
  thrust::fill(first, first + count, value);
  return first + count;
}
template <class I, class T>
void uninitialized_fill(I first, I last, const T& value) {
  thrust::fill(first, last, value);
}
template <class I, class F>
void generate(I first, I last, F f) {
  WW_RANGE
  for (ptrdiff_t i = 0; i < n; i++) at[i] = f();
  detail::mark(at, n);
}
template <class I, class F>
void tabulate(I first, I last, F f) {
  WW_RANGE
  for (ptrdiff_t i = 0; i < n; i++) at[i] = f(i);
  detail::mark(at, n);
}
template <class I, class T, class S>
void sequence(I first, I last, T start, S step) {
  WW_RANGE
  for (ptrdiff_t i = 0; i < n; i++) at[i] = start + step * static_cast<T>(i);
  detail::mark(at, n);
}
template <class I, class T>
void sequence(I first, I last, T start) {
  thrust::sequence(first, last, start, T(1));
}
template <class I>
void sequence(I first, I last) {
  thrust::sequence(first, last, detail::value_of<I>(0));
}
template <class I, class O>
O copy(I first, I last, O out) {
  if constexpr (detail::is_indexed<I> && detail::is_indexed<O>) {
    WW_RANGE
    auto to = detail::raw(out);
    for (ptrdiff_t i = 0; i < n; i++) to[i] = at[i];
    detail::mark(to, n);
    return out + n;
  } else {  // a list, or an iterator that prints or appends
    for (; first != last; ++first, ++out) *out = static_cast<detail::value_of<I>>(*first);
    return out;
  }
}
template <class I, class N, class O>
O copy_n(I first, N count, O out) {
  return thrust::copy(first, std::next(first, count), out);
}
template <class I, class O, class F>
O transform(I first, I last, O out, F f) {
  WW_RANGE
  auto to = detail::raw(out);
  for (ptrdiff_t i = 0; i < n; i++) to[i] = f(at[i]);
  detail::mark(to, n);
  return out + n;
}
template <class I, class J, class O, class F>
O transform(I first, I last, J other, O out, F f) {
  WW_RANGE
  auto with = detail::raw(other);
  auto to = detail::raw(out);
  for (ptrdiff_t i = 0; i < n; i++) to[i] = f(at[i], with[i]);
  detail::mark(to, n);
  return out + n;
}
template <class I, class J, class O, class F, class P>
O transform_if(I first, I last, J stencil, O out, F f, P wanted) {
  WW_RANGE
  auto test = detail::raw(stencil);
  auto to = detail::raw(out);
  for (ptrdiff_t i = 0; i < n; i++)
    if (wanted(test[i])) to[i] = f(at[i]), detail::mark(to + i, 1);
  return out + n;
}
template <class I, class F>
I for_each(I first, I last, F f) {
  WW_RANGE
  for (ptrdiff_t i = 0; i < n; i++) f(at[i]);
  return last;
}
template <class I, class N, class F>
I for_each_n(I first, N count, F f) {
  return thrust::for_each(first, first + count, f);
}

template <class I, class T, class F>
T reduce(I first, I last, T start, F f) {
  WW_RANGE
  for (ptrdiff_t i = 0; i < n; i++) start = f(start, static_cast<T>(at[i]));
  return start;
}
template <class I, class T>
T reduce(I first, I last, T start) {
  return thrust::reduce(first, last, start, plus<>());
}
template <class I>
detail::value_of<I> reduce(I first, I last) {
  return thrust::reduce(first, last, detail::value_of<I>(0));
}
template <class I, class F, class T, class G>
T transform_reduce(I first, I last, F f, T start, G g) {
  WW_RANGE
  for (ptrdiff_t i = 0; i < n; i++) start = g(start, f(at[i]));
  return start;
}
template <class I, class J, class T, class F, class G>
T inner_product(I first, I last, J other, T start, F sum, G product) {
  WW_RANGE
  auto with = detail::raw(other);
  for (ptrdiff_t i = 0; i < n; i++) start = sum(start, product(at[i], with[i]));
  return start;
}
template <class I, class J, class T>
T inner_product(I first, I last, J other, T start) {
  return thrust::inner_product(first, last, other, start, plus<>(), multiplies<>());
}
template <class I, class F>
ptrdiff_t count_if(I first, I last, F f) {
  WW_RANGE
  ptrdiff_t found = 0;
  for (ptrdiff_t i = 0; i < n; i++) found += f(at[i]) ? 1 : 0;
  return found;
}
template <class I, class T>
ptrdiff_t count(I first, I last, const T& value) {
  return thrust::count_if(first, last, [&](const auto& each) { return each == value; });
}
template <class I, class F>
I find_if(I first, I last, F f) {
  WW_RANGE
  ptrdiff_t i = 0;
  while (i < n && !f(at[i])) i++;
  return first + i;
}
template <class I, class T>
I find(I first, I last, const T& value) {
  return thrust::find_if(first, last, [&](const auto& each) { return each == value; });
}
template <class I, class F>
bool any_of(I first, I last, F f) {
  return thrust::find_if(first, last, f) != last;
}
template <class I, class F>
bool none_of(I first, I last, F f) {
  return !thrust::any_of(first, last, f);
}
template <class I, class F>
bool all_of(I first, I last, F f) {
  return thrust::count_if(first, last, f) == last - first;
}
template <class I, class J, class F>
bool equal(I first, I last, J other, F f) {
  WW_RANGE
  auto with = detail::raw(other);
  for (ptrdiff_t i = 0; i < n; i++)
    if (!f(at[i], with[i])) return false;
  return true;
}
template <class I, class J>
bool equal(I first, I last, J other) {
  return thrust::equal(first, last, other, equal_to<>());
}
template <class I, class F>
I min_element(I first, I last, F less_than) {
  WW_RANGE
  ptrdiff_t best = 0;
  for (ptrdiff_t i = 1; i < n; i++)
    if (less_than(at[i], at[best])) best = i;
  return first + best;
}
template <class I>
I min_element(I first, I last) {
  return thrust::min_element(first, last, less<>());
}
template <class I, class F>
I max_element(I first, I last, F less_than) {
  return thrust::min_element(first, last, [&](const auto& a, const auto& b) { return less_than(b, a); });
}
template <class I>
I max_element(I first, I last) {
  return thrust::max_element(first, last, less<>());
}
template <class I>
std::pair<I, I> minmax_element(I first, I last) {
  return {thrust::min_element(first, last), thrust::max_element(first, last)};
}
template <class I, class F>
std::pair<I, I> minmax_element(I first, I last, F less_than) {
  return {thrust::min_element(first, last, less_than), thrust::max_element(first, last, less_than)};
}

template <class I, class O, class F>
O inclusive_scan(I first, I last, O out, F f) {
  WW_RANGE
  auto to = detail::raw(out);
  if (n < 1) return out;
  detail::value_of<I> sum = at[0];
  for (ptrdiff_t i = 0; i < n; i++) to[i] = sum = i ? f(sum, at[i]) : sum;
  detail::mark(to, n);
  return out + n;
}
template <class I, class O>
O inclusive_scan(I first, I last, O out) {
  return thrust::inclusive_scan(first, last, out, plus<>());
}
template <class I, class O, class T, class F>
O exclusive_scan(I first, I last, O out, T start, F f) {
  WW_RANGE
  auto to = detail::raw(out);
  for (ptrdiff_t i = 0; i < n; i++) {
    const T next = f(start, at[i]);  // out may be the input
    to[i] = start;
    start = next;
  }
  detail::mark(to, n);
  return out + n;
}
template <class I, class O, class T>
O exclusive_scan(I first, I last, O out, T start) {
  return thrust::exclusive_scan(first, last, out, start, plus<>());
}
template <class I, class O>
O exclusive_scan(I first, I last, O out) {
  return thrust::exclusive_scan(first, last, out, detail::value_of<I>(0));
}
template <class I, class O, class F, class G>
O transform_inclusive_scan(I first, I last, O out, F f, G g) {
  return thrust::inclusive_scan(make_transform_iterator(first, f), make_transform_iterator(last, f), out, g);
}
template <class I, class O, class F, class T, class G>
O transform_exclusive_scan(I first, I last, O out, F f, T start, G g) {
  return thrust::exclusive_scan(make_transform_iterator(first, f), make_transform_iterator(last, f), out, start, g);
}
template <class I, class O, class F>
O adjacent_difference(I first, I last, O out, F f) {
  WW_RANGE
  auto to = detail::raw(out);
  detail::value_of<I> before{};
  for (ptrdiff_t i = 0; i < n; i++) {
    const detail::value_of<I> own = at[i];
    to[i] = i ? f(own, before) : own;
    before = own;
  }
  detail::mark(to, n);
  return out + n;
}
template <class I, class O>
O adjacent_difference(I first, I last, O out) {
  return thrust::adjacent_difference(first, last, out, minus<>());
}
template <class I, class J, class O>
O gather(I first, I last, J from, O out) {
  WW_RANGE
  auto source = detail::raw(from);
  auto to = detail::raw(out);
  for (ptrdiff_t i = 0; i < n; i++) to[i] = source[static_cast<ptrdiff_t>(at[i])];
  detail::mark(to, n);
  return out + n;
}
template <class I, class J, class O>
void scatter(I first, I last, J places, O out) {
  WW_RANGE
  auto place = detail::raw(places);
  auto to = detail::raw(out);
  for (ptrdiff_t i = 0; i < n; i++) {
    to[static_cast<ptrdiff_t>(place[i])] = at[i];
    detail::mark(to + static_cast<ptrdiff_t>(place[i]), 1);
  }
}
template <class I>
void reverse(I first, I last) {
  WW_RANGE
  for (ptrdiff_t i = 0; i < n / 2; i++) {
    const detail::value_of<I> old = at[i];
    at[i] = at[n - 1 - i];
    at[n - 1 - i] = old;
  }
}
template <class I, class F, class T>
void replace_if(I first, I last, F f, const T& value) {
  WW_RANGE
  for (ptrdiff_t i = 0; i < n; i++)
    if (f(at[i])) at[i] = value;
}
template <class I, class T>
void replace(I first, I last, const T& old, const T& value) {
  thrust::replace_if(first, last, [&](const auto& each) { return each == old; }, value);
}
}  // namespace thrust
