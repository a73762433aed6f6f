// Thrust's algorithms that sort, search, select and work on runs of equal keys; and the overloads with a policy.
#pragma once
#include "algorithms.h"

namespace thrust {
template <class I, class F>
void stable_sort(I first, I last, F less_than) {
  const detail::Scope scope;
  auto at = detail::raw(first);
  auto values = detail::copied(at, at + (last - first));
  std::stable_sort(values.begin(), values.end(), less_than);
  detail::written(values, at);
}
template <class I>
void stable_sort(I first, I last) {
  thrust::stable_sort(first, last, less<>());
}
template <class I, class... F>
void sort(I first, I last, F... less_than) {
  thrust::stable_sort(first, last, less_than...);
}
template <class I, class J, class F>
void stable_sort_by_key(I first, I last, J values, F less_than) {
  const detail::Scope scope;
  auto at = detail::raw(first);
  auto with = detail::raw(values);
  const ptrdiff_t n = last - first;
  const auto keys = detail::copied(at, at + n);
  const auto old = detail::copied(with, with + n);
  std::vector<ptrdiff_t> order(n);
  std::iota(order.begin(), order.end(), ptrdiff_t(0));
  std::stable_sort(order.begin(), order.end(), [&](ptrdiff_t a, ptrdiff_t b) { return less_than(keys[a], keys[b]); });
  for (ptrdiff_t i = 0; i < n; i++) at[i] = keys[order[i]], with[i] = old[order[i]];
}
template <class I, class J>
void stable_sort_by_key(I first, I last, J values) {
  thrust::stable_sort_by_key(first, last, values, less<>());
}
template <class I, class J, class... F>
void sort_by_key(I first, I last, J values, F... less_than) {
  thrust::stable_sort_by_key(first, last, values, less_than...);
}
template <class I, class F>
bool is_sorted(I first, I last, F less_than) {
  WW_RANGE
  for (ptrdiff_t i = 1; i < n; i++)
    if (less_than(at[i], at[i - 1])) return false;
  return true;
}
template <class I>
bool is_sorted(I first, I last) {
  return thrust::is_sorted(first, last, less<>());
}

template <class I, class J, class O, class F>
O copy_if(I first, I last, J stencil, O out, F f) {
  WW_RANGE
  auto test = detail::raw(stencil);
  auto to = detail::raw(out);
  ptrdiff_t count = 0;
  for (ptrdiff_t i = 0; i < n; i++)
    if (f(test[i])) to[count++] = at[i];
  detail::mark(to, count);
  return out + count;
}
template <class I, class O, class F>
O copy_if(I first, I last, O out, F f) {
  return thrust::copy_if(first, last, first, out, f);
}
template <class I, class F>
I remove_if(I first, I last, F f) {
  return thrust::copy_if(first, last, first, [&](const auto& each) { return !f(each); });
}
template <class I, class T>
I remove(I first, I last, const T& value) {
  return thrust::remove_if(first, last, [&](const auto& each) { return each == value; });
}
template <class I, class O, class F>
O remove_copy_if(I first, I last, O out, F f) {
  return thrust::copy_if(first, last, out, [&](const auto& each) { return !f(each); });
}
template <class I, class F>
I stable_partition(I first, I last, F f) {
  WW_RANGE
  const auto old = detail::copied(at, at + n);
  ptrdiff_t count = 0;
  for (int wanted = 1; wanted >= 0; wanted--)
    for (const auto& each : old)
      if (bool(f(each)) == bool(wanted)) at[count++] = each;
  return first + thrust::count_if(first, last, f);
}
template <class I, class F>
I partition(I first, I last, F f) {
  return thrust::stable_partition(first, last, f);
}
template <class I, class O, class E>
O unique_copy(I first, I last, O out, E same) {
  WW_RANGE
  auto to = detail::raw(out);
  ptrdiff_t count = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    const detail::value_of<I> own = at[i];
    if (!count || !same(static_cast<detail::value_of<I>>(to[count - 1]), own)) to[count++] = own;
  }
  detail::mark(to, count);
  return out + count;
}
template <class I, class O>
O unique_copy(I first, I last, O out) {
  return thrust::unique_copy(first, last, out, equal_to<>());
}
template <class I, class E>
I unique(I first, I last, E same) {
  return thrust::unique_copy(first, last, first, same);
}
template <class I>
I unique(I first, I last) {
  return thrust::unique_copy(first, last, first);
}
template <class I, class J, class O, class P, class E, class F>
std::pair<O, P> reduce_by_key(I first, I last, J values, O keys_out, P out, E same, F f) {
  WW_RANGE
  auto with = detail::raw(values);
  auto keys = detail::raw(keys_out);
  auto to = detail::raw(out);
  ptrdiff_t count = 0;
  for (ptrdiff_t i = 0; i < n;) {
    const detail::value_of<I> key = at[i];
    detail::value_of<J> sum = with[i];
    for (i++; i < n && same(key, at[i]); i++) sum = f(sum, with[i]);
    keys[count] = key;
    to[count++] = sum;
  }
  detail::mark(keys, count);
  detail::mark(to, count);
  return {keys_out + count, out + count};
}
template <class I, class J, class O, class P, class E>
std::pair<O, P> reduce_by_key(I first, I last, J values, O keys_out, P out, E same) {
  return thrust::reduce_by_key(first, last, values, keys_out, out, same, plus<>());
}
template <class I, class J, class O, class P>
std::pair<O, P> reduce_by_key(I first, I last, J values, O keys_out, P out) {
  return thrust::reduce_by_key(first, last, values, keys_out, out, equal_to<>());
}
template <class I, class J, class O, class P, class E>
std::pair<O, P> unique_by_key_copy(I first, I last, J values, O keys_out, P out, E same) {
  return thrust::reduce_by_key(first, last, values, keys_out, out, same, project1st<>());
}
template <class I, class J, class O, class P>
std::pair<O, P> unique_by_key_copy(I first, I last, J values, O keys_out, P out) {
  return thrust::unique_by_key_copy(first, last, values, keys_out, out, equal_to<>());
}
template <class I, class J, class E>
std::pair<I, J> unique_by_key(I first, I last, J values, E same) {
  return thrust::unique_by_key_copy(first, last, values, first, values, same);
}
template <class I, class J>
std::pair<I, J> unique_by_key(I first, I last, J values) {
  return thrust::unique_by_key_copy(first, last, values, first, values);
}
template <class I, class J, class O>
O inclusive_scan_by_key(I first, I last, J values, O out) {
  WW_RANGE
  auto with = detail::raw(values);
  auto to = detail::raw(out);
  detail::value_of<J> sum{};
  for (ptrdiff_t i = 0; i < n; i++) {
    const detail::value_of<J> own = with[i];
    to[i] = sum = i && at[i] == at[i - 1] ? sum + own : own;
  }
  detail::mark(to, n);
  return out + n;
}
template <class I, class J, class O>
O exclusive_scan_by_key(I first, I last, J values, O out) {
  WW_RANGE
  auto with = detail::raw(values);
  auto to = detail::raw(out);
  detail::value_of<J> sum{};
  for (ptrdiff_t i = 0; i < n; i++) {
    const detail::value_of<J> own = with[i];
    if (!i || !(at[i] == at[i - 1])) sum = detail::value_of<J>{};
    to[i] = sum;
    sum = sum + own;
  }
  detail::mark(to, n);
  return out + n;
}

// Searches in a sorted range: of one value, or of each of a range of values.
#define WW_THRUST_SEARCH(NAME, RESULT, MANY)                                          \
  template <class I, class T>                                                         \
  auto NAME(I first, I last, const T& value) {                                        \
    const detail::Scope scope;                                                        \
    auto at = detail::raw(first);                                                     \
    auto found = std::NAME(at, at + (last - first), value);                           \
    return RESULT;                                                                    \
  }                                                                                   \
  template <class I, class J, class O>                                                \
  O NAME(I first, I last, J values, J end, O out) {                                   \
    const detail::Scope scope;                                                        \
    auto at = detail::raw(first);                                                     \
    auto value = detail::raw(values);                                                 \
    auto to = detail::raw(out);                                                       \
    for (ptrdiff_t i = 0; i < end - values; i++) {                                    \
      auto found = std::NAME(at, at + (last - first), detail::value_of<J>(value[i])); \
      to[i] = MANY;                                                                   \
    }                                                                                 \
    detail::mark(to, end - values);                                                   \
    return out + (end - values);                                                      \
  }
WW_THRUST_SEARCH(lower_bound, first + (found - at), found - at)
WW_THRUST_SEARCH(upper_bound, first + (found - at), found - at)
WW_THRUST_SEARCH(binary_search, found, found)
#undef WW_THRUST_SEARCH

#define WW_THRUST_SETS(NAME)                                                            \
  template <class I, class J, class O>                                                  \
  O NAME(I first, I last, J other, J end, O out) {                                      \
    WW_RANGE                                                                            \
    auto with = detail::raw(other);                                                     \
    auto to = detail::raw(out);                                                         \
    const ptrdiff_t count = std::NAME(at, at + n, with, with + (end - other), to) - to; \
    detail::mark(to, count);                                                            \
    return out + count;                                                                 \
  }
WW_THRUST_SETS(merge)
WW_THRUST_SETS(set_intersection)
WW_THRUST_SETS(set_union)
WW_THRUST_SETS(set_difference)
#undef WW_THRUST_SETS
#undef WW_RANGE

#define WW_THRUST_POLICY(NAME)                                                    \
  template <class P, class... A, std::enable_if_t<detail::is_policy<P>, int> = 0> \
  auto NAME(const P&, A&&... arguments) {                                         \
    return thrust::NAME(std::forward<A>(arguments)...);                           \
  }
WW_THRUST_POLICY(fill)
WW_THRUST_POLICY(fill_n)
WW_THRUST_POLICY(uninitialized_fill)
WW_THRUST_POLICY(generate)
WW_THRUST_POLICY(tabulate)
WW_THRUST_POLICY(sequence)
WW_THRUST_POLICY(copy)
WW_THRUST_POLICY(copy_n)
WW_THRUST_POLICY(copy_if)
WW_THRUST_POLICY(transform)
WW_THRUST_POLICY(transform_if)
WW_THRUST_POLICY(for_each)
WW_THRUST_POLICY(for_each_n)
WW_THRUST_POLICY(reduce)
WW_THRUST_POLICY(transform_reduce)
WW_THRUST_POLICY(inner_product)
WW_THRUST_POLICY(count)
WW_THRUST_POLICY(count_if)
WW_THRUST_POLICY(find)
WW_THRUST_POLICY(find_if)
WW_THRUST_POLICY(any_of)
WW_THRUST_POLICY(all_of)
WW_THRUST_POLICY(none_of)
WW_THRUST_POLICY(equal)
WW_THRUST_POLICY(min_element)
WW_THRUST_POLICY(max_element)
WW_THRUST_POLICY(minmax_element)
WW_THRUST_POLICY(inclusive_scan)
WW_THRUST_POLICY(exclusive_scan)
WW_THRUST_POLICY(transform_inclusive_scan)
WW_THRUST_POLICY(transform_exclusive_scan)
WW_THRUST_POLICY(inclusive_scan_by_key)
WW_THRUST_POLICY(exclusive_scan_by_key)
WW_THRUST_POLICY(adjacent_difference)
WW_THRUST_POLICY(gather)
WW_THRUST_POLICY(scatter)
WW_THRUST_POLICY(reverse)
WW_THRUST_POLICY(replace)
WW_THRUST_POLICY(replace_if)
WW_THRUST_POLICY(sort)
WW_THRUST_POLICY(stable_sort)
WW_THRUST_POLICY(sort_by_key)
WW_THRUST_POLICY(stable_sort_by_key)
WW_THRUST_POLICY(is_sorted)
WW_THRUST_POLICY(remove)
WW_THRUST_POLICY(remove_if)
WW_THRUST_POLICY(remove_copy_if)
WW_THRUST_POLICY(partition)
WW_THRUST_POLICY(stable_partition)
WW_THRUST_POLICY(unique)
WW_THRUST_POLICY(unique_copy)
WW_THRUST_POLICY(unique_by_key)
WW_THRUST_POLICY(unique_by_key_copy)
WW_THRUST_POLICY(reduce_by_key)
WW_THRUST_POLICY(lower_bound)
WW_THRUST_POLICY(upper_bound)
WW_THRUST_POLICY(binary_search)
WW_THRUST_POLICY(merge)
WW_THRUST_POLICY(set_intersection)
WW_THRUST_POLICY(set_union)
WW_THRUST_POLICY(set_difference)
#undef WW_THRUST_POLICY
}  // namespace thrust
