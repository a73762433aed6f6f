// Recorded launches, repeated for tensors that differ from the recorded ones only by their addresses.
#pragma once
#include <array>
#include <optional>
#include <unordered_map>

#include "values.h"

namespace ww {

// cuLaunchKernelEx, CUlaunchAttribute and CUlaunchConfig of cuda.h.
struct LaunchAttribute {
  unsigned id, padding;
  int value[16];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
using LaunchFunction = int (*)(const LaunchConfig*, void* function, void** parameters, void** extra);

// Python objects that all replays of a process share.
struct Process {
  LaunchFunction launch = nullptr;
  Object raw_stream;      // a function of the device's index: the current stream
  Object current_device;  // a function: the index of the current device
  Object interceptors;    // a list, empty unless launches are intercepted
  Object forward_level;   // a dict whose "_current_level" is the level of forward-mode differentiation, -1 for none
  Object level_name;
  bool in_forward_mode() const {
    PyObject* level = PyDict_GetItemWithError(forward_level.get(), level_name.get());
    return level && PyLong_AsLong(level) >= 0;
  }
  bool intercepted() const { return PyList_GET_SIZE(interceptors.get()) > 0; }
};
extern Process& process;  // never freed: it holds Python objects beyond the end of the interpreter

// A tensor to allocate.
struct Empty {
  std::vector<int64_t> size, stride;
  at::TensorOptions options;
  explicit Empty(PyObject* described);  // an object with size, stride, dtype and device
  at::Tensor make() const;
};

struct Pointer {
  size_t slot;    // index of the parameter, or its offset in bytes in the block of parameters
  size_t tensor;  // index of the address
  int64_t shift;  // in bytes
};

// One launch of a recording.
class Step {
 public:
  virtual ~Step() = default;
  // False if the kernel must be launched by the Python code that was recorded.
  virtual bool ready() const { return true; }
  // Launches; returns the CUresult. Throws PythonError.
  virtual int launch(const std::vector<uint64_t>& addresses, PyObject* stream, PyObject* const* scalars) = 0;
  virtual int visit(visitproc, void*) { return 0; }
};

PyTypeObject* replay_type();

}  // namespace ww
