// The conversions declared in warpwise_host/convert.h that are not templates.
#include <warpwise_host/convert.h>
#include <warpwise_host/function.h>

#include <cstring>

// Exported by libtorch_python. Which of the two signatures exists depends on the PyTorch version.
#if WW_WRAP_BY_REFERENCE
extern PyObject* THPVariable_Wrap(const at::TensorBase&);
#else
extern PyObject* THPVariable_Wrap(at::TensorBase);
#endif

namespace warpwise_host {
namespace {
PyObject* torch_attribute(const char* name) {
  PyObject* torch = PyImport_ImportModule("torch");
  PyObject* value = torch ? PyObject_GetAttrString(torch, name) : nullptr;
  Py_XDECREF(torch);
  if (!value) throw python_error();
  return value;
}

std::string text_of(PyObject* object) {
  PyObject* text = PyObject_Str(object);
  const char* chars = text ? PyUnicode_AsUTF8(text) : nullptr;
  std::string copy = chars ? chars : "";
  Py_XDECREF(text);
  if (!chars) throw python_error();
  return copy;
}

bool is_instance(PyObject* object, const char* type) {
  PyObject* wanted = torch_attribute(type);
  const int is = PyObject_IsInstance(object, wanted);
  Py_DECREF(wanted);
  if (is < 0) throw python_error();
  return is;
}

struct NamedType {
  const char* name;
  c10::ScalarType type;
};
constexpr NamedType kTypes[] = {
    {"torch.uint8", c10::kByte},
    {"torch.int8", c10::kChar},
    {"torch.int16", c10::kShort},
    {"torch.int32", c10::kInt},
    {"torch.int64", c10::kLong},
    {"torch.float16", c10::kHalf},
    {"torch.float32", c10::kFloat},
    {"torch.float64", c10::kDouble},
    {"torch.bool", c10::kBool},
    {"torch.bfloat16", c10::kBFloat16},
    {"torch.complex64", c10::kComplexFloat},
    {"torch.complex128", c10::kComplexDouble},
    {"torch.uint16", c10::kUInt16},
    {"torch.uint32", c10::kUInt32},
    {"torch.uint64", c10::kUInt64},
    {"torch.float8_e4m3fn", c10::kFloat8_e4m3fn},
    {"torch.float8_e5m2", c10::kFloat8_e5m2},
};
}  // namespace

bool is_tensor(PyObject* object) {
  static PyObject* const type = torch_attribute("Tensor");
  const int is = PyObject_IsInstance(object, type);
  if (is < 0) throw python_error();
  return is;
}

at::Tensor to_tensor(PyObject* object) {
  PyObject* address = PyObject_GetAttrString(object, "_cdata");
  void* implementation = address ? PyLong_AsVoidPtr(address) : nullptr;
  Py_XDECREF(address);
  if (!implementation) throw python_error();
  return at::Tensor(
      c10::intrusive_ptr<at::TensorImpl>::unsafe_reclaim_from_nonowning(static_cast<at::TensorImpl*>(implementation)));
}

PyObject* from_tensor(const at::Tensor& value) {
  if (!value.defined()) Py_RETURN_NONE;
  return THPVariable_Wrap(value);
}

bool to_scalar_type(PyObject* object, c10::ScalarType& type) {
  if (!is_instance(object, "dtype")) return false;
  const std::string name = text_of(object);
  for (const NamedType& known : kTypes) {
    if (name == known.name) {
      type = known.type;
      return true;
    }
  }
  return false;
}

PyObject* from_scalar_type(c10::ScalarType type) {
  for (const NamedType& known : kTypes) {
    if (type == known.type) return torch_attribute(known.name + std::strlen("torch."));
  }
  throw std::runtime_error(std::string("no torch.dtype for ") + c10::toString(type));
}

bool to_device(PyObject* object, c10::Device& device) {
  if (!PyUnicode_Check(object) && !is_instance(object, "device")) return false;
  device = c10::Device(text_of(object));
  return true;
}

PyObject* from_device(const c10::Device& device) {
  PyObject* type = torch_attribute("device");
  PyObject* made = PyObject_CallFunction(type, "s", device.str().c_str());
  Py_DECREF(type);
  return made;
}

bool to_integer(PyObject* object, bool is_signed, int bits, uint64_t& value) {
  if (PyFloat_Check(object) || !PyIndex_Check(object)) return false;
  PyObject* integer = PyNumber_Index(object);
  if (!integer) {
    PyErr_Clear();
    return false;
  }
  if (is_signed) {
    int overflow = 0;
    const long long wide = PyLong_AsLongLongAndOverflow(integer, &overflow);
    const long long highest = static_cast<long long>((uint64_t(1) << (bits - 1)) - 1);
    value = static_cast<uint64_t>(wide);
    Py_DECREF(integer);
    return !overflow && wide <= highest && wide >= -highest - 1;
  }
  const unsigned long long wide = PyLong_AsUnsignedLongLong(integer);
  Py_DECREF(integer);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  value = wide;
  return bits == 64 || wide >> bits == 0;
}

bool to_double(PyObject* object, double& value) {
  if (PyUnicode_Check(object) || is_tensor(object)) return false;
  value = PyFloat_AsDouble(object);
  if (!PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

bool to_bool(PyObject* object, bool& value) {
  if (object != Py_True && object != Py_False) return false;
  value = object == Py_True;
  return true;
}

bool to_string(PyObject* object, std::string& value) {
  if (!PyUnicode_Check(object)) return false;
  Py_ssize_t size = 0;
  const char* chars = PyUnicode_AsUTF8AndSize(object, &size);
  if (!chars) throw python_error();
  value.assign(chars, size);
  return true;
}

bool to_number(PyObject* object, c10::Scalar& value) {
  bool truth = false;
  uint64_t integer = 0;
  double real = 0;
  if (to_bool(object, truth)) {
    value = truth;
  } else if (to_integer(object, true, 64, integer)) {
    value = static_cast<int64_t>(integer);
  } else if (to_double(object, real)) {
    value = real;
  } else {
    return false;
  }
  return true;
}

PyObject* from_number(const c10::Scalar& value) {
  if (value.isBoolean()) return PyBool_FromLong(value.to<bool>());
  if (value.isIntegral(false)) return PyLong_FromLongLong(value.to<int64_t>());
  if (value.isFloatingPoint()) return PyFloat_FromDouble(value.to<double>());
  const c10::complex<double> number = value.to<c10::complex<double>>();
  return PyComplex_FromDoubles(number.real(), number.imag());
}
}  // namespace warpwise_host
