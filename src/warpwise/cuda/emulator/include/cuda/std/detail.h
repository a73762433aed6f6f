// Makes cuda::std an alias of the host's standard library. libcu++'s headers include the ones below.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace std {}
namespace cuda {
namespace std {
using namespace ::std;

struct identity {  // ::std has it since C++20
  using is_transparent = void;
  template <class T>
  constexpr T&& operator()(T&& value) const noexcept {
    return static_cast<T&&>(value);
  }
};
}  // namespace std
}  // namespace cuda
