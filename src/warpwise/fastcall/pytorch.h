// Products, linear layers and convolutions that PyTorch computes, as plans of a call.
#pragma once
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include <exception>
#include <optional>

#include "values.h"

namespace ww {

// True if no dispatch mode, function transform, tracer or autocast is active. torch.inference_mode excludes autograd.
bool nothing_dispatches();

// The first tensors of a call. `direct` is false if Python has to compute it: under a dispatch mode or transform, or
// for other arguments than plain tensors. With `optional` the last one may be None, a null pointer here.
struct Operands {
  static constexpr size_t kMost = 4;
  const at::Tensor* at[kMost] = {};
  bool direct, recorded = false;

  Operands(PyObject* const* args, size_t flags, PyObject* names, size_t count, bool optional);

  // Runs `compute` without the interpreter, below autograd if nothing is recorded. Returns false after an error, which
  // `in_python` raises.
  template <class Compute>
  bool run(const Compute& compute) const {
    if (!direct) return false;
    bool done = true;
    PyThreadState* const state = PyEval_SaveThread();
    try {
      std::optional<at::AutoDispatchBelowADInplaceOrView> below;
      if (!recorded || !c10::GradMode::is_enabled()) below.emplace();
      compute();
    } catch (const std::exception&) {
      done = false;
    }
    PyEval_RestoreThread(state);
    return done;
  }
};

// The same call in Python; after an error of a Python hook within C++, such as one for saved tensors, that error.
inline PyObject* in_python(const Object& function, PyObject* const* args, size_t flags, PyObject* names) {
  return PyErr_Occurred() ? nullptr : PyObject_Vectorcall(function.get(), args, flags, names);
}

PyTypeObject* aten_type();
PyTypeObject* convolution_type();
PyTypeObject* in_precision_type();
PyTypeObject* linear_type();

}  // namespace ww
