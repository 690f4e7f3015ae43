// repeated.h: one operation, done again as Python remembered it. What Python remembers of a call, a Ready, it tells
// (`remember`), and it is found here by a signature that is read from torch's own tensors, as signatures.py reads it.
// What is not found, or cannot be done, goes to the kernel below, which is Python's.
//
// Called by torch's dispatcher (any thread). All state is under Python's lock, which a submission alone gives up.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/SmallVector.h>

#include <cstring>
#include <memory>
#include <unordered_map>

#include "stored.h"

namespace {

using torch::jit::Stack;

constexpr size_t kMostEntries = 4096;  // of one operation

// **************** signatures ****************

using Words = c10::SmallVector<uint64_t, 64>;

enum Tag : uint64_t {
  kDevice = 1, kNumber, kUndefined, kNone, kBool, kInt, kDouble, kComplex, kText, kInts, kList, kPlace
};
// The Store's tensor that a signature is of, by the numbers of signatures.py.
enum Which : uint64_t { kBase = 0, kImage, kNarrowed };

// What is done with an argument: as signatures.py's Call is told.
struct Role {
  bool index, written;
};

// What a call is given: its signature, and of its tensors on a device the Store, its tensor that is taken, and that
// one's spec (borrowed, of a moment).
struct Call {
  Words words;
  c10::SmallVector<PyObject*, 4> stores, bases, specs;
  c10::SmallVector<uint64_t, 4> which;

  bool read(c10::ArrayRef<c10::IValue> arguments, int64_t written, const std::vector<bool>& indices);
  size_t first(size_t at) const;

 private:
  bool argument(const c10::IValue& value, Role role);
  bool tensor(const at::Tensor& value, Role role);
  bool stored(const at::Tensor& value, Role role);
  bool number(const at::Tensor& value);
  void bytes(const void* from, size_t count);
};

bool Call::read(c10::ArrayRef<c10::IValue> arguments, int64_t written, const std::vector<bool>& indices) {
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!argument(arguments[i], {i < indices.size() && indices[i], static_cast<int64_t>(i) == written})) return false;
  if (bases.empty()) words.push_back(static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()));
  for (size_t i = 1; i < bases.size(); ++i) words.push_back(first(i));  // x * x is another call than x * y
  return true;
}

// The number of the first tensor that is the same.
size_t Call::first(size_t at) const {
  size_t found = 0;
  while (bases[found] != bases[at]) ++found;
  return found;
}

bool Call::argument(const c10::IValue& value, Role role) {
  if (value.isTensor()) return tensor(value.toTensor(), role);
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
  } else if (value.isDevice()) {
    c10::Device device = value.toDevice();
    int64_t index = device.index();
    if (!device.has_index()) index = runtime->current.attr("index").cast<int64_t>();
    words.append({kPlace, static_cast<uint64_t>(device.type()), static_cast<uint64_t>(index)});
  } else if (value.isIntList()) {
    auto numbers = value.toIntVector();
    words.append({kInts, numbers.size()});
    words.append(numbers.begin(), numbers.end());
  } else if (value.isList()) {
    auto items = value.toListRef();
    words.append({kList, items.size()});
    for (const c10::IValue& item : items)
      if (!argument(item, {role.index, false})) return false;
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

bool Call::tensor(const at::Tensor& value, Role role) {
  if (!value.defined()) {
    words.push_back(kUndefined);
    return true;
  }
  if (value.device().is_privateuseone()) return stored(value, role);
  return value.device().is_cpu() && number(value);
}

py::object numbers_of(c10::IntArrayRef values) {
  py::tuple made(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    PyObject* number = PyLong_FromLongLong(values[i]);
    if (!number) raise();
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), number);
  }
  return std::move(made);
}

PyObject* found_in(PyObject* images, const py::object& key) {
  PyObject* found = PyDict_GetItemWithError(images, key.ptr());
  if (!found && PyErr_Occurred()) raise();
  return found;
}

// What a Store keeps of a view (borrowed; null: nothing), and which that is: signatures.py's _image.
std::pair<PyObject*, Which> image_of(PyObject* store, const at::Tensor& view, PyObject* dtype, bool index) {
  PyObject* images = runtime->images.of(store);
  if (!PyDict_Check(images) || !PyDict_Size(images)) return {nullptr, kBase};
  bool narrow = index && view.scalar_type() == at::kLong;
  static PyObject* const narrowed = PyUnicode_InternFromString("narrowed");
  py::object sizes = numbers_of(view.sizes());
  py::object strides = numbers_of(view.strides()), offset = py::int_(view.storage_offset());
  py::object name = py::reinterpret_borrow<py::object>(narrow ? narrowed : dtype);
  PyObject* found = found_in(images, py::make_tuple(name, sizes, strides, offset));
  if (narrow) return {found, found ? kNarrowed : kBase};
  if (!found && !view.storage_offset() && view.is_contiguous()) found = found_in(images, sizes);
  return {found, found ? kImage : kBase};
}

// A tensor stands for its storage's base, or for what is kept of the view that it shows.
bool Call::stored(const at::Tensor& value, Role role) {
  PyObject* store = store_of(value);
  PyObject* dtype = reinterpret_cast<PyObject*>(torch::getTHPDtype(value.scalar_type()));
  if (!store || runtime->dtype.of(store) != dtype) return false;
  PyObject* base = runtime->base.of(store);
  Which kind = kBase;
  if (!role.written) {
    auto [image, found] = image_of(store, value, dtype, role.index);
    if (image) base = image;
    kind = found;
  }
  if (Py_TYPE(base) != runtime->tensor) return false;
  PyObject* spec = runtime->spec.of(base);
  if (spec == Py_None) return false;
  words.append({kDevice, static_cast<uint64_t>(value.scalar_type()), kind, reinterpret_cast<uint64_t>(spec),
                static_cast<uint64_t>(value.dim()), static_cast<uint64_t>(value.storage_offset())});
  words.append(value.sizes().begin(), value.sizes().end());
  words.append(value.strides().begin(), value.strides().end());
  stores.push_back(store);
  bases.push_back(base);
  specs.push_back(spec);
  which.push_back(kind);
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
  py::object spec;        // as which the chain takes it
};

// Answer of Python's Ready for a signature.
struct Entry {
  Words words;
  std::vector<py::object> specs;  // the signature has their addresses
  py::object ready, taken;        // taken([gr_buffer *], inputs, Stores, tensors) -> [Store of each new result]
  gr_template* chain;
  size_t slots, buffers;          // of a submission; how many of them it takes, after the inputs
  std::vector<Input> inputs;
  std::vector<Form> made;         // new results
  std::vector<int64_t> places;    // of each result its number in made, -1: the argument that is written, -2: none
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
  Repeated(c10::SafeKernelFunction below, py::object operation, int64_t written, std::vector<bool> indices,
           size_t results)
      : below_(std::move(below)),
        operation_(std::move(operation)),
        written_(written),
        indices_(std::move(indices)),
        results_(results) {}

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);
  void remember(Missed& call, const py::object& ready, const py::sequence& taken);
  void forget() { entries_.clear(); }
  bool is_of(const py::handle& operation) const { return operation_.is(operation); }

 private:
  std::shared_ptr<Entry> find(const Words& words, uint64_t hash) const;
  bool again(const Entry& entry, const Call& call, size_t arguments, Stack* stack) const;

  c10::SafeKernelFunction below_;
  py::object operation_;
  int64_t written_;            // position of the one argument that is written; -1: the results are new
  std::vector<bool> indices_;  // of its arguments, which are indices
  size_t results_;             // of its schema
  std::unordered_multimap<uint64_t, std::shared_ptr<Entry>> entries_;
};

struct Kernel final : public c10::OperatorKernel {
  explicit Kernel(Repeated* operation) : operation(operation) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    operation->call(op, keys, stack);
  }

  Repeated* operation;
};

// A view: torch's own kernel of the CPU, which looks at no values.
struct View final : public c10::OperatorKernel {
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
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
  bool read;
  {
    py::gil_scoped_acquire gil;
    read = call.read(torch::jit::last(*stack, arguments), written_, indices_);
    if (read) {
      now.hash = hash_of(call.words);
      auto entry = find(call.words, now.hash);
      if (entry && again(*entry, call, arguments, stack)) return;
      for (PyObject* spec : call.specs) now.specs.push_back(py::reinterpret_borrow<py::object>(spec));
    }
  }
  if (!read) {  // no signature, and so nothing to be kept
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

// `taken`: what Python read of the call's tensors, (which of a Store's, spec, the first that is the same). Another
// thread may have written one between its look and ours: then the entry would be another call's.
void Repeated::remember(Missed& missed, const py::object& ready, const py::sequence& taken) {
  const Call& call = *missed.call;
  if (taken.size() != missed.specs.size()) return;
  for (size_t i = 0; i < taken.size(); ++i) {
    py::tuple one = taken[i];
    if (one[0].cast<uint64_t>() != call.which[i] || !missed.specs[i].is(one[1]) ||
        one[2].cast<size_t>() != call.first(i))
      return;
  }
  py::tuple told = ready.attr("told")();
  auto entry = std::make_shared<Entry>();
  entry->words = call.words;
  entry->specs = missed.specs;
  entry->ready = ready;
  entry->taken = told[0];
  entry->chain = reinterpret_cast<gr_template*>(told[1].cast<uintptr_t>());
  entry->slots = told[2].cast<size_t>();
  entry->buffers = told[3].cast<size_t>();
  for (py::handle item : told[4].cast<py::tuple>()) {
    auto [given, constant, spec] = item.cast<std::tuple<int64_t, py::object, py::object>>();
    if (given >= static_cast<int64_t>(missed.specs.size())) return;
    entry->inputs.push_back({given, constant, spec});
  }
  for (py::handle item : told[5].cast<py::tuple>()) {
    auto [device, code, bits, sizes, strides] =
        item.cast<std::tuple<int32_t, int32_t, int32_t, std::vector<int64_t>, std::vector<int64_t>>>();
    entry->made.push_back({device, code, bits, std::move(sizes), std::move(strides)});
  }
  for (py::handle item : told[6].cast<py::tuple>()) entry->places.push_back(item.is_none() ? -2 : item.cast<int64_t>());
  if (entry->places.size() != results_) return;
  auto [at, end] = entries_.equal_range(missed.hash);
  for (; at != end; ++at)
    if (at->second->words == entry->words) {  // a constant of the old one is gone, say
      at->second = std::move(entry);
      return;
    }
  if (entries_.size() >= kMostEntries) entries_.clear();
  entries_.emplace(missed.hash, std::move(entry));
}

// **************** doing it again ****************

py::tuple together(c10::ArrayRef<PyObject*> objects) {
  py::tuple made(objects.size());
  for (size_t i = 0; i < objects.size(); ++i)
    PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(objects[i]));
  return made;
}

// Submits what was done before, and puts the results on the stack. False: it could not, and nothing was done.
bool Repeated::again(const Entry& entry, const Call& call, size_t arguments, Stack* stack) const {
  c10::SmallVector<py::object, 8> held;  // while the lock of Python is open
  c10::SmallVector<PyObject*, 8> tensors;
  c10::SmallVector<gr_buffer*, 32> buffers(entry.slots, nullptr);
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    const Input& input = entry.inputs[i];
    tensors.push_back(input.given < 0 ? input.constant.ptr() : call.bases[input.given]);
    held.push_back(buffer_of(tensors[i], input.spec));
    if (!held[i]) return false;
    buffers[i] = address_in(held[i]);
  }
  py::tuple inputs = together(tensors), stores = together(call.stores), bases = together(call.bases);
  std::vector<py::object> gone;
  c10::SmallVector<Exported, 4> exported;
  {
    Locked locked;
    gone = collected();
    for (const Form& form : entry.made) {
      exported.emplace_back(form.exported());
      if (!exported.back().managed) return false;
    }
  }
  gone.clear();
  int32_t status;
  {
    py::gil_scoped_release open;
    status = runtime->submit_call(entry.chain, buffers.data());
  }
  if (status) return false;
  py::list pointers(entry.buffers);
  for (size_t i = 0; i < entry.buffers; ++i)
    PyList_SET_ITEM(pointers.ptr(), static_cast<Py_ssize_t>(i),
                    pointer_to(buffers[entry.inputs.size() + i], runtime->pointer_type).release().ptr());
  PyObject* given[] = {pointers.ptr(), inputs.ptr(), stores.ptr(), bases.ptr()};
  auto made = py::reinterpret_steal<py::object>(PyObject_Vectorcall(entry.taken.ptr(), given, 4, nullptr));
  if (!made) raise();
  c10::SmallVector<at::Tensor, 4> results;
  for (int64_t place : entry.places) {
    if (place >= 0) {
      auto store = py::reinterpret_borrow<py::object>(PyList_GET_ITEM(made.ptr(), place));
      results.push_back(tensor_of(exported[place], store));
    } else {
      results.push_back(place == -2 ? at::Tensor()
                                    : torch::jit::peek(*stack, static_cast<size_t>(written_), arguments).toTensor());
    }
  }
  torch::jit::drop(*stack, arguments);
  for (at::Tensor& result : results) torch::jit::push(*stack, std::move(result));
  return true;
}

}  // namespace
