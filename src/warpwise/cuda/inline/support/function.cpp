// Python functions implemented by C++ overloads: matches positional and keyword arguments and defaults, and translates
// C++ exceptions to Python's.
#include <warpwise_host/function.h>

#include <c10/util/Exception.h>

#include <map>
#include <memory>
#include <new>

namespace warpwise_host {
namespace {
struct Function {
  std::string name, doc;
  std::vector<Overload> overloads;
  PyMethodDef method{};
};
constexpr const char* kCapsule = "warpwise.cuda.inline.function";

std::string signature(const Function& function, const Overload& overload) {
  std::string text = "(";
  for (const Parameter& parameter : overload.parameters) {
    if (text.size() > 1) text += ", ";
    text += parameter.name + ": " + parameter.type;
    if (!parameter.value) continue;
    PyObject* shown = PyObject_Repr(parameter.value);
    const char* value = shown ? PyUnicode_AsUTF8(shown) : nullptr;
    text += std::string(" = ") + (value ? value : "...");
    Py_XDECREF(shown);
    PyErr_Clear();
  }
  return text + ") -> " + overload.result;
}

void update_doc(Function& function, const char* text) {
  std::string all;
  for (const Overload& overload : function.overloads) all += function.name + signature(function, overload) + "\n";
  if (text && *text) all += std::string("\n") + text + "\n";
  function.doc = all;
  function.method.ml_doc = function.doc.c_str();
}

// Fills `arguments` with borrowed references in the order of the parameters. Returns false if this overload does not
// accept the number or the names of the arguments.
bool match_arguments(const Overload& overload, PyObject* args, PyObject* named, std::vector<PyObject*>& arguments) {
  const Py_ssize_t count = PyTuple_GET_SIZE(args), names = named ? PyDict_GET_SIZE(named) : 0;
  if (count + names > Py_ssize_t(overload.parameters.size())) return false;
  Py_ssize_t used = 0;
  for (Py_ssize_t i = 0; i < Py_ssize_t(overload.parameters.size()); i++) {
    const Parameter& parameter = overload.parameters[i];
    PyObject* by_name = names ? PyDict_GetItemString(named, parameter.name.c_str()) : nullptr;
    if (i < count && by_name) return false;
    if (by_name) used++;
    PyObject* object = i < count ? PyTuple_GET_ITEM(args, i) : by_name ? by_name : parameter.value;
    if (!object) return false;
    arguments.push_back(object);
  }
  return used == names;
}

void mismatch(const Function& function, PyObject* args, PyObject* named) {
  std::string text = function.name + "(): incompatible function arguments. The following argument types are supported:";
  for (size_t i = 0; i < function.overloads.size(); i++) {
    text += "\n    " + std::to_string(i + 1) + ". " + signature(function, function.overloads[i]);
  }
  text += "\n\nInvoked with types:";
  const char* comma = " ";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); i++) {
    text += comma + std::string(Py_TYPE(PyTuple_GET_ITEM(args, i))->tp_name);
    comma = ", ";
  }
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (named && PyDict_Next(named, &position, &key, &value)) {
    const char* name = PyUnicode_AsUTF8(key);
    text += comma + std::string(name ? name : "?") + ": " + Py_TYPE(value)->tp_name;
    comma = ", ";
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
}

PyObject* raise(PyObject* type, const char* text) {
  PyErr_SetString(type, text);
  return nullptr;
}

PyObject* run(Function& function, PyObject* args, PyObject* named) {
  for (Overload& overload : function.overloads) {
    std::vector<PyObject*> arguments;
    if (!match_arguments(overload, args, named, arguments)) continue;
    arguments.push_back(nullptr);
    PyObject* result = overload.call(arguments.data());
    if (result || PyErr_Occurred()) return result;
  }
  mismatch(function, args, named);
  return nullptr;
}

// Calls the function. Translates the exceptions of PyTorch and the C++ library as PyTorch's own bindings do.
PyObject* call(PyObject* self, PyObject* args, PyObject* named) {
  auto* function = static_cast<Function*>(PyCapsule_GetPointer(self, kCapsule));
  if (!function) return nullptr;
  try {
    return run(*function, args, named);
  } catch (const python_error&) {
    return nullptr;
  } catch (const c10::IndexError& error) {
    return raise(PyExc_IndexError, error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    return raise(PyExc_ValueError, error.what_without_backtrace());
  } catch (const c10::TypeError& error) {
    return raise(PyExc_TypeError, error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    return raise(PyExc_NotImplementedError, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return raise(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    return raise(PyExc_MemoryError, error.what());
  } catch (const std::exception& error) {
    return raise(PyExc_RuntimeError, error.what());
  }
}

PyCFunction as_method(PyObject* (*function)(PyObject*, PyObject*, PyObject*)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}
}  // namespace

void define(PyObject* owner, const char* name, const char* doc, Overload overload) {
  if (PyObject_HasAttrString(owner, name)) {
    PyObject* existing = PyObject_GetAttrString(owner, name);
    PyObject* self = existing && PyCFunction_Check(existing) ? PyCFunction_GET_SELF(existing) : nullptr;
    auto* function = self ? static_cast<Function*>(PyCapsule_GetPointer(self, kCapsule)) : nullptr;
    Py_XDECREF(existing);
    if (!function) throw python_error();
    function->overloads.push_back(std::move(overload));
    update_doc(*function, doc);
    return;
  }
  auto* function = new Function{name, "", {}, {}};  // never freed: extension modules are not unloaded
  function->overloads.push_back(std::move(overload));
  function->method = {function->name.c_str(), as_method(call), METH_VARARGS | METH_KEYWORDS, ""};
  update_doc(*function, doc);
  PyObject* self = PyCapsule_New(function, kCapsule, nullptr);
  PyObject* module_name = PyModule_GetNameObject(owner);
  PyObject* made = self ? PyCFunction_NewEx(&function->method, self, module_name) : nullptr;
  Py_XDECREF(self);
  Py_XDECREF(module_name);
  if (!made || PyModule_AddObject(owner, name, made) != 0) throw python_error();
}

PyObject* make_module(const char* name, void (*fill)(PyObject*)) {
  auto* definition =
      new PyModuleDef{PyModuleDef_HEAD_INIT, name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  PyObject* made = PyModule_Create(definition);
  if (!made) return nullptr;
  try {
    fill(made);
    return made;
  } catch (const python_error&) {
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ImportError, error.what());
  }
  Py_DECREF(made);
  return nullptr;
}
}  // namespace warpwise_host
