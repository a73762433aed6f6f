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
}  // namespace std
}  // namespace cuda
