// Thrust's random engine and distributions. The engine is minstd; the distributions are those of the C++ library.
#pragma once
#include <random>

namespace thrust {
// X(i + 1) = 48271 X(i) mod 2^31 - 1; discard(n) takes log2(n) steps.
class minstd_rand {
 public:
  typedef unsigned result_type;
  static constexpr result_type default_seed = 1;
  explicit minstd_rand(unsigned seed = default_seed) { this->seed(seed); }
  void seed(unsigned value = default_seed) { state_ = value % kModulus ? value % kModulus : 1; }
  static constexpr unsigned min() { return 1; }
  static constexpr unsigned max() { return kModulus - 1; }
  unsigned operator()() { return state_ = unsigned(kFactor * state_ % kModulus); }
  void discard(unsigned long long n) {
    unsigned long long power = kFactor, factor = 1;
    for (; n; n >>= 1, power = power * power % kModulus)
      if (n & 1) factor = factor * power % kModulus;
    state_ = unsigned(factor * state_ % kModulus);
  }

 private:
  static constexpr unsigned kModulus = 2147483647;
  static constexpr unsigned long long kFactor = 48271;
  unsigned state_;
};
typedef minstd_rand default_random_engine;
template <class T = double>
using uniform_real_distribution = std::uniform_real_distribution<T>;
template <class T = int>
using uniform_int_distribution = std::uniform_int_distribution<T>;
template <class T = double>
using normal_distribution = std::normal_distribution<T>;
namespace random {
using thrust::default_random_engine;
using thrust::minstd_rand;
using thrust::normal_distribution;
using thrust::uniform_int_distribution;
using thrust::uniform_real_distribution;
}  // namespace random
}  // namespace thrust
