// Plans of calls that PyTorch computes: matrix products, linear layers and convolutions.
#pragma once
#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include <exception>
#include <optional>

#include "values.h"

namespace ww {

// True if no dispatch mode, function transform, tracer or autocast is active. torch.inference_mode does not count: it
// only excludes autograd.
bool nothing_dispatches();

// The first tensors of a call. `direct` is false if Python has to compute it: under a dispatch mode or transform, or
// for other arguments than plain tensors. With `optional` the last one may be None, a null pointer here.
//
// If C++ has only one reference to a tensor, ATen takes the interpreter's lock to copy the tensor, because a second
// reference in C++ keeps the Python object alive. With `hold` this class has references of its own, made and dropped
// while it has the lock, so `run` does not need the lock: convolutions copy their operands, products of matrices do
// not.
struct Operands {
  static constexpr size_t kMost = 4;
  at::Tensor held[kMost];
  const at::Tensor* at[kMost] = {};
  bool direct, recorded = false;

  Operands(PyObject* const* args, size_t flags, PyObject* names, size_t count, bool optional, bool hold);

  bool is_recorded() const { return recorded && c10::GradMode::is_enabled(); }

  // Runs `compute` without the interpreter's lock, and without autograd if no gradient is recorded. Returns false after
  // an error, which `in_python` raises.
  template <class Compute>
  bool run(const Compute& compute) const {
    if (!direct) return false;
    bool done = true;
    PyThreadState* const state = PyEval_SaveThread();
    try {
      std::optional<at::AutoDispatchBelowADInplaceOrView> below;
      if (!is_recorded()) below.emplace();
      compute();
    } catch (const std::exception&) {
      done = false;
    }
    PyEval_RestoreThread(state);
    return done;
  }
};

// While an object exists, PyTorch computes float32 matrix products or convolutions on a GPU with or without TF32. If
// `tf32` has no value, the setting does not change.
class Precision {
 public:
  Precision(at::Float32Op operation, std::optional<bool> tf32) : operation_(operation) {
    if (!tf32) return;
    at::Context& context = at::globalContext();
    before_ = context.float32Precision(kCuda, operation);
    changed_ = (before_ == at::Float32Precision::TF32) != *tf32;
    if (changed_)
      context.setFloat32Precision(kCuda, operation, *tf32 ? at::Float32Precision::TF32 : at::Float32Precision::IEEE);
  }
  ~Precision() {
    if (!changed_) return;
    at::Context& context = at::globalContext();
    context.setFloat32Precision(kCuda, operation_, at::Float32Precision::NONE);  // as torch.backends.fp32_precision, if
    if (context.float32Precision(kCuda, operation_) != before_)                  // the setting came from there
      context.setFloat32Precision(kCuda, operation_, before_);
  }
  Precision(const Precision&) = delete;
  Precision& operator=(const Precision&) = delete;

 private:
  static constexpr auto kCuda = at::Float32Backend::CUDA;
  at::Float32Op operation_;
  at::Float32Precision before_{};
  bool changed_ = false;
};

// Makes the same call in Python. If a Python hook within C++ has failed, such as one for saved tensors, returns null
// with its error.
inline PyObject* in_python(const Object& function, PyObject* const* args, size_t flags, PyObject* names) {
  return PyErr_Occurred() ? nullptr : PyObject_Vectorcall(function.get(), args, flags & ~kChecked, names);
}

// Calls a plan, with the flag kChecked if it is a callable of this library.
PyObject* call_plan(PyObject* plan, PyObject* const* args, size_t flags, PyObject* names);

PyTypeObject* aten_type();
PyTypeObject* convolution_type();
PyTypeObject* in_precision_type();
PyTypeObject* linear_type();

}  // namespace ww
