// Linear layers of PyTorch: the product with its bias, then the activation.
#include <ATen/ops/_addmm_activation.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>

#include <memory>
#include <optional>
#include <string>

#include "pytorch.h"
#include "replay.h"

namespace ww {
namespace {

struct Linear {
  std::string activation;  // "", relu, gelu or gelu_tanh
  bool fused;              // _addmm_activation, which needs a bias, computes relu or gelu_tanh with the product
  bool kept;               // the activation's argument is the second result
  Object otherwise;        // the same in Python

  PyObject* call(PyObject* const* args, size_t flags, PyObject* names) {
    const Operands operands(args, flags, names, 3, true, true);
    at::Tensor output, before;
    if (!operands.run([&] { compute(operands, output, before); })) return in_python(otherwise, args, flags, names);
    Object first = Object::owned(THPVariable_Wrap(std::move(output)));
    Object second = before.defined() ? Object::owned(THPVariable_Wrap(std::move(before))) : Object::borrowed(Py_None);
    return first && second ? PyTuple_Pack(2, first.get(), second.get()) : nullptr;
  }

  void compute(const Operands& operands, at::Tensor& output, at::Tensor& before) const {
    const auto& [input, weight, bias, _] = operands.at;
    if (fused && bias) {
      const at::Tensor rows = input->dim() == 2 ? *input : input->reshape({-1, weight->size(1)});
      output = at::_addmm_activation(*bias, rows, weight->t(), 1, 1, activation == "gelu_tanh");
      if (input->dim() == 2) return;
      at::DimVector sizes(input->sizes());
      sizes.back() = weight->size(0);
      output = output.view(sizes);
      return;
    }
    output = at::linear(*input, *weight, bias ? std::optional(*bias) : std::nullopt).contiguous();
    if (kept) before = activation.empty() ? output.clone() : output;
    const bool in_place = !kept && !(operands.recorded && c10::GradMode::is_enabled());
    if (activation == "relu")
      output = in_place ? output.relu_() : at::relu(output);
    else if (!activation.empty()) {
      const char* const formula = activation == "gelu_tanh" ? "tanh" : "none";
      output = in_place ? at::gelu_(output, formula) : at::gelu(output, formula);
    }
  }
  int visit(visitproc visit, void* arg) const {
    Py_VISIT(otherwise.get());
    return 0;
  }
};

PyObject* new_linear(PyTypeObject* type, PyObject* args, PyObject*) {
  const char* activation;
  int fused, kept;
  PyObject* otherwise;
  if (!PyArg_ParseTuple(args, "zppO", &activation, &fused, &kept, &otherwise)) return nullptr;
  auto made = std::make_unique<Linear>(
      Linear{activation ? activation : "", static_cast<bool>(fused), static_cast<bool>(kept), {}});
  made->otherwise = Object::borrowed(otherwise);
  return Callable<Linear>::make(type, std::move(made));
}

PyTypeObject type_of_linear = Callable<Linear>::type(
    "warpwise.fastcall.Linear",
    "Linear(activation, fused, kept, otherwise): (output, preactivation) of (input, weight, bias) by ATen; the second "
    "is None unless `kept`. Later arguments are ignored. `otherwise`, the same in Python, runs under a dispatch mode "
    "or transform, for other arguments, and to raise an error.",
    new_linear);

}  // namespace

PyTypeObject* linear_type() { return &type_of_linear; }

}  // namespace ww
