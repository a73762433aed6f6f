// CUB's pairs of a key and a value, for device code and for host code.
#pragma once

#define WW_PAIR_MEMBER inline __attribute__((always_inline))

namespace cub {
template <class K, class V>
struct KeyValuePair {
  typedef K Key;
  typedef V Value;
  K key;
  V value;
  KeyValuePair() = default;
  WW_PAIR_MEMBER KeyValuePair(const K& key, const V& value) : key(key), value(value) {}
};
// If the values are equal, the pair with the smaller key.
struct ArgMax {
  template <class K, class V>
  WW_PAIR_MEMBER KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a, const KeyValuePair<K, V>& b) const {
    return a.value < b.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
struct ArgMin {
  template <class K, class V>
  WW_PAIR_MEMBER KeyValuePair<K, V> operator()(const KeyValuePair<K, V>& a, const KeyValuePair<K, V>& b) const {
    return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
  }
};
}  // namespace cub

#undef WW_PAIR_MEMBER
