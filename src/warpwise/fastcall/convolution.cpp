// Convolutions of PyTorch and their backward, with settings that are the same at each call of a plan.
#include <ATen/ops/_convolution.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "pytorch.h"
#include "replay.h"

namespace ww {
namespace {

struct Convolution {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;
  std::optional<std::array<bool, 3>> needs;  // the gradients of a backward: input, weight, bias
  at::MemoryFormat format;                   // of the results
  std::optional<bool> tf32;                  // whether float32 is rounded to TF32 on a GPU; without a value as PyTorch
  Object otherwise;                          // the same in Python

  PyObject* call(PyObject* const* args, size_t flags, PyObject* names) {
    const Operands operands(args, flags, names, needs ? 4 : 3, true, true);
    if (needs) return backward(operands, args, flags, names);
    at::Tensor result;
    const auto compute = [&] {
      const auto& [input, weight, bias, _] = operands.at;
      const std::optional<at::Tensor> given = bias ? std::optional(*bias) : std::nullopt;
      result = (operands.is_recorded() ? recorded(*input, *weight, given) : plain(*input, *weight, given))
                   .contiguous(format);
    };
    if (operands.run(compute)) return THPVariable_Wrap(std::move(result));
    return in_python(otherwise, args, flags, names);
  }
  at::Tensor recorded(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) const {
    const Precision setting(at::Float32Op::CONV, tf32);
    return at::conv2d(input, weight, bias, stride, padding, dilation, groups);
  }
  // The operator that conv2d ends in, without the two operators before it, which only read these settings. dtypes other
  // than float32 ignore TF32.
  at::Tensor plain(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias) const {
    const at::Context& context = at::globalContext();
    const bool deterministic = context.deterministicCuDNN() || context.deterministicAlgorithms();
    return at::_convolution(input, weight, bias, stride, padding, dilation, false, {0, 0}, groups,
                            context.benchmarkCuDNN(), deterministic, context.userEnabledCuDNN(), tf32.value_or(true));
  }
  PyObject* backward(const Operands& operands, PyObject* const* args, size_t flags, PyObject* names) {
    std::array<at::Tensor, 3> made;
    const auto compute = [&] {
      const auto& [gradient, input, weight, bias] = operands.at;
      const std::array<int64_t, 1> filters{weight->size(0)};
      const auto sizes = bias ? at::OptionalIntArrayRef(filters) : at::OptionalIntArrayRef();
      const std::array<bool, 3> mask{(*needs)[0], (*needs)[1], (*needs)[2] && bias};
      const std::array<int64_t, 2> none{0, 0};
      const Precision setting(at::Float32Op::CONV, tf32);
      auto [dx, dw, db] = at::convolution_backward(*gradient, *input, *weight, sizes, stride, padding, dilation, false,
                                                   none, groups, mask);
      if (mask[0]) made[0] = dx.contiguous(format);
      if (mask[1]) made[1] = dw.contiguous(format);
      if (mask[2]) made[2] = db.contiguous();
    };
    if (!operands.run(compute)) return in_python(otherwise, args, flags, names);
    Object tuple = Object::owned(PyTuple_New(3));
    for (size_t i = 0; i < made.size() && tuple; i++) {
      PyObject* const one = made[i].defined() ? THPVariable_Wrap(std::move(made[i])) : Py_NewRef(Py_None);
      if (!one) return nullptr;
      PyTuple_SET_ITEM(tuple.get(), i, one);
    }
    return tuple.release();
  }
  int visit(visitproc visit, void* arg) const {
    Py_VISIT(otherwise.get());
    return 0;
  }
};

PyObject* new_convolution(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *stride, *padding, *dilation, *needs, *tf32, *otherwise;
  long long groups;
  int nhwc;
  if (!PyArg_ParseTuple(args, "OOOLOpOO", &stride, &padding, &dilation, &groups, &needs, &nhwc, &tf32, &otherwise))
    return nullptr;
  auto made = std::make_unique<Convolution>();
  try {
    made->stride = integers(stride);
    made->padding = integers(padding);
    made->dilation = integers(dilation);
    if (needs != Py_None) {
      const auto values = integers(needs);
      made->needs = {values.at(0) != 0, values.at(1) != 0, values.at(2) != 0};
    }
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  }
  made->groups = groups;
  if (tf32 != Py_None) made->tf32 = PyObject_IsTrue(tf32) == 1;
  made->format = nhwc ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  made->otherwise = Object::borrowed(otherwise);
  return Callable<Convolution>::make(type, std::move(made));
}

PyTypeObject type_of_convolution = Callable<Convolution>::type(
    "warpwise.fastcall.Convolution",
    "Convolution(stride, padding, dilation, groups, needs, nhwc, tf32, otherwise): conv2d of ATen for (input, weight, "
    "bias), or with needs, a bool for each gradient, its backward of (grad, input, weight, bias). `tf32`: with or "
    "without TF32, or None as PyTorch's setting. Later arguments are ignored. `otherwise`, the same in Python, runs "
    "under a dispatch mode or transform, for other arguments, and to raise an error.",
    new_convolution);

}  // namespace

PyTypeObject* convolution_type() { return &type_of_convolution; }

}  // namespace ww
