// Owned references to Python objects, and the parts of tensors that a call reads.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace ww {

class Object {
 public:
  Object() = default;
  static Object owned(PyObject* object) { return Object(object); }
  static Object borrowed(PyObject* object) { return Object(Py_XNewRef(object)); }
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Object(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

// Thrown when a Python exception is set.
struct PythonError {};

inline PyObject* checked(PyObject* object) {
  if (!object) throw PythonError();
  return object;
}
inline Object attribute(PyObject* object, const char* name) {
  return Object::owned(checked(PyObject_GetAttrString(object, name)));
}
inline int64_t integer(PyObject* object) {
  const int64_t value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred()) throw PythonError();
  return value;
}
// Calls function(item) for each item of an iterable.
template <class Function>
void for_each(PyObject* iterable, const Function& function) {
  const Object fast = Object::owned(checked(PySequence_Fast(iterable, "expected a sequence")));
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(fast.get());
  for (Py_ssize_t i = 0; i < count; i++) function(PySequence_Fast_GET_ITEM(fast.get(), i));
}
inline std::vector<int64_t> integers(PyObject* iterable) {
  std::vector<int64_t> values;
  for_each(iterable, [&](PyObject* item) { values.push_back(integer(item)); });
  return values;
}

// A flag in the number of arguments: the caller has checked that nothing dispatches and no forward-mode level is
// active. Only the callables of this library understand it (see call_plan).
constexpr size_t kChecked = size_t{1} << 62;

// A Python object that can be called, whose state is a Content with visit(visitproc, void*) const and
// call(PyObject* const* args, size_t flags, PyObject* names).
template <class Content>
struct Callable {
  PyObject_HEAD vectorcallfunc call;
  Content* content;

  static PyObject* make(PyTypeObject* type, std::unique_ptr<Content> content) {
    auto* self = reinterpret_cast<Callable*>(type->tp_alloc(type, 0));
    if (!self) return nullptr;
    self->call = [](PyObject* object, PyObject* const* args, size_t flags, PyObject* names) -> PyObject* {
      if (Content* own = of(object)) return own->call(args, flags, names);
      PyErr_SetString(PyExc_RuntimeError, "called after its references were cleared");
      return nullptr;
    };
    self->content = content.release();
    return reinterpret_cast<PyObject*>(self);
  }
  static Content*& of(PyObject* object) { return reinterpret_cast<Callable*>(object)->content; }

  static PyTypeObject type(const char* name, const char* doc, newfunc create, PyMethodDef* methods = nullptr) {
    PyTypeObject made{PyVarObject_HEAD_INIT(nullptr, 0)};
    made.tp_name = name;
    made.tp_doc = doc;
    made.tp_basicsize = sizeof(Callable);
    made.tp_vectorcall_offset = offsetof(Callable, call);
    made.tp_call = PyVectorcall_Call;
    made.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC;
    made.tp_methods = methods;
    made.tp_new = create;
    made.tp_traverse = [](PyObject* object, visitproc visit, void* arg) {
      return of(object) ? of(object)->visit(visit, arg) : 0;
    };
    made.tp_clear = [](PyObject* object) {
      delete std::exchange(of(object), nullptr);
      return 0;
    };
    made.tp_dealloc = [](PyObject* object) {
      PyObject_GC_UnTrack(object);
      delete std::exchange(of(object), nullptr);
      Py_TYPE(object)->tp_free(object);
    };
    return made;
  }
};

// True for an object of class torch.Tensor or torch.nn.Parameter, and of no subclass.
inline bool is_plain_tensor(PyObject* object) { return THPVariable_CheckExact(object); }

}  // namespace ww
