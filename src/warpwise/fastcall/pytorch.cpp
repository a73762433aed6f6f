#include "pytorch.h"

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>

#include "replay.h"

namespace ww {

bool nothing_dispatches() {
  constexpr c10::DispatchKeySet kUsual({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView});
  const auto local = c10::impl::tls_local_dispatch_key_set();
  return (local.included_ - kUsual).empty() && (c10::default_excluded_set - local.excluded_).empty();
}

Operands::Operands(PyObject* const* args, size_t flags, PyObject* names, size_t count, bool optional, bool hold) {
  direct = !names && static_cast<size_t>(PyVectorcall_NARGS(flags & ~kChecked)) >= count && process.forward_level &&
           (flags & kChecked || (nothing_dispatches() && !process.in_forward_mode()));
  for (size_t i = 0; i < count && direct; i++) {
    if (optional && i + 1 == count && args[i] == Py_None) break;
    direct = is_plain_tensor(args[i]);
    if (!direct) break;
    at[i] = &THPVariable_Unpack(args[i]);
    if (hold) at[i] = &(held[i] = *at[i]);
    recorded |= at[i]->requires_grad();
  }
}

namespace {

struct Product {
  const char* name;
  size_t operands;  // later arguments of the call are ignored, except the scales of addmm
  at::Tensor (*multiply)(const at::Tensor* const*, double beta, double alpha);
};
constexpr Product kProducts[] = {
    {"mm", 2, [](const at::Tensor* const* t, double, double) { return at::mm(*t[0], *t[1]); }},
    {"mv", 2, [](const at::Tensor* const* t, double, double) { return at::mv(*t[0], *t[1]); }},
    {"bmm", 2, [](const at::Tensor* const* t, double, double) { return at::bmm(*t[0], *t[1]); }},
    {"addmm", 3,
     [](const at::Tensor* const* t, double beta, double alpha) { return at::addmm(*t[0], *t[1], *t[2], beta, alpha); }},
    {"_scaled_mm", 4,
     [](const at::Tensor* const* t, double, double) {
       return at::_scaled_mm(*t[0], *t[1], *t[2], *t[3], std::nullopt, std::nullopt, at::kBFloat16);
     }},
};

// Calls an operator of ATen without PyTorch's parser of arguments, and without autograd if no gradient is recorded.
struct Aten {
  Product product;
  Object otherwise;  // the same in Python

  PyObject* call(PyObject* const* args, size_t flags, PyObject* names) {
    const Operands operands(args, flags, names, product.operands, false, product.operands > 3);
    double scales[] = {1, 1};
    for (size_t i = 0; i < 2 && operands.direct; i++) {
      const size_t at = product.operands + i;
      if (at < static_cast<size_t>(PyVectorcall_NARGS(flags & ~kChecked)) && PyFloat_Check(args[at]))
        scales[i] = PyFloat_AS_DOUBLE(args[at]);
    }
    at::Tensor result;
    if (operands.run([&] { result = product.multiply(operands.at, scales[0], scales[1]); }))
      return THPVariable_Wrap(std::move(result));
    return in_python(otherwise, args, flags, names);
  }
  int visit(visitproc visit, void* arg) const {
    Py_VISIT(otherwise.get());
    return 0;
  }
};

PyObject* new_aten(PyTypeObject* type, PyObject* args, PyObject*) {
  const char* name;
  PyObject* otherwise;
  if (!PyArg_ParseTuple(args, "sO", &name, &otherwise)) return nullptr;
  for (const Product& product : kProducts)
    if (!std::strcmp(product.name, name))
      return Callable<Aten>::make(type, std::make_unique<Aten>(Aten{product, Object::borrowed(otherwise)}));
  PyErr_Format(PyExc_ValueError, "expected mm, mv, bmm, addmm or _scaled_mm, got %s", name);
  return nullptr;
}

PyTypeObject type_of_aten = Callable<Aten>::type(
    "warpwise.fastcall.Aten",
    "Aten(name, otherwise): calls ATen's mm, mv, bmm, addmm (with beta and alpha after its tensors) or _scaled_mm (to "
    "bfloat16) for plain tensors. `otherwise`, the same function in Python, runs under a dispatch mode or transform, "
    "for other arguments, and to raise an error.",
    new_aten);

// Calls `product` with or without TF32 for float32 matrix products or convolutions, then restores PyTorch's setting.
struct InPrecision {
  Object product;
  bool tf32;
  at::Float32Op operation;

  PyObject* call(PyObject* const* args, size_t flags, PyObject* names) {
    const Precision setting(operation, tf32);
    return call_plan(product.get(), args, flags, names);
  }
  int visit(visitproc visit, void* arg) const {
    Py_VISIT(product.get());
    return 0;
  }
};

PyObject* new_in_precision(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* product;
  int tf32, convolution = 0;
  if (!PyArg_ParseTuple(args, "Op|p", &product, &tf32, &convolution)) return nullptr;
  const auto operation = convolution ? at::Float32Op::CONV : at::Float32Op::MATMUL;
  return Callable<InPrecision>::make(
      type, std::make_unique<InPrecision>(InPrecision{Object::borrowed(product), static_cast<bool>(tf32), operation}));
}

PyTypeObject type_of_in_precision = Callable<InPrecision>::type(
    "warpwise.fastcall.InPrecision",
    "InPrecision(product, tf32, convolution=False): calls `product` with or without TF32 for float32 matrix products, "
    "or for convolutions, independent of PyTorch's setting.",
    new_in_precision);

}  // namespace

PyObject* call_plan(PyObject* plan, PyObject* const* args, size_t flags, PyObject* names) {
  PyTypeObject* const type = Py_TYPE(plan);
  if (flags & kChecked && (type == replay_type() || type == aten_type() || type == convolution_type() ||
                           type == in_precision_type() || type == linear_type()))
    return PyVectorcall_Function(plan)(plan, args, flags, names);
  return PyObject_Vectorcall(plan, args, flags & ~kChecked, names);
}

PyTypeObject* aten_type() { return &type_of_aten; }
PyTypeObject* in_precision_type() { return &type_of_in_precision; }

}  // namespace ww
