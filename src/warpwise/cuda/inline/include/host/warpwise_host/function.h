// A Python function implemented by C++ overloads. The parts that are not templates are compiled once, in the support
// library (function.cpp).
#pragma once
#include <Python.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace warpwise_host {
// Thrown when a Python exception is already set.
struct python_error : std::runtime_error {
  python_error() : std::runtime_error("a Python exception is set") {}
};

struct Parameter {
  std::string name, type;
  PyObject* value = nullptr;  // the default: an owned reference that is never released
};

// Takes one object per parameter. Returns null, without an exception set, if an object does not convert.
using Call = std::function<PyObject*(PyObject* const*)>;

struct Overload {
  std::vector<Parameter> parameters;
  std::string result;
  Call call;
};

// Adds an overload to the function `name` of the module `owner`; creates the function if necessary.
void define(PyObject* owner, const char* name, const char* doc, Overload overload);
PyObject* make_module(const char* name, void (*fill)(PyObject*));
}  // namespace warpwise_host
