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

// The key of a call, in words of 8 bytes. `valid` is false if an argument has a type without a key in C++.
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
  std::string_view text() const { return {reinterpret_cast<const char*>(words_), size_ * sizeof(uint64_t)}; }

 private:
  void add(uint64_t word) {
    if (room(1)) words_[size_++] = word;
  }
  bool room(size_t count) { return valid &= size_ + count <= kMost; }

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
    const auto sizes = impl->sizes(), strides = impl->strides();
    if (sizes.size() > kMostDimensions || !room(2 + 2 * sizes.size())) return refuse();
    const uint8_t bytes[8] = {static_cast<uint8_t>(value.scalar_type()),
                              static_cast<uint8_t>(device.type()),
                              static_cast<uint8_t>(device.index()),
                              value.requires_grad(),
                              static_cast<uint8_t>(reinterpret_cast<uintptr_t>(impl->data())),
                              static_cast<uint8_t>(sizes.size())};
    words_[size_++] = reinterpret_cast<uintptr_t>(Py_TYPE(object));
    std::memcpy(&words_[size_++], bytes, sizeof(bytes));
    for (const int64_t size : sizes) words_[size_++] = size;
    for (const int64_t stride : strides) words_[size_++] = stride;
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
      const double value = PyFloat_AS_DOUBLE(object);
      uint64_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      add('f');
      return add(bits);
    }
    if (PyUnicode_CheckExact(object)) {
      Py_ssize_t size = 0;
      const char* const text = PyUnicode_AsUTF8AndSize(object, &size);
      const size_t count = (size + 7) / 8;
      if (!text || !room(1 + count)) return refuse();
      add('s' | static_cast<uint64_t>(size) << 8);
      if (count) words_[size_ + count - 1] = 0;
      std::memcpy(words_ + size_, text, size);
      size_ += count;
      return;
    }
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return refuse();
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
    add('(' | static_cast<uint64_t>(count) << 8);
    for (Py_ssize_t i = 0; i < count && valid; i++) fixed(PySequence_Fast_GET_ITEM(object, i));
  }

  // The class of a value that changes from replay to replay; for an int also whether it has more than 32 bits.
  void varying(PyObject* object) {
    add(reinterpret_cast<uintptr_t>(Py_TYPE(object)));
    if (!PyLong_Check(object)) return;
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) return refuse();
    add(value > -(1LL << 31) && value < 1LL << 31);
  }

  void refuse() {
    PyErr_Clear();
    valid = false;
  }
  static constexpr c10::DispatchKeySet kPlainKeys = c10::DispatchKeySet(
      {c10::DispatchKey::CUDA, c10::DispatchKey::CPU, c10::DispatchKey::AutogradCUDA, c10::DispatchKey::AutogradCPU,
       c10::DispatchKey::ADInplaceOrView, c10::DispatchKey::AutocastCUDA, c10::DispatchKey::AutocastCPU});
  static constexpr size_t kMost = 128, kMostDimensions = 64;
  uint64_t words_[kMost];
  size_t size_ = 0;
};

// The hash of a key's words: two independent chains of multiplications by odd constants. In one chain each
// multiplication would wait for the result of the one before.
struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const {
    constexpr uint64_t kOdd[] = {0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F};
    uint64_t sums[] = {text.size(), 0};
    for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, text.data() + at, sizeof(word));
      const size_t chain = at / sizeof(word) % 2;
      sums[chain] = (sums[chain] ^ word) * kOdd[chain];
    }
    const uint64_t both = (sums[0] ^ (sums[1] << 32 | sums[1] >> 32)) * kOdd[0];
    return both ^ both >> 32;
  }
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
    return call_plan(plan.get(), args, count | kChecked, nullptr);
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
