// A call of an operation: its key, and the plan kept for it.
#include <c10/core/GradMode.h>

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "pytorch.h"
#include "replay.h"

namespace ww {
namespace {

// The key of a call. `valid` is false if an argument has a type without a key in C++.
class Key {
 public:
  bool valid = true;

  // kinds, a letter for each argument: t a tensor or None, f a fixed value, v a varying one. The last one is the rung.
  Key(const std::string& kinds, PyObject* const* args) {
    add(c10::GradMode::is_enabled());
    try {
      for (size_t i = 0; i < kinds.size() && valid; i++) {
        if (kinds[i] == 't')
          tensor(args[i]);
        else if (kinds[i] == 'f')
          fixed(args[i]);
        else
          varying(args[i]);
      }
      if (valid) fixed(args[kinds.size()]);
    } catch (const std::exception&) {  // a tensor without memory
      valid = false;
    }
  }
  std::string_view text() const { return {bytes_, size_}; }

 private:
  template <class Value>
  void add(Value value) {
    if (size_ + sizeof(Value) > sizeof(bytes_)) {
      valid = false;
      return;
    }
    std::memcpy(bytes_ + size_, &value, sizeof(Value));
    size_ += sizeof(Value);
  }
  // The properties on which a launcher may depend: class, dtype, device, alignment, shape, strides, requires_grad.
  void tensor(PyObject* object) {
    if (object == Py_None) return add('N');
    if (!is_plain_tensor(object)) return refuse();
    const at::Tensor& value = THPVariable_Unpack(object);
    at::TensorImpl* const impl = value.unsafeGetTensorImpl();
    if (value.key_set().raw_repr() & ~kPlainKeys.raw_repr() || impl->has_symbolic_sizes_strides() ||
        !impl->has_storage())
      return refuse();
    const at::Device device = impl->device();
    if (device.type() != at::kCUDA && device.type() != at::kCPU) return refuse();
    add(Py_TYPE(object));
    add(value.scalar_type());
    add(device.type());
    add(device.index());
    add(value.requires_grad());
    add(static_cast<uint8_t>(reinterpret_cast<uintptr_t>(impl->data())));
    add(static_cast<uint8_t>(impl->dim()));
    for (const int64_t size : impl->sizes()) add(size);
    for (const int64_t stride : impl->strides()) add(stride);
  }

  // A value that a plan depends on: None, a bool, an int, a float, a str, or a sequence of these.
  void fixed(PyObject* object) {
    if (object == Py_None) return add('N');
    if (PyBool_Check(object)) return add(object == Py_True ? 'T' : 'F');
    if (PyLong_CheckExact(object)) {
      int overflow = 0;
      const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
      if (overflow) return refuse();
      add('i');
      return add(value);
    }
    if (PyFloat_CheckExact(object)) {
      add('f');
      return add(PyFloat_AS_DOUBLE(object));
    }
    if (PyUnicode_CheckExact(object)) {
      Py_ssize_t size = 0;
      const char* const text = PyUnicode_AsUTF8AndSize(object, &size);
      if (!text || size_ + size + 9 > sizeof(bytes_)) return refuse();
      add('s');
      add(static_cast<uint64_t>(size));
      std::memcpy(bytes_ + size_, text, size);
      size_ += size;
      return;
    }
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return refuse();
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
    add('(');
    add(static_cast<uint64_t>(count));
    for (Py_ssize_t i = 0; i < count && valid; i++) fixed(PySequence_Fast_GET_ITEM(object, i));
  }

  // The class of a value that each replay passes anew; for an int also whether it has more than 32 bits.
  void varying(PyObject* object) {
    add(Py_TYPE(object));
    if (!PyLong_Check(object)) return;
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    const bool narrow = value > -(1LL << 31) && value < 1LL << 31;
    if (overflow) return refuse();
    add(narrow);
  }

  void refuse() {
    PyErr_Clear();
    valid = false;
  }
  static constexpr c10::DispatchKeySet kPlainKeys = c10::DispatchKeySet(
      {c10::DispatchKey::CUDA, c10::DispatchKey::CPU, c10::DispatchKey::AutogradCUDA, c10::DispatchKey::AutogradCPU,
       c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutocastCUDA, c10::DispatchKey::AutocastCPU});
  char bytes_[1024];
  size_t size_ = 0;
};

struct Hash : std::hash<std::string_view> {
  using is_transparent = void;
};

struct Call {
  std::string kinds;  // see Key
  Object general;     // the call in Python
  Object find;        // returns the plan that the call in Python has cached for these arguments, or None
  std::unordered_map<std::string, Object, Hash, std::equal_to<>> plans;

  PyObject* call(PyObject* const* args, size_t flags, PyObject* names);
  int visit(visitproc visit, void* arg) const {
    Py_VISIT(general.get());
    Py_VISIT(find.get());
    for (const auto& [key, plan] : plans) Py_VISIT(plan.get());
    return 0;
  }
};

PyObject* Call::call(PyObject* const* args, size_t flags, PyObject* names) {
  const size_t count = kinds.size(), plain = flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET;
  if (names || static_cast<size_t>(PyVectorcall_NARGS(flags)) != count + 1) {
    PyErr_Format(PyExc_TypeError, "expected %zu arguments and the rung by position", count);
    return nullptr;
  }
  if (!nothing_dispatches() || process.in_forward_mode())
    return PyObject_Vectorcall(general.get(), args, plain, nullptr);
  const Key key(kinds, args);
  if (!key.valid) return PyObject_Vectorcall(general.get(), args, plain, nullptr);
  if (const auto found = plans.find(key.text()); found != plans.end()) {
    const Object plan = Object::borrowed(found->second.get());  // the call may clear the plans
    return PyObject_Vectorcall(plan.get(), args, count, nullptr);
  }
  Object made = Object::owned(PyObject_Vectorcall(general.get(), args, plain, nullptr));
  if (!made) return nullptr;
  Object plan = Object::owned(PyObject_Vectorcall(find.get(), args, plain, nullptr));
  if (!plan) return nullptr;
  if (plan.get() != Py_None) plans.insert_or_assign(std::string(key.text()), std::move(plan));
  return made.release();
}

PyObject* new_call(PyTypeObject* type, PyObject* args, PyObject*) {
  const char* kinds;
  PyObject *general, *find;
  if (!PyArg_ParseTuple(args, "sOO", &kinds, &general, &find)) return nullptr;
  return Callable<Call>::make(
      type, std::make_unique<Call>(Call{kinds, Object::borrowed(general), Object::borrowed(find), {}}));
}

PyObject* forget(PyObject* self, PyObject*) {
  if (Call* own = Callable<Call>::of(self)) {
    const auto plans = std::exchange(own->plans, {});  // a plan may run Python code when it is deleted
  }
  Py_RETURN_NONE;
}

PyMethodDef methods_of_call[] = {{"forget", forget, METH_NOARGS, "Drop all plans."}, {}};

PyTypeObject type_of_call = Callable<Call>::type(
    "warpwise.fastcall.Call",
    "Call(kinds, general, find): a function of an operation's arguments and the rung, by position.", new_call,
    methods_of_call);

// configure(launch, raw_stream, current_device, interceptors, forward_level)
PyObject* configure(PyObject*, PyObject* args) {
  unsigned long long launch;
  PyObject *raw_stream, *current_device, *interceptors, *forward_level;
  if (!PyArg_ParseTuple(args, "KOOO!O!", &launch, &raw_stream, &current_device, &PyList_Type, &interceptors,
                        &PyDict_Type, &forward_level))
    return nullptr;
  process.launch = reinterpret_cast<LaunchFunction>(launch);
  process.raw_stream = Object::borrowed(raw_stream);
  process.current_device = Object::borrowed(current_device);
  process.interceptors = Object::borrowed(interceptors);
  process.forward_level = Object::borrowed(forward_level);
  process.level_name = Object::owned(PyUnicode_InternFromString("_current_level"));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {{"configure", configure, METH_VARARGS, "Set what is the same for all calls."}, {}};
PyModuleDef module = {PyModuleDef_HEAD_INIT, "fastcall", nullptr, -1, functions};

}  // namespace
}  // namespace ww

PyMODINIT_FUNC PyInit_fastcall() {
  PyObject* made = PyModule_Create(&ww::module);
  if (!made || PyModule_AddType(made, &ww::type_of_call) || PyModule_AddType(made, ww::replay_type()) ||
      PyModule_AddType(made, ww::aten_type()) || PyModule_AddType(made, ww::convolution_type()) ||
      PyModule_AddType(made, ww::in_precision_type()) || PyModule_AddType(made, ww::linear_type()))
    return nullptr;
  return made;
}
