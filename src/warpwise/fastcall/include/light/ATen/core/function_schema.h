// Types of arguments in torch/csrc/autograd/python_variable.h.
#pragma once

namespace c10 {
class OperatorHandle;
struct IValue;
}  // namespace c10
