// cuda::std is the host library here: what it offers to constant expressions is what device code may use.
#pragma once

namespace std {}
namespace cuda {
namespace std {
using namespace ::std;
}  // namespace std
}  // namespace cuda
