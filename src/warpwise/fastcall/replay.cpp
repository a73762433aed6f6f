#include "replay.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/record_function.h>

#include <cstring>
#include <memory>

namespace ww {

Process& process = *new Process();

Empty::Empty(PyObject* described)
    : size(integers(attribute(described, "size").get())), stride(integers(attribute(described, "stride").get())) {
  const Object dtype = attribute(described, "dtype"), device = attribute(described, "index");
  const int64_t index = integer(device.get());
  options = at::TensorOptions()
                .dtype(reinterpret_cast<THPDtype*>(dtype.get())->scalar_type)
                .device(index < 0 ? at::Device(at::kCPU) : at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index)));
}

at::Tensor Empty::make() const { return at::empty_strided(size, stride, options); }

namespace {

constexpr size_t kMapBytes = 128, kMaps = 256, kMaxParameters = 256, kMaxParameterBytes = 4096;

std::vector<Pointer> pointers_of(PyObject* listed) {
  std::vector<Pointer> pointers;
  for_each(listed, [&](PyObject* one) {
    const auto values = integers(one);
    pointers.push_back({static_cast<size_t>(values.at(0)), static_cast<size_t>(values.at(1)), values.at(2)});
  });
  return pointers;
}

template <class Value>
void write(char* to, Value value) {
  std::memcpy(to, &value, sizeof(Value));
}

// Writes `value` in the form of a struct format.
void pack(char* to, char code, PyObject* value) {
  if (code == 'f' || code == 'd') {
    const double number = PyFloat_AsDouble(value);
    if (number == -1 && PyErr_Occurred()) throw PythonError();
    code == 'f' ? write(to, static_cast<float>(number)) : write(to, number);
    return;
  }
  const uint64_t bits = code == 'Q' ? PyLong_AsUnsignedLongLong(value) : static_cast<uint64_t>(integer(value));
  if (PyErr_Occurred()) throw PythonError();
  std::memcpy(to, &bits, code == 'q' || code == 'Q' ? 8 : 4);
}

// A CUDA kernel with its grid and its parameters, in which a replay writes the addresses, tensor maps and scalars.
class KernelStep : public Step {
 public:
  explicit KernelStep(PyObject* described)
      : function_(reinterpret_cast<void*>(integer(attribute(described, "function").get()))),
        constants_(attribute(described, "constants")),
        pointers_(pointers_of(attribute(described, "pointers").get())) {
    const auto shape = integers(attribute(described, "shape").get());
    for (int axis = 0; axis < 3; axis++) {
      config_.grid[axis] = static_cast<unsigned>(shape.at(axis));
      config_.block[axis] = static_cast<unsigned>(shape.at(3 + axis));
    }
    config_.shared_bytes = static_cast<unsigned>(shape.at(6));
    if ((attribute_.id = static_cast<unsigned>(integer(attribute(described, "attribute").get())))) {
      config_.attributes = &attribute_;
      config_.attribute_count = 1;
    }
    for (const int64_t offset : integers(attribute(described, "offsets").get())) offsets_.push_back(offset);
    const Object memory = attribute(described, "memory");
    memory_.assign(PyBytes_AS_STRING(memory.get()), PyBytes_AS_STRING(memory.get()) + PyBytes_GET_SIZE(memory.get()));
    for_each(attribute(described, "maps").get(),
             [&](PyObject* one) { maps_.push_back({pointer(one), Object::borrowed(PyTuple_GetItem(one, 3)), {}}); });
    for_each(attribute(described, "scalars").get(), [&](PyObject* one) {
      scalars_.push_back({static_cast<size_t>(integer(PyTuple_GetItem(one, 0))),
                          static_cast<size_t>(integer(PyTuple_GetItem(one, 1))),
                          Object::borrowed(PyTuple_GetItem(one, 2)), PyUnicode_AsUTF8(PyTuple_GetItem(one, 3))[0]});
    });
    if (memory_.size() > kMaxParameterBytes || offsets_.size() > kMaxParameters)
      throw std::length_error("too many parameters");
  }

  // Constants that were set after the recording must be copied to the device.
  bool ready() const override { return !PyDict_GET_SIZE(constants_.get()); }

  int launch(const std::vector<uint64_t>& addresses, PyObject* stream, PyObject* const* scalars) override {
    alignas(64) char block[kMaxParameterBytes];
    std::memcpy(block, memory_.data(), memory_.size());
    for (const Pointer& each : pointers_) write(block + each.slot, addresses[each.tensor] + each.shift);
    for (Map& each : maps_)
      std::memcpy(block + each.place.slot, each.of(addresses[each.place.tensor] + each.place.shift), kMapBytes);
    for (const Scalar& each : scalars_)
      pack(block + each.offset, each.code,
           Object::owned(checked(PyObject_CallOneArg(each.bind.get(), scalars[each.index]))).get());
    void* table[kMaxParameters];
    for (size_t i = 0; i < offsets_.size(); i++) table[i] = block + offsets_[i];
    LaunchConfig config = config_;
    config.stream = reinterpret_cast<void*>(PyLong_AsUnsignedLongLong(stream));
    int code;
    Py_BEGIN_ALLOW_THREADS;
    code = process.launch(&config, function_, table, nullptr);
    Py_END_ALLOW_THREADS;
    return code;
  }

  int visit(visitproc visit, void* arg) override {
    Py_VISIT(constants_.get());
    for (const Map& each : maps_) Py_VISIT(each.make.get());
    for (const Scalar& each : scalars_) Py_VISIT(each.bind.get());
    return 0;
  }

 private:
  struct Map {
    Pointer place;
    Object make;  // a mapping from an address to the bytes of a tensor map
    std::unordered_map<uint64_t, std::array<char, kMapBytes>> made;
    const char* of(uint64_t address) {
      if (const auto found = made.find(address); found != made.end()) return found->second.data();
      const Object number = Object::owned(checked(PyLong_FromUnsignedLongLong(address)));
      const Object bytes = Object::owned(checked(PyObject_GetItem(make.get(), number.get())));
      if (made.size() >= kMaps) made.clear();
      auto& kept = made[address];
      std::memcpy(kept.data(), PyBytes_AS_STRING(bytes.get()), kMapBytes);
      return kept.data();
    }
  };
  struct Scalar {
    size_t offset, index;
    Object bind;  // checks and converts the value
    char code;    // a struct format
  };
  static Pointer pointer(PyObject* one) {
    return {static_cast<size_t>(integer(PyTuple_GetItem(one, 0))),
            static_cast<size_t>(integer(PyTuple_GetItem(one, 1))), integer(PyTuple_GetItem(one, 2))};
  }

  void* function_;
  Object constants_;
  LaunchAttribute attribute_{0, 0, {1}};
  LaunchConfig config_{};
  std::vector<size_t> offsets_;
  std::vector<char> memory_;
  std::vector<Pointer> pointers_;
  std::vector<Map> maps_;
  std::vector<Scalar> scalars_;
};

// A launch by a Python function of the stream and the values of all parameters.
class FunctionStep : public Step {
 public:
  explicit FunctionStep(PyObject* described)
      : function_(attribute(described, "function")),
        values_(attribute(described, "values")),
        pointers_(pointers_of(attribute(described, "pointers").get())) {
    for_each(attribute(described, "scalars").get(), [&](PyObject* one) {
      scalars_.push_back({static_cast<size_t>(integer(PyTuple_GetItem(one, 0))),
                          static_cast<size_t>(integer(PyTuple_GetItem(one, 1))),
                          Object::borrowed(PyTuple_GetItem(one, 2))});
    });
  }
  int launch(const std::vector<uint64_t>& addresses, PyObject* stream, PyObject* const* scalars) override {
    const Object values = Object::owned(checked(PyList_GetSlice(values_.get(), 0, PY_SSIZE_T_MAX)));
    for (const Pointer& each : pointers_)
      PyList_SetItem(values.get(), each.slot,
                     checked(PyLong_FromUnsignedLongLong(addresses[each.tensor] + each.shift)));
    for (const Scalar& each : scalars_)
      PyList_SetItem(values.get(), each.slot, checked(PyObject_CallOneArg(each.bind.get(), scalars[each.index])));
    PyObject* given[] = {stream, values.get()};
    Object::owned(checked(PyObject_Vectorcall(function_.get(), given, 2, nullptr)));
    return 0;
  }
  int visit(visitproc visit, void* arg) override {
    Py_VISIT(function_.get());
    Py_VISIT(values_.get());
    for (const Scalar& each : scalars_) Py_VISIT(each.bind.get());
    return 0;
  }

 private:
  struct Scalar {
    size_t slot, index;
    Object bind;
  };
  Object function_, values_;
  std::vector<Pointer> pointers_;
  std::vector<Scalar> scalars_;
};

struct Replay {
  int64_t device = -1;
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<std::optional<Empty>> outputs;  // absent ones are None
  std::vector<size_t> filled;                 // outputs with elements, whose addresses come first
  struct Place {
    size_t at;    // of a tensor among the arguments
    bool copied;  // the launches read a contiguous copy
  };
  std::vector<Place> places;
  std::vector<size_t> varying;  // the varying scalars among the arguments
  struct Room {                 // memory that the launches use
    std::optional<Empty> empty;
    Object make;  // a function that returns a tensor, if `empty` is absent
  };
  std::vector<Room> rooms;
  Object launch;  // the Python function that launches without the recording

  PyObject* call(PyObject* const* args, size_t flags, PyObject* names) const;
  int visit(visitproc visit, void* arg) const {
    for (const auto& step : steps)
      if (const int stop = step->visit(visit, arg)) return stop;
    for (const auto& room : rooms) Py_VISIT(room.make.get());
    Py_VISIT(launch.get());
    return 0;
  }
};

constexpr uint64_t kAlignment = 255;  // a launcher may depend on an address modulo 256 bytes, on nothing else of it

// The result of a replay, or no object if the recording does not apply to these arguments.
Object replayed(const Replay& own, PyObject* const* args, bool plain) {
  if (process.intercepted() || (!plain && process.in_forward_mode()) || at::hasCallbacks()) return Object();
  for (const auto& step : own.steps)
    if (!step->ready()) return Object();
  std::vector<uint64_t> addresses;
  addresses.reserve(own.outputs.size() + own.places.size() + own.rooms.size());
  std::vector<at::Tensor> outputs(own.outputs.size()), rooms, copies;
  for (size_t i = 0; i < outputs.size(); i++)
    if (own.outputs[i]) outputs[i] = own.outputs[i]->make();
  for (const size_t at : own.filled) {
    addresses.push_back(reinterpret_cast<uint64_t>(outputs[at].mutable_data_ptr()));
    if (own.device >= 0 && addresses.back() & kAlignment) return Object();
  }
  const Object device = Object::owned(checked(PyObject_CallNoArgs(process.current_device.get())));
  if (integer(device.get()) != own.device) return Object();
  for (const auto& [at, copied] : own.places) {
    const at::Tensor& tensor = THPVariable_Unpack(args[at]);
    if (tensor.is_neg() || tensor.is_conj()) return Object();
    if (copied) {
      const at::AutoDispatchBelowADInplaceOrView below;
      copies.push_back(tensor.contiguous());
    }
    addresses.push_back(reinterpret_cast<uint64_t>((copied ? copies.back() : tensor).mutable_data_ptr()));
    if (copied && own.device >= 0 && addresses.back() & kAlignment) return Object();
  }
  for (const auto& room : own.rooms) {
    if (room.empty) {
      rooms.push_back(room.empty->make());
    } else {
      const Object made = Object::owned(checked(PyObject_CallNoArgs(room.make.get())));
      rooms.push_back(THPVariable_Unpack(made.get()));
    }
    addresses.push_back(reinterpret_cast<uint64_t>(rooms.back().mutable_data_ptr()));
  }
  const Object stream = Object::owned(checked(PyObject_CallOneArg(process.raw_stream.get(), device.get())));
  std::array<PyObject*, 32> scalars;
  for (size_t i = 0; i < own.varying.size(); i++) scalars[i] = args[own.varying[i]];
  for (const auto& step : own.steps)
    if (step->launch(addresses, stream.get(), scalars.data())) return Object();
  if (outputs.size() == 1 && outputs[0].defined()) return Object::owned(THPVariable_Wrap(std::move(outputs[0])));
  Object made = Object::owned(checked(PyTuple_New(outputs.size())));
  for (size_t i = 0; i < outputs.size(); i++)
    PyTuple_SET_ITEM(made.get(), i,
                     outputs[i].defined() ? checked(THPVariable_Wrap(std::move(outputs[i]))) : Py_NewRef(Py_None));
  return outputs.empty() ? Object::borrowed(Py_None) : std::move(made);
}

PyObject* Replay::call(PyObject* const* args, size_t flags, PyObject* names) const {
  try {
    if (Object made = replayed(*this, args, flags & kChecked)) return made.release();
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::exception&) {  // the launch below raises the error, such as no memory
  }
  return PyObject_Vectorcall(launch.get(), args, flags & ~(PY_VECTORCALL_ARGUMENTS_OFFSET | kChecked), names);
}

std::vector<size_t> indices(PyObject* iterable) {
  const auto values = integers(iterable);
  return {values.begin(), values.end()};
}

PyObject* new_replay(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *steps, *outputs, *filled, *rooms, *places, *varying, *launch;
  long long device;
  if (!PyArg_ParseTuple(args, "LOOOOOOO", &device, &steps, &outputs, &filled, &rooms, &places, &varying, &launch))
    return nullptr;
  auto content = std::make_unique<Replay>();
  try {
    content->device = device;
    for_each(steps, [&](PyObject* one) {
      if (PyObject_HasAttrString(one, "memory"))
        content->steps.push_back(std::make_unique<KernelStep>(one));
      else
        content->steps.push_back(std::make_unique<FunctionStep>(one));
    });
    for_each(outputs, [&](PyObject* one) {
      content->outputs.push_back(one == Py_None ? std::nullopt : std::optional<Empty>(Empty(one)));
    });
    for_each(rooms, [&](PyObject* one) {
      const bool plain = PyObject_HasAttrString(one, "stride");
      content->rooms.push_back({plain ? std::optional<Empty>(Empty(one)) : std::nullopt, Object::borrowed(one)});
    });
    content->filled = indices(filled);
    for_each(places, [&](PyObject* one) {
      const auto values = integers(one);
      content->places.push_back({static_cast<size_t>(values.at(0)), values.at(1) != 0});
    });
    content->varying = indices(varying);
    content->launch = Object::borrowed(launch);
    if (content->varying.size() > 32) throw std::length_error("too many varying scalars");
  } catch (const PythonError&) {
    return nullptr;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
    return nullptr;
  }
  return Callable<Replay>::make(type, std::move(content));
}

PyTypeObject type_of_replay = Callable<Replay>::type(
    "warpwise.fastcall.Replay", "Recorded launches as a function of the arguments of an operation.", new_replay);

}  // namespace

PyTypeObject* replay_type() { return &type_of_replay; }

}  // namespace ww
