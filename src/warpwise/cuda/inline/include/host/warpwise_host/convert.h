// Conversions between Python objects and the C++ types of an extension's functions, by pybind11's and PyTorch's rules.
// load() returns false if the object has a different type; cast() returns a new reference.
#pragma once
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace warpwise_host {
// Defined in the support library (convert.cpp).
bool is_tensor(PyObject*);
at::Tensor to_tensor(PyObject*);
PyObject* from_tensor(const at::Tensor&);
bool to_scalar_type(PyObject*, c10::ScalarType&);
PyObject* from_scalar_type(c10::ScalarType);
bool to_device(PyObject*, c10::Device&);
PyObject* from_device(const c10::Device&);
bool to_integer(PyObject*, bool is_signed, int bits, uint64_t& value);
bool to_double(PyObject*, double&);
bool to_bool(PyObject*, bool&);
bool to_string(PyObject*, std::string&);
bool to_number(PyObject*, c10::Scalar&);
PyObject* from_number(const c10::Scalar&);

template <class T, class = void>
struct Convert {
  static_assert(!sizeof(T), "WARPWISE_NOT_LIGHT: the type of a parameter or result requires pybind11 itself");
};

template <class T>
struct ByValue {
  using Held = T;
  static T& get(T& held) { return held; }
};

template <>
struct Convert<void> {
  static std::string name() { return "None"; }
};
template <>
struct Convert<at::Tensor> : ByValue<at::Tensor> {
  static std::string name() { return "torch.Tensor"; }
  static bool load(PyObject* object, at::Tensor& held) {
    if (!is_tensor(object)) return false;
    held = to_tensor(object);
    return true;
  }
  static PyObject* cast(const at::Tensor& value) { return from_tensor(value); }
};
template <>
struct Convert<bool> : ByValue<bool> {
  static std::string name() { return "bool"; }
  static bool load(PyObject* object, bool& held) { return to_bool(object, held); }
  static PyObject* cast(bool value) { return PyBool_FromLong(value); }
};
template <class T>
struct Convert<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> : ByValue<T> {
  static std::string name() { return "int"; }
  static bool load(PyObject* object, T& held) {
    uint64_t value = 0;
    if (!to_integer(object, std::is_signed_v<T>, 8 * sizeof(T), value)) return false;
    held = static_cast<T>(value);
    return true;
  }
  static PyObject* cast(T value) {
    return std::is_signed_v<T> ? PyLong_FromLongLong(static_cast<long long>(value))
                               : PyLong_FromUnsignedLongLong(value);
  }
};
template <class T>
struct Convert<T, std::enable_if_t<std::is_floating_point_v<T>>> : ByValue<T> {
  static std::string name() { return "float"; }
  static bool load(PyObject* object, T& held) {
    double value = 0;
    if (!to_double(object, value)) return false;
    held = static_cast<T>(value);
    return true;
  }
  static PyObject* cast(T value) { return PyFloat_FromDouble(static_cast<double>(value)); }
};
template <>
struct Convert<std::string> : ByValue<std::string> {
  static std::string name() { return "str"; }
  static bool load(PyObject* object, std::string& held) { return to_string(object, held); }
  static PyObject* cast(const std::string& value) { return PyUnicode_FromStringAndSize(value.data(), value.size()); }
};
template <>
struct Convert<std::string_view> : Convert<std::string> {
  static std::string_view get(std::string& held) { return held; }
  static PyObject* cast(std::string_view value) { return PyUnicode_FromStringAndSize(value.data(), value.size()); }
};
template <>
struct Convert<const char*> : Convert<std::string> {
  static const char* get(std::string& held) { return held.c_str(); }
  static PyObject* cast(const char* value) { return PyUnicode_FromString(value); }
};
template <>
struct Convert<c10::ScalarType> : ByValue<c10::ScalarType> {
  static std::string name() { return "torch.dtype"; }
  static bool load(PyObject* object, c10::ScalarType& held) { return to_scalar_type(object, held); }
  static PyObject* cast(c10::ScalarType value) { return from_scalar_type(value); }
};
template <>
struct Convert<c10::Device> {
  struct Held {
    c10::Device device{c10::DeviceType::CPU};
  };
  static c10::Device& get(Held& held) { return held.device; }
  static std::string name() { return "torch.device"; }
  static bool load(PyObject* object, Held& held) { return to_device(object, held.device); }
  static PyObject* cast(const c10::Device& value) { return from_device(value); }
};
template <>
struct Convert<c10::Scalar> : ByValue<c10::Scalar> {
  static std::string name() { return "Union[int, float, bool]"; }
  static bool load(PyObject* object, c10::Scalar& held) { return to_number(object, held); }
  static PyObject* cast(const c10::Scalar& value) { return from_number(value); }
};

template <class T>
struct Convert<std::optional<T>> {
  using Inner = Convert<T>;
  struct Held {
    typename Inner::Held inner{};
    bool given = false;
  };
  static std::string name() { return "Optional[" + Inner::name() + "]"; }
  static bool load(PyObject* object, Held& held) {
    if (object == Py_None) return true;
    return held.given = Inner::load(object, held.inner);
  }
  static std::optional<T> get(Held& held) {
    return held.given ? std::optional<T>(Inner::get(held.inner)) : std::nullopt;
  }
  static PyObject* cast(const std::optional<T>& value) {
    if (value) return Inner::cast(*value);
    Py_RETURN_NONE;
  }
};

// The items of a sequence as a list or tuple (a new reference). Null for other objects, and for strings and tensors.
inline PyObject* items(PyObject* object) {
  if (!PySequence_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object) || is_tensor(object))
    return nullptr;
  PyObject* fast = PySequence_Fast(object, "");
  if (!fast) PyErr_Clear();
  return fast;
}
template <class T>
struct Convert<std::vector<T>> : ByValue<std::vector<T>> {
  using Inner = Convert<T>;
  static std::string name() { return "List[" + Inner::name() + "]"; }
  static bool load(PyObject* object, std::vector<T>& held) {
    PyObject* sequence = items(object);
    if (!sequence) return false;
    bool good = true;
    for (Py_ssize_t i = 0; good && i < PySequence_Fast_GET_SIZE(sequence); i++) {
      typename Inner::Held item{};
      good = Inner::load(PySequence_Fast_GET_ITEM(sequence, i), item);
      if (good) held.push_back(Inner::get(item));
    }
    Py_DECREF(sequence);
    return good;
  }
  static PyObject* cast(const std::vector<T>& value) {
    PyObject* list = PyList_New(value.size());
    for (size_t i = 0; i < value.size(); i++) PyList_SET_ITEM(list, i, Inner::cast(value[i]));
    return list;
  }
};
template <class T>
struct Convert<c10::ArrayRef<T>> : Convert<std::vector<T>> {
  static c10::ArrayRef<T> get(std::vector<T>& held) { return held; }
  static PyObject* cast(c10::ArrayRef<T> value) { return Convert<std::vector<T>>::cast(value.vec()); }
};

template <class Tuple, size_t... I>
PyObject* cast_tuple(const Tuple& value, std::index_sequence<I...>) {
  PyObject* tuple = PyTuple_New(sizeof...(I));
  (PyTuple_SET_ITEM(tuple, I, (Convert<std::decay_t<std::tuple_element_t<I, Tuple>>>::cast(std::get<I>(value)))), ...);
  return tuple;
}
template <class Tuple, size_t... I>
bool load_tuple(PyObject* object, Tuple& held, std::index_sequence<I...>) {
  PyObject* sequence = items(object);
  if (!sequence) return false;
  auto one = [&](auto index) {
    using T = std::tuple_element_t<index, Tuple>;
    typename Convert<T>::Held item{};
    if (!Convert<T>::load(PySequence_Fast_GET_ITEM(sequence, index), item)) return false;
    std::get<index>(held) = Convert<T>::get(item);
    return true;
  };
  const bool good =
      PySequence_Fast_GET_SIZE(sequence) == sizeof...(I) && (one(std::integral_constant<size_t, I>{}) && ...);
  Py_DECREF(sequence);
  return good;
}
template <class Tuple, size_t size>
struct ConvertTuple : ByValue<Tuple> {
  using Index = std::make_index_sequence<size>;
  static std::string name() { return names(Index{}); }
  static bool load(PyObject* object, Tuple& held) { return load_tuple(object, held, Index{}); }
  static PyObject* cast(const Tuple& value) { return cast_tuple(value, Index{}); }

 private:
  template <size_t... I>
  static std::string names(std::index_sequence<I...>) {
    std::string text;
    ((text += (I ? ", " : "Tuple[") + Convert<std::decay_t<std::tuple_element_t<I, Tuple>>>::name()), ...);
    return text + "]";
  }
};
template <class... T>
struct Convert<std::tuple<T...>> : ConvertTuple<std::tuple<T...>, sizeof...(T)> {};
template <class A, class B>
struct Convert<std::pair<A, B>> : ConvertTuple<std::pair<A, B>, 2> {};
template <class T, size_t size>
struct Convert<std::array<T, size>> : ConvertTuple<std::array<T, size>, size> {};
}  // namespace warpwise_host
