// Types that torch/csrc/autograd/python_variable.h declares functions with. This library uses none of the functions.
#pragma once

namespace pybind11 {
class dict;
class handle;
class object;
}  // namespace pybind11
