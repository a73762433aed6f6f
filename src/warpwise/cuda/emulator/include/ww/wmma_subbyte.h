// The part of mma.h for 4-bit integers (m8n8k32) and single bits (m8n8k128). A is row-major and B column-major: each
// holds 8 vectors of K elements in 4 words, and lane L word L % 4 of vector L / 4. CUDA does not specify this.
#pragma once

namespace nvcuda {
namespace wmma {
namespace experimental {
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
}  // namespace experimental

namespace detail {
template <class T>
constexpr bool is_subbyte =
    std::is_same_v<T, experimental::precision::u4> || std::is_same_v<T, experimental::precision::s4> ||
    std::is_same_v<T, experimental::precision::b1>;
template <class T>
constexpr int subbyte_bits = std::is_same_v<T, experimental::precision::b1> ? 1 : 4;

template <class T, int K>
struct packed_fragment {
  static_assert(K * subbyte_bits<T> == 128, "wmma shapes: m8n8k32 (u4, s4), m8n8k128 (b1)");
  static constexpr int num_elements = K / 4, num_storage_elements = 1;
  typedef T element_type;
  typedef std::conditional_t<std::is_same_v<T, experimental::precision::s4>, int, unsigned> storage_element_type;
  storage_element_type x[1];
};

// Calls add(i, vector of A, vector of B) for the elements i of this lane's accumulator; a vector is 4 words.
template <class D, class A, class B, class Add>
WW_UNINSTRUMENTED void for_each_pair(const A& a, const B& b, const Add& add, const char* what, int line) {
  const unsigned own[2] = {unsigned(a.x[0]), unsigned(b.x[0])};
  const ww_exchange table = ww_warp_exchange(0xffffffffu, own, sizeof own, what, line);
  for (int i = 0; i < D::num_elements; ++i) {
    unsigned row[4], column[4], words[2];
    for (int w = 0; w < 4; ++w) {
      __builtin_memcpy(words, table.data + (4 * D::row(ww_lane(), i) + w) * table.stride, sizeof words);
      row[w] = words[0];
      __builtin_memcpy(words, table.data + (4 * D::column(ww_lane(), i) + w) * table.stride, sizeof words);
      column[w] = words[1];
    }
    add(i, row, column);
  }
}
}  // namespace detail

#define WW_SUBBYTE_FRAGMENT(T)                                              \
  template <int K>                                                          \
  struct fragment<matrix_a, 8, 8, K, experimental::precision::T, row_major> \
      : detail::packed_fragment<experimental::precision::T, K> {};          \
  template <int K>                                                          \
  struct fragment<matrix_b, 8, 8, K, experimental::precision::T, col_major> \
      : detail::packed_fragment<experimental::precision::T, K> {};
WW_SUBBYTE_FRAGMENT(u4)
WW_SUBBYTE_FRAGMENT(s4)
WW_SUBBYTE_FRAGMENT(b1)
#undef WW_SUBBYTE_FRAGMENT

// `stride` is in elements: the leading dimension.
template <class Use, int K, class T, class Layout, class P, class = std::enable_if_t<detail::is_subbyte<T>>>
WW_INLINE void load_matrix_sync(fragment<Use, 8, 8, K, T, Layout>& f, const P* from, unsigned stride, WW_LINE) {
  const unsigned stride_bytes = stride * detail::subbyte_bits<T> / 8;
  detail::check_and_sync("wmma::load_matrix_sync", from, stride_bytes, line);
  const unsigned lane = ww_lane();
  f.x[0] = *reinterpret_cast<const typename detail::packed_fragment<T, K>::storage_element_type*>(
      reinterpret_cast<const char*>(from) + lane / 4 * stride_bytes + 4 * (lane % 4));
}

template <class T>
WW_INLINE void mma_sync(fragment<accumulator, 8, 8, 32, int>& d, const fragment<matrix_a, 8, 8, 32, T, row_major>& a,
                        const fragment<matrix_b, 8, 8, 32, T, col_major>& b,
                        const fragment<accumulator, 8, 8, 32, int>& c, bool saturate, int line) {
  typedef fragment<accumulator, 8, 8, 32, int> D;
  const auto value = [](unsigned word, int at) {
    return std::is_same_v<T, experimental::precision::s4> ? int(word << (28 - 4 * at)) >> 28 : int(word >> 4 * at & 15);
  };
  detail::for_each_pair<D>(
      a, b,
      [&](int i, const unsigned* row, const unsigned* column) {
        long long sum = c.x[i];
        for (int k = 0; k < 32; ++k) sum += value(row[k / 8], k % 8) * value(column[k / 8], k % 8);
        d.x[i] = saturate ? int(sum < INT_MIN ? INT_MIN : sum > INT_MAX ? INT_MAX : sum) : int(unsigned(sum));
      },
      "wmma::mma_sync", line);
}

WW_INLINE void bmma_sync(fragment<accumulator, 8, 8, 128, int>& d,
                         const fragment<matrix_a, 8, 8, 128, experimental::precision::b1, row_major>& a,
                         const fragment<matrix_b, 8, 8, 128, experimental::precision::b1, col_major>& b,
                         const fragment<accumulator, 8, 8, 128, int>& c,
                         experimental::bmmaBitOp operation = experimental::bmmaBitOpXOR,
                         experimental::bmmaAccumulateOp = experimental::bmmaAccumulateOpPOPC, WW_LINE) {
  typedef fragment<accumulator, 8, 8, 128, int> D;
  detail::for_each_pair<D>(
      a, b,
      [&](int i, const unsigned* row, const unsigned* column) {
        int ones = 0;
        for (int w = 0; w < 4; ++w)
          ones += __builtin_popcount(operation == experimental::bmmaBitOpAND ? row[w] & column[w] : row[w] ^ column[w]);
        d.x[i] = c.x[i] + ones;
      },
      "wmma::bmma_sync", line);
}
}  // namespace wmma
}  // namespace nvcuda
