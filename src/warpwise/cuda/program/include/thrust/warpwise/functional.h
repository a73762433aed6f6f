// Thrust's function objects and execution policies.
#pragma once
#include <complex>
#include <functional>

#include "iterators.h"

namespace thrust {
#define WW_THRUST_BINARY(NAME, EXPRESSION)                               \
  template <class T = void>                                              \
  struct NAME {                                                          \
    auto operator()(const T& a, const T& b) const { return EXPRESSION; } \
  };                                                                     \
  template <>                                                            \
  struct NAME<void> {                                                    \
    template <class A, class B>                                          \
    auto operator()(const A& a, const B& b) const {                      \
      return EXPRESSION;                                                 \
    }                                                                    \
  };
WW_THRUST_BINARY(plus, a + b)
WW_THRUST_BINARY(minus, a - b)
WW_THRUST_BINARY(multiplies, a* b)
WW_THRUST_BINARY(divides, a / b)
WW_THRUST_BINARY(modulus, a % b)
WW_THRUST_BINARY(maximum, a < b ? b : a)
WW_THRUST_BINARY(minimum, b < a ? b : a)
WW_THRUST_BINARY(equal_to, a == b)
WW_THRUST_BINARY(not_equal_to, a != b)
WW_THRUST_BINARY(greater, a > b)
WW_THRUST_BINARY(less, a < b)
WW_THRUST_BINARY(greater_equal, a >= b)
WW_THRUST_BINARY(less_equal, a <= b)
WW_THRUST_BINARY(logical_and, a&& b)
WW_THRUST_BINARY(logical_or, a || b)
WW_THRUST_BINARY(bit_and, a& b)
WW_THRUST_BINARY(bit_or, a | b)
WW_THRUST_BINARY(bit_xor, a ^ b)
WW_THRUST_BINARY(project1st, a)
WW_THRUST_BINARY(project2nd, b)
#undef WW_THRUST_BINARY
#define WW_THRUST_UNARY(NAME, EXPRESSION)                    \
  template <class T = void>                                  \
  struct NAME {                                              \
    auto operator()(const T& a) const { return EXPRESSION; } \
  };                                                         \
  template <>                                                \
  struct NAME<void> {                                        \
    template <class A>                                       \
    auto operator()(const A& a) const {                      \
      return EXPRESSION;                                     \
    }                                                        \
  };
WW_THRUST_UNARY(negate, -a)
WW_THRUST_UNARY(square, a* a)
WW_THRUST_UNARY(logical_not, !a)
WW_THRUST_UNARY(identity, a)
#undef WW_THRUST_UNARY

template <class A, class R>
struct unary_function {
  typedef A argument_type;
  typedef R result_type;
};
template <class A, class B, class R>
struct binary_function {
  typedef A first_argument_type;
  typedef B second_argument_type;
  typedef R result_type;
};
using std::not_fn;
template <class T>
using complex = std::complex<T>;
template <class F>
struct zip_function {
  F f;
  zip_function(F f) : f(f) {}
  template <class Tuple>
  decltype(auto) operator()(Tuple&& values) const {
    F call = f;
    return std::apply(call, std::forward<Tuple>(values));
  }
};
template <class F>
zip_function<F> make_zip_function(F f) {
  return {f};
}

// Expressions of _1 and _2.
namespace placeholders {
template <class F>
struct Expression {
  F f;
  template <class... T>
  auto operator()(const T&... values) const {
    return f(values...);
  }
};
template <class F>
Expression<F> expression(F f) {
  return {f};
}
struct First {
  template <class A, class... T>
  A operator()(const A& a, const T&...) const {
    return a;
  }
};
struct Second {
  template <class A, class B>
  B operator()(const A&, const B& b) const {
    return b;
  }
};
static const Expression<First> _1{};
static const Expression<Second> _2{};
#define WW_THRUST_OPERATOR(OP)                                                                \
  template <class F, class G>                                                                 \
  auto operator OP(Expression<F> f, Expression<G> g) {                                        \
    return expression([=](const auto&... values) { return f(values...) OP g(values...); });   \
  }                                                                                           \
  template <class F, class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>              \
  auto operator OP(Expression<F> f, T value) {                                                \
    return expression([=](const auto&... values) { return f(values...) OP value; });          \
  }                                                                                           \
  template <class F, class T, class = std::enable_if_t<std::is_arithmetic_v<T>>, class = int> \
  auto operator OP(T value, Expression<F> f) {                                                \
    return expression([=](const auto&... values) { return value OP f(values...); });          \
  }
WW_THRUST_OPERATOR(+)
WW_THRUST_OPERATOR(-)
WW_THRUST_OPERATOR(*)
WW_THRUST_OPERATOR(/)
WW_THRUST_OPERATOR(%)
WW_THRUST_OPERATOR(<)
WW_THRUST_OPERATOR(>)
WW_THRUST_OPERATOR(<=)
WW_THRUST_OPERATOR(>=)
WW_THRUST_OPERATOR(==)
WW_THRUST_OPERATOR(!=)
#undef WW_THRUST_OPERATOR
}  // namespace placeholders

// Policies have no effect: algorithms run on the host, at once.
namespace detail {
struct Policy {
  Policy on(cudaStream_t) const { return {}; }
  template <class A>
  Policy operator()(A&&) const {
    return {};
  }
};
template <class P>
constexpr bool is_policy = std::is_same_v<std::decay_t<P>, Policy>;
}  // namespace detail
static const detail::Policy host, device, seq;
namespace cuda {
static const detail::Policy par, par_nosync;
}
}  // namespace thrust
