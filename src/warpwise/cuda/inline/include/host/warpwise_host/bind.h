// A subset of pybind11: PYBIND11_MODULE and m.def(name, function, doc, py::arg("x") = 1). It compiles one second faster
// than pybind11. Code that needs more fails to compile with WARPWISE_NOT_LIGHT, or with "is not a member of pybind11";
// the extension is then built with the real headers.
#pragma once
#include <warpwise_host/convert.h>
#include <warpwise_host/function.h>

#include <memory>
#include <tuple>
#include <utility>

namespace warpwise_host {
template <class F>
struct signature : signature<decltype(&F::operator())> {};
template <class R, class... A>
struct signature<R (*)(A...)> {
  using result = R;
  using arguments = std::tuple<A...>;
};
template <class R, class... A>
struct signature<R (*)(A...) noexcept> : signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct signature<R (C::*)(A...)> : signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct signature<R (C::*)(A...) const> : signature<R (*)(A...)> {};

template <class R, class... A, class F, size_t... I>
PyObject* call(F& function, PyObject* const* objects, std::tuple<A...>*, std::index_sequence<I...>) {
  std::tuple<typename Convert<std::decay_t<A>>::Held...> held;
  if (!(Convert<std::decay_t<A>>::load(objects[I], std::get<I>(held)) && ...)) return nullptr;
  if constexpr (std::is_void_v<R>) {
    function(static_cast<A>(Convert<std::decay_t<A>>::get(std::get<I>(held)))...);
    Py_RETURN_NONE;
  } else {
    return Convert<std::decay_t<R>>::cast(
        function(static_cast<A>(Convert<std::decay_t<A>>::get(std::get<I>(held)))...));
  }
}

template <class R, class... A>
std::vector<Parameter> parameters(std::tuple<A...>*) {
  std::vector<Parameter> made;
  (made.push_back({"arg" + std::to_string(made.size()), Convert<std::decay_t<A>>::name(), nullptr}), ...);
  return made;
}
}  // namespace warpwise_host

namespace pybind11 {
struct none {};
struct arg {
  explicit arg(const char* name) : name(name) {}
  template <class T>
  arg operator=(const T& given) const {
    arg filled(name);
    filled.value = warpwise_host::Convert<std::decay_t<const T>>::cast(given);
    return filled;
  }
  arg operator=(none) const { return with(Py_None); }
  arg operator=(std::nullopt_t) const { return with(Py_None); }
  arg& noconvert(bool = true) { return *this; }
  const char* name;
  PyObject* value = nullptr;

 private:
  arg with(PyObject* object) const {
    arg filled(name);
    Py_INCREF(object);
    filled.value = object;
    return filled;
  }
};
namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

struct gil_scoped_release {
  gil_scoped_release() : state(PyEval_SaveThread()) {}
  ~gil_scoped_release() { PyEval_RestoreThread(state); }
  gil_scoped_release(const gil_scoped_release&) = delete;
  PyThreadState* state;
};
struct gil_scoped_acquire {
  gil_scoped_acquire() : state(PyGILState_Ensure()) {}
  ~gil_scoped_acquire() { PyGILState_Release(state); }
  gil_scoped_acquire(const gil_scoped_acquire&) = delete;
  PyGILState_STATE state;
};
template <class Guard>
struct call_guard {};

class module_ {
 public:
  explicit module_(PyObject* object) : object(object) {}
  PyObject* ptr() const { return object; }

  template <class F, class... Extra>
  module_& def(const char* name, F&& function, const Extra&... extra) {
    using Signature = warpwise_host::signature<std::decay_t<F>>;
    using Result = typename Signature::result;
    using Arguments = typename Signature::arguments;
    warpwise_host::Overload overload;
    overload.parameters = warpwise_host::parameters<Result>(static_cast<Arguments*>(nullptr));
    overload.result = warpwise_host::Convert<std::decay_t<Result>>::name();
    const char* doc = "";
    size_t named = 0;
    (describe(extra, overload, named, doc), ...);
    overload.call = [function = std::decay_t<F>(std::forward<F>(function))](PyObject* const* objects) mutable {
      return warpwise_host::call<Result>(function, objects, static_cast<Arguments*>(nullptr),
                                         std::make_index_sequence<std::tuple_size_v<Arguments>>{});
    };
    (guard(extra, overload), ...);
    warpwise_host::define(object, name, doc, std::move(overload));
    return *this;
  }

  // m.doc() = "..."
  struct Doc {
    PyObject* object;
    void operator=(const char* text) { PyModule_SetDocString(object, text); }
  };
  Doc doc() { return {object}; }

 private:
  static void describe(const char* text, warpwise_host::Overload&, size_t&, const char*& doc) { doc = text; }
  static void describe(const arg& given, warpwise_host::Overload& overload, size_t& named, const char*&) {
    warpwise_host::Parameter& parameter = overload.parameters.at(named++);
    parameter.name = given.name;
    parameter.value = given.value;
  }
  template <class Guard>
  static void describe(call_guard<Guard>, warpwise_host::Overload&, size_t&, const char*&) {}
  template <class Other>
  static void guard(const Other&, warpwise_host::Overload&) {}
  template <class Guard>
  static void guard(call_guard<Guard>, warpwise_host::Overload&) {
    static_assert(!sizeof(Guard), "WARPWISE_NOT_LIGHT: call_guard");
  }

  PyObject* object;
};
using module = module_;
}  // namespace pybind11
namespace py = pybind11;

namespace torch {
template <class F>
F&& wrap_pybind_function(F&& function) {
  return std::forward<F>(function);
}
}  // namespace torch

#define WW_JOIN_(a, b) a##b
#define WW_JOIN(a, b) WW_JOIN_(a, b)
#define WW_TEXT_(a) #a
#define WW_TEXT(a) WW_TEXT_(a)
#define PYBIND11_MODULE(name, variable, ...)                                             \
  static void WW_JOIN(ww_fill_, name)(pybind11::module_&);                               \
  extern "C" __attribute__((visibility("default"))) PyObject* WW_JOIN(PyInit_, name)() { \
    return warpwise_host::make_module(WW_TEXT(name), [](PyObject* made) {                \
      pybind11::module_ bound(made);                                                     \
      WW_JOIN(ww_fill_, name)(bound);                                                    \
    });                                                                                  \
  }                                                                                      \
  void WW_JOIN(ww_fill_, name)([[maybe_unused]] pybind11::module_ & variable)
