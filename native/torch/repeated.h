// repeated.h: one operation, done again as Python remembered it. What Python remembers of a call, a Ready, it tells
// (`remember`), and it is found here by a signature that is read from torch's own tensors. What is not found, or cannot
// be done, goes to the kernel below, which is Python's.
//
// Called by torch's dispatcher (any thread). All state is under Python's lock, which a submission alone gives up.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "stored.h"

namespace {

using torch::jit::Stack;

constexpr size_t kMostInputs = 3;      // of gr_submit_op
constexpr size_t kMostEntries = 4096;  // of one operation

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
  PyObject* store = store_of(value);
  if (!store) return false;
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
  Form form;                      // of a new result
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
  entry->form = {told[3].cast<int32_t>(), told[4].cast<int32_t>(), told[5].cast<int32_t>(),
                 told[6].cast<std::vector<int64_t>>()};
  if (find(entry->words, call.hash)) return;
  if (entries_.size() >= kMostEntries) entries_.clear();
  entries_.emplace(call.hash, std::move(entry));
}

// **************** doing it again ****************

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
    if (written_ < 0 && !(exported.managed = entry.form.exported())) return false;
  }
  gone.clear();
  gr_buffer* launched;
  {
    py::gil_scoped_release open;
    launched = runtime->submit_op(entry.launched, buffers[0], buffers[1], buffers[2]);
  }
  if (!launched) return false;
  py::object pointer = pointer_to(launched, runtime->pointer_type);
  PyObject* given[] = {pointer.ptr(), inputs.ptr(), target.ptr()};
  auto store = py::reinterpret_steal<py::object>(PyObject_Vectorcall(entry.adopt.ptr(), given, 3, nullptr));
  if (!store) raise();
  at::Tensor result;
  if (written_ >= 0) {
    result = torch::jit::peek(*stack, static_cast<size_t>(written_), arguments).toTensor();
  } else {
    result = tensor_of(exported, store);
  }
  torch::jit::drop(*stack, arguments);
  torch::jit::push(*stack, std::move(result));
  return true;
}

}  // namespace
