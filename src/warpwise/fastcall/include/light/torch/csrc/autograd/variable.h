// Names of lists in torch/csrc/autograd/python_variable.h.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/irange.h>

#include <vector>

namespace torch {
namespace autograd {
using Variable = at::Tensor;
using variable_list = std::vector<Variable>;
}  // namespace autograd
namespace jit {
using Stack = std::vector<c10::IValue>;
}  // namespace jit
}  // namespace torch
