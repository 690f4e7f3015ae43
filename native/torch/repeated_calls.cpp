// repeated_calls.cpp: operations on tt tensors whose arguments are like those of a call before, without Python's way.
//
// Built by codegen/torch_calls.py, loaded by graph_runtime/torch/native_calls.py; without it the same calls take the Python way (eager.py, writes.py). There is
// one cache: what Python remembers of a call, a Ready, it tells here (`keep`), and here it is found by a signature
// that is read from torch's own tensors. What is not found, or cannot be done, goes to the kernel below, which is
// Python's. Values, lifetimes and counters are Python's in both ways: `Ready.adopt` takes over what was launched.
//
// All state is under Python's lock (the GIL), which a submission alone gives up.
#include <Python.h>
#include <structmember.h>

#include <ATen/DLConvertor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#define _Static_assert static_assert  // of C, in the headers
extern "C" {
#include "gr_async.h"
#include "gr_handles.h"
}

namespace {

namespace py = pybind11;
using torch::jit::Stack;

// The error that Python has set, for torch to hand on.
[[noreturn]] void raise() {
  python_error error;
  error.persist();
  throw error;
}

constexpr size_t kMostInputs = 3;       // of gr_submit_op
constexpr size_t kMostEntries = 4096;   // of one operation
constexpr int32_t kMostCollected = 256;

// **************** what Python hands over once ****************

// Where objects of a class with __slots__ have one of them.
class Slot {
 public:
  Slot() = default;
  Slot(const py::handle& type, const char* name) {
    py::object found = type.attr(name);
    if (Py_TYPE(found.ptr()) != &PyMemberDescr_Type) throw py::type_error(std::string("no slot ") + name);
    offset_ = reinterpret_cast<PyMemberDescrObject*>(found.ptr())->d_member->offset;
  }
  // Borrowed; None where it is not set.
  PyObject* of(PyObject* object) const {
    PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset_);
    return value ? value : Py_None;
  }

 private:
  Py_ssize_t offset_ = 0;
};

struct Runtime {
  py::object stores, lock;                    // store.py: {address: Store}, and what guards addresses
  PyTypeObject *tensor, *buffer;
  Slot base, dtype;                           // of a Store
  Slot spec, owner;                           // of a Tensor
  Slot pointer;                               // of a Buffer
  py::object pointer_type;                    // cffi's "gr_buffer *"
  char* (*to_pointer)(PyObject*, PyObject*);  // cffi's, as the modules that it generates use them
  PyObject* (*from_pointer)(char*, PyObject*);
  decltype(&gr_submit_op) submit;
  decltype(&gr_handle_export) export_handle;
  decltype(&gr_handle_address) address_of;
  decltype(&gr_handle_drop) drop;
  decltype(&gr_handles_collect) collect;
};

Runtime* runtime = nullptr;  // until the process ends, as all here: kernels may be called at any time

// **************** signatures ****************

using Words = c10::SmallVector<uint64_t, 64>;

enum Tag : uint64_t { kDevice = 1, kNumber, kUndefined, kNone, kBool, kInt, kDouble, kComplex, kText, kInts, kDoubles };

// What a call is given: its signature, and of its tensors on a device the base and its spec (borrowed, of a moment).
// `written`: position of the argument that is written, whose Store is `target`.
struct Call {
  Words words;
  c10::SmallVector<PyObject*, 4> bases, specs;
  PyObject* target = nullptr;

  bool read(c10::ArrayRef<c10::IValue> arguments, int64_t written);

 private:
  bool argument(const c10::IValue& value, bool written);
  bool tensor(const at::Tensor& value, bool written);
  bool stored(const at::Tensor& value, bool written);
  bool number(const at::Tensor& value);
  void bytes(const void* from, size_t count);
};

bool Call::read(c10::ArrayRef<c10::IValue> arguments, int64_t written) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!argument(arguments[i], static_cast<int64_t>(i) == written)) return false;
  if (bases.empty()) return false;
  // which of them are one: x * x is another call than x * y
  for (size_t i = 1; i < bases.size(); ++i) {
    size_t first = 0;
    while (bases[first] != bases[i]) ++first;
    words.push_back(first);
  }
  return true;
}

bool Call::argument(const c10::IValue& value, bool written) {
  if (value.isTensor()) return tensor(value.toTensor(), written);
  if (value.isNone()) {
    words.push_back(kNone);
  } else if (value.isBool()) {
    words.append({kBool, value.toBool()});
  } else if (value.isInt()) {
    words.append({kInt, static_cast<uint64_t>(value.toInt())});
  } else if (value.isDouble()) {
    double number = value.toDouble();
    words.push_back(kDouble);
    bytes(&number, sizeof number);
  } else if (value.isComplexDouble()) {
    auto number = value.toComplexDouble();
    words.push_back(kComplex);
    bytes(&number, sizeof number);
  } else if (value.isString()) {
    const std::string& text = value.toStringRef();
    words.append({kText, text.size()});
    bytes(text.data(), text.size());
  } else if (value.isIntList()) {
    auto numbers = value.toIntVector();
    words.append({kInts, numbers.size()});
    words.append(numbers.begin(), numbers.end());
  } else if (value.isDoubleList()) {
    auto numbers = value.toDoubleVector();
    words.append({kDoubles, numbers.size()});
    bytes(numbers.data(), numbers.size() * sizeof(double));
  } else {
    return false;
  }
  return true;
}

void Call::bytes(const void* from, size_t count) {
  size_t at = words.size();
  words.resize(at + (count + 7) / 8, 0);
  std::memcpy(words.data() + at, from, count);
}

bool Call::tensor(const at::Tensor& value, bool written) {
  if (!value.defined()) {
    words.push_back(kUndefined);
    return true;
  }
  if (value.device().is_privateuseone()) return stored(value, written);
  return value.device().is_cpu() && number(value);
}

// A tensor that shows all of its storage as it is stored: store.py's `whole`, whose conditions are in the signature.
bool Call::stored(const at::Tensor& value, bool written) {
  if (!value.has_storage() || !value.numel() || value.storage_offset() || !value.is_contiguous() || value.is_conj() ||
      value.is_neg())
    return false;
  auto address = reinterpret_cast<uint64_t>(value.storage().data());
  py::object key = py::reinterpret_steal<py::object>(PyLong_FromUnsignedLongLong(address));
  if (!key) raise();
  PyObject* store = PyDict_GetItemWithError(runtime->stores.ptr(), key.ptr());
  if (!store) {
    if (PyErr_Occurred()) raise();
    return false;
  }
  PyObject* base = runtime->base.of(store);
  if (Py_TYPE(base) != runtime->tensor) return false;
  PyObject* spec = runtime->spec.of(base);
  if (spec == Py_None) return false;
  words.append({kDevice, static_cast<uint64_t>(value.scalar_type()),
                reinterpret_cast<uint64_t>(runtime->dtype.of(store)), reinterpret_cast<uint64_t>(spec),
                static_cast<uint64_t>(value.dim())});
  words.append(value.sizes().begin(), value.sizes().end());
  bases.push_back(base);
  specs.push_back(spec);
  if (written) target = store;
  return true;
}

// A tensor of the CPU without dimensions is a number.
bool Call::number(const at::Tensor& value) {
  if (value.dim() || value.layout() != at::kStrided || !value.has_storage() || value.is_conj() || value.is_neg())
    return false;
  words.append({kNumber, static_cast<uint64_t>(value.scalar_type()), value.unsafeGetTensorImpl()->is_wrapped_number()});
  bytes(value.const_data_ptr(), value.element_size());
  return true;
}

uint64_t hash_of(const Words& words) {
  uint64_t hash = words.size();
  for (uint64_t word : words) {
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 29;
  }
  return hash;
}

// **************** what is remembered ****************

struct Input {
  int64_t given;          // number among the call's tensors on a device; -1: a constant
  py::object constant;    // its Tensor
  py::object spec;        // as which the launcher takes it
};

// What Python's Ready said of a signature.
struct Entry {
  Words words;
  std::vector<py::object> specs;  // the signature has their addresses
  py::object ready, adopt;        // adopt(gr_buffer *, inputs, the Store that is written or None) -> Store
  gr_template* launched;
  std::vector<Input> inputs;
  int32_t device, code, bits;
  std::vector<int64_t> sizes;
};

class Repeated;

// A call that goes Python's way, where Python may find what it tells `keep`.
struct Missed {
  Repeated* operation;
  const Call* call;
  uint64_t hash;
  std::vector<py::object> specs;
  Missed* outer;
};

thread_local Missed* missed = nullptr;

// One operation, above Python's kernel. It is never deleted: its objects are Python's, which ends before torch does.
class Repeated {
 public:
  Repeated(c10::SafeKernelFunction below, py::object operation, int64_t written)
      : below_(std::move(below)), operation_(std::move(operation)), written_(written) {}

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);
  void remember(Missed& call, const py::object& ready);
  void forget() { entries_.clear(); }
  bool is_of(const py::handle& operation) const { return operation_.is(operation); }

 private:
  std::shared_ptr<Entry> find(const Words& words, uint64_t hash) const;
  bool again(const Entry& entry, const Call& call, size_t arguments, Stack* stack) const;

  c10::SafeKernelFunction below_;
  py::object operation_;
  int64_t written_;  // position of the one argument that is written; -1: the result is new
  std::unordered_multimap<uint64_t, std::shared_ptr<Entry>> entries_;
};

struct Kernel final : public c10::OperatorKernel {
  explicit Kernel(Repeated* operation) : operation(operation) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    operation->call(op, keys, stack);
  }

  Repeated* operation;
};

std::shared_ptr<Entry> Repeated::find(const Words& words, uint64_t hash) const {
  auto [at, end] = entries_.equal_range(hash);
  for (; at != end; ++at)
    if (at->second->words == words) return at->second;
  return nullptr;
}

void Repeated::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  size_t arguments = op.schema().arguments().size();
  Call call;
  Missed now{this, &call, 0, {}, missed};
  {
    py::gil_scoped_acquire gil;
    if (call.read(torch::jit::last(*stack, arguments), written_)) {
      now.hash = hash_of(call.words);
      auto entry = find(call.words, now.hash);
      if (entry && again(*entry, call, arguments, stack)) return;
      for (PyObject* spec : call.specs) now.specs.push_back(py::reinterpret_borrow<py::object>(spec));
    }
  }
  if (now.specs.empty()) {  // no signature, and so nothing to be kept
    below_.callBoxed(op, keys, stack);
    return;
  }
  struct Turn {
    explicit Turn(Missed* now) { missed = now; }
    ~Turn() {
      py::gil_scoped_acquire gil;
      missed->specs.clear();
      missed = missed->outer;
    }
  } turn(&now);
  below_.callBoxed(op, keys, stack);
}

void Repeated::remember(Missed& call, const py::object& ready) {
  py::tuple told = ready.attr("told")();
  auto entry = std::make_shared<Entry>();
  entry->words = call.call->words;
  entry->specs = call.specs;
  entry->ready = ready;
  entry->adopt = told[0];
  entry->launched = reinterpret_cast<gr_template*>(told[1].cast<uintptr_t>());
  for (py::handle item : told[2].cast<py::tuple>()) {
    auto [given, constant, spec] = item.cast<std::tuple<int64_t, py::object, py::object>>();
    if (given >= static_cast<int64_t>(call.specs.size())) return;
    entry->inputs.push_back({given, constant, spec});
  }
  if (entry->inputs.empty() || entry->inputs.size() > kMostInputs) return;
  entry->device = told[3].cast<int32_t>();
  entry->code = told[4].cast<int32_t>();
  entry->bits = told[5].cast<int32_t>();
  entry->sizes = told[6].cast<std::vector<int64_t>>();
  if (find(entry->words, call.hash)) return;
  if (entries_.size() >= kMostEntries) entries_.clear();
  entries_.emplace(call.hash, std::move(entry));
}

// **************** doing it again ****************

class Locked {
 public:
  Locked() { call("acquire"); }
  ~Locked() {
    try {
      call("release");
    } catch (python_error&) {
    }
  }

 private:
  static void call(const char* name) {
    static PyObject* const acquire = PyUnicode_InternFromString("acquire");
    static PyObject* const release = PyUnicode_InternFromString("release");
    PyObject* made = PyObject_CallMethodNoArgs(runtime->lock.ptr(), name[0] == 'a' ? acquire : release);
    if (!made) raise();
    Py_DECREF(made);
  }
};

// What gives an address back when nothing took it over.
struct Exported {
  uint64_t managed = 0;
  ~Exported() {
    if (managed) runtime->drop(managed);
  }
};

py::object key_of(uint64_t address) {
  PyObject* made = PyLong_FromUnsignedLongLong(address);
  if (!made) raise();
  return py::reinterpret_steal<py::object>(made);
}

// Under the lock of addresses: store.py's `collect`. The Stores are returned, to be let go without the lock.
std::vector<py::object> collected() {
  std::vector<py::object> gone;
  uint64_t addresses[kMostCollected];
  while (int32_t count = runtime->collect(addresses, kMostCollected)) {
    for (int32_t i = 0; i < count; ++i) {
      py::object key = key_of(addresses[i]);
      PyObject* store = PyDict_GetItemWithError(runtime->stores.ptr(), key.ptr());
      if (!store) {
        if (PyErr_Occurred()) raise();
        continue;
      }
      gone.push_back(py::reinterpret_borrow<py::object>(store));
      if (PyDict_DelItem(runtime->stores.ptr(), key.ptr())) raise();
    }
  }
  return gone;
}

// The buffer of a tensor that is stored as `spec` says, in cffi's object, which holds it; none where it is elsewhere.
py::object buffer_of(PyObject* tensor, const py::object& spec) {
  PyObject* owner = runtime->owner.of(tensor);
  if (runtime->spec.of(tensor) != spec.ptr() || Py_TYPE(owner) != runtime->buffer) return {};
  PyObject* pointer = runtime->pointer.of(owner);
  return pointer == Py_None ? py::object() : py::reinterpret_borrow<py::object>(pointer);
}

gr_buffer* address_in(const py::object& pointer) {
  char* found = runtime->to_pointer(pointer.ptr(), runtime->pointer_type.ptr());
  if (PyErr_Occurred()) raise();
  return reinterpret_cast<gr_buffer*>(found);
}

// Launches what was launched before, and puts the result on the stack. False: it could not, and nothing was done.
bool Repeated::again(const Entry& entry, const Call& call, size_t arguments, Stack* stack) const {
  std::array<py::object, kMostInputs> held;  // while the lock of Python is open
  std::array<gr_buffer*, kMostInputs> buffers{};
  py::tuple inputs(entry.inputs.size());
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    const Input& input = entry.inputs[i];
    PyObject* tensor = input.given < 0 ? input.constant.ptr() : call.bases[input.given];
    held[i] = buffer_of(tensor, input.spec);
    if (!held[i]) return false;
    buffers[i] = address_in(held[i]);
    Py_INCREF(tensor);
    PyTuple_SET_ITEM(inputs.ptr(), static_cast<Py_ssize_t>(i), tensor);
  }
  py::object target = written_ < 0 ? py::none() : py::reinterpret_borrow<py::object>(call.target);
  std::vector<py::object> gone;
  Exported exported;
  {
    Locked locked;
    gone = collected();
    if (written_ < 0) {
      const int64_t* sizes = entry.sizes.empty() ? nullptr : entry.sizes.data();
      auto rank = static_cast<int32_t>(entry.sizes.size());
      exported.managed = runtime->export_handle(entry.device, entry.code, entry.bits, rank, sizes, nullptr);
      if (!exported.managed) return false;
    }
  }
  gone.clear();
  gr_buffer* launched;
  {
    py::gil_scoped_release open;
    launched = runtime->submit(entry.launched, buffers[0], buffers[1], buffers[2]);
  }
  if (!launched) return false;
  auto pointer = py::reinterpret_steal<py::object>(
      runtime->from_pointer(reinterpret_cast<char*>(launched), runtime->pointer_type.ptr()));
  if (!pointer) raise();
  PyObject* given[] = {pointer.ptr(), inputs.ptr(), target.ptr()};
  auto store = py::reinterpret_steal<py::object>(PyObject_Vectorcall(entry.adopt.ptr(), given, 3, nullptr));
  if (!store) raise();
  at::Tensor result;
  if (written_ >= 0) {
    result = torch::jit::peek(*stack, static_cast<size_t>(written_), arguments).toTensor();
  } else {
    py::object key = key_of(runtime->address_of(exported.managed));
    if (PyDict_SetItem(runtime->stores.ptr(), key.ptr(), store.ptr())) raise();
    result = at::fromDLPack(reinterpret_cast<DLManagedTensor*>(exported.managed));
    exported.managed = 0;
  }
  torch::jit::drop(*stack, arguments);
  torch::jit::push(*stack, std::move(result));
  return true;
}

// **************** memory of the host ****************

// pinned.py's memory, for torch.empty(pin_memory=True).
class Pinned final : public c10::Allocator {
 public:
  explicit Pinned(py::object allocate) : allocate_(std::move(allocate)) {}

  c10::DataPtr allocate(size_t bytes) override {
    py::gil_scoped_acquire gil;
    py::tuple made = allocate_(bytes);  // (what keeps it, address)
    auto address = reinterpret_cast<void*>(made[1].cast<uintptr_t>());
    return {address, py::object(made[0]).release().ptr(), &let_go, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  static void let_go(void* keeper) {
    if (!Py_IsInitialized()) return;
    py::gil_scoped_acquire gil;
    Py_DECREF(static_cast<PyObject*>(keeper));
  }

  py::object allocate_;
};

// What torch asks of an accelerator.
struct Hooks final : public at::PrivateUse1HooksInterface {
  explicit Hooks(c10::Allocator* pinned) : pinned(pinned) {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned; }

  c10::Allocator* pinned;
};

// **************** for Python ****************

std::vector<Repeated*>& operations = *new std::vector<Repeated*>;

class Quiet final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// Puts a kernel above Python's for an operation; `written`: position of the argument that it writes, -1: none.
void install(const std::string& name, const std::string& overload, py::object operation, int64_t written) {
  auto& dispatcher = c10::Dispatcher::singleton();
  auto op = dispatcher.findSchemaOrThrow(name.c_str(), overload.c_str());
  auto below = op.getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
  auto* repeated = new Repeated(std::move(below), std::move(operation), written);
  operations.push_back(repeated);
  Quiet quiet;  // torch warns of a kernel that comes above another
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  static auto& registered = *new std::vector<c10::RegistrationHandleRAII>;
  registered.push_back(dispatcher.registerImpl(op.operator_name(), c10::DispatchKey::PrivateUse1,
                                               c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(repeated)),
                                               std::nullopt, nullptr, "graph_runtime/torch/repeated_calls.cpp"));
}

template <class Function>
void take(Function& function, const py::dict& functions, const char* name) {
  function = reinterpret_cast<Function>(functions[name].cast<uintptr_t>());
}

void start(py::object stores, py::object lock, py::type store, py::type tensor, py::type buffer,
           py::object pointer_type, const py::dict& functions) {
  auto* made = new Runtime;
  made->stores = std::move(stores);
  made->lock = std::move(lock);
  made->tensor = reinterpret_cast<PyTypeObject*>(tensor.ptr());
  made->buffer = reinterpret_cast<PyTypeObject*>(buffer.ptr());
  made->base = Slot(store, "base");
  made->dtype = Slot(store, "dtype");
  made->spec = Slot(tensor, "_spec");
  made->owner = Slot(tensor, "_owner");
  made->pointer = Slot(buffer, "pointer");
  made->pointer_type = std::move(pointer_type);
  py::object api = py::module_::import("_cffi_backend").attr("_C_API");
  void** cffi = static_cast<void**>(PyCapsule_GetPointer(api.ptr(), "cffi"));  // as _cffi_include.h numbers it
  if (!cffi) throw py::error_already_set();
  made->from_pointer = reinterpret_cast<decltype(made->from_pointer)>(cffi[10]);
  made->to_pointer = reinterpret_cast<decltype(made->to_pointer)>(cffi[11]);
  take(made->submit, functions, "gr_submit_op");
  take(made->export_handle, functions, "gr_handle_export");
  take(made->address_of, functions, "gr_handle_address");
  take(made->drop, functions, "gr_handle_drop");
  take(made->collect, functions, "gr_handles_collect");
  runtime = made;
  Py_INCREF(tensor.ptr());
  Py_INCREF(buffer.ptr());
}

}  // namespace

PYBIND11_MODULE(repeated_calls, module) {
  module.def("register_hooks", [](py::object pinned) {
    at::RegisterPrivateUse1HooksInterface(new Hooks(new Pinned(std::move(pinned))));
  });
  module.def("start", &start);
  module.def("install", &install);
  module.def("keep", [](const py::handle& operation, const py::object& ready) {
    if (missed && missed->operation->is_of(operation)) missed->operation->remember(*missed, ready);
  });
  module.def("forget", [] {
    for (Repeated* operation : operations) operation->forget();
  });
}
