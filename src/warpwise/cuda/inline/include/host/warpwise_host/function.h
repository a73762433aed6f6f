// A Python function made of C++ overloads. The part that needs no template is compiled once, in the support library.
#pragma once
#include <Python.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace warpwise_host {
// Thrown where a Python error is already set.
struct python_error : std::runtime_error {
  python_error() : std::runtime_error("a Python error is set") {}
};

struct Parameter {
  std::string name, type;
  PyObject* value = nullptr;  // its default, owned for ever
};

// Takes one object a parameter; returns null without an error set where an object does not convert.
using Call = std::function<PyObject*(PyObject* const*)>;

struct Overload {
  std::vector<Parameter> parameters;
  std::string result;
  Call call;
};

// Adds an overload to the function `name` of `owner` (a module), making the function if it is not there.
void define(PyObject* owner, const char* name, const char* doc, Overload overload);
PyObject* make_module(const char* name, void (*fill)(PyObject*));
}  // namespace warpwise_host
