// stored.h: what C++ sees of Python's objects behind tensors of the device (graph_runtime/torch/store.py), and of the
// runtime's C. Called by the other files here, under Python's lock.
#pragma once

#include <Python.h>
#include <structmember.h>

#include <ATen/DLConvertor.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>
#include <vector>

#define _Static_assert static_assert  // of C, in the headers
extern "C" {
#include "gr_async.h"
#include "gr_handles.h"
}

namespace {

namespace py = pybind11;

constexpr int32_t kMostCollected = 256;

// The error that Python has set, for torch to hand on.
[[noreturn]] void raise() {
  python_error error;
  error.persist();
  throw error;
}

// **************** what Python hands over once ****************

// Offset of a slot in objects of a class with __slots__.
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
  py::object current;                         // whose `index` is the number of the thread's device
  PyTypeObject *tensor, *buffer;
  Slot base, dtype, images;                   // of a Store
  Slot spec, owner;                           // of a Tensor
  Slot pointer;                               // of a Buffer
  py::object pointer_type;                    // cffi's "gr_buffer *"
  char* (*to_pointer)(PyObject*, PyObject*);  // cffi's, as the modules that it generates use them
  PyObject* (*from_pointer)(char*, PyObject*);
  py::object run_type;                        // and "gr_run *"
  decltype(&gr_submit_call) submit_call;
  decltype(&gr_submit) submit;
  decltype(&gr_handle_export) export_handle;
  decltype(&gr_handle_address) address_of;
  decltype(&gr_handle_drop) drop;
  decltype(&gr_handles_collect) collect;
};

Runtime* runtime = nullptr;  // until the process ends, as all here: kernels may be called at any time

// **************** addresses and buffers ****************

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

// Gives an address back unless it was taken over.
struct Exported {
  explicit Exported(uint64_t managed = 0) : managed(managed) {}
  Exported(Exported&& other) noexcept : managed(std::exchange(other.managed, 0)) {}
  ~Exported() {
    if (managed) runtime->drop(managed);
  }

  uint64_t managed;
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

// The Store behind a tensor of the device with elements that are as they are stored: borrowed, null for any other.
PyObject* store_of(const at::Tensor& tensor) {
  if (!tensor.has_storage() || !tensor.numel() || tensor.is_conj() || tensor.is_neg()) return nullptr;
  py::object key = key_of(reinterpret_cast<uint64_t>(tensor.storage().data()));
  PyObject* store = PyDict_GetItemWithError(runtime->stores.ptr(), key.ptr());
  if (!store && PyErr_Occurred()) raise();
  return store;
}

// A new address for a tensor of these sizes; its number is 0 where there is none. No strides: row-major.
struct Form {
  int32_t device, code, bits;
  std::vector<int64_t> sizes, strides;

  uint64_t exported() const {
    auto rank = static_cast<int32_t>(sizes.size());
    return runtime->export_handle(device, code, bits, rank, sizes.empty() ? nullptr : sizes.data(),
                                  strides.empty() ? nullptr : strides.data());
  }
};

// A torch tensor over an exported address, which leads to `store` from now on.
at::Tensor tensor_of(Exported& exported, const py::object& store) {
  py::object key = key_of(runtime->address_of(exported.managed));
  if (PyDict_SetItem(runtime->stores.ptr(), key.ptr(), store.ptr())) raise();
  at::Tensor made = at::fromDLPack(reinterpret_cast<DLManagedTensor*>(exported.managed));
  exported.managed = 0;
  return made;
}

py::object pointer_to(void* address, const py::object& type) {
  auto made = py::reinterpret_steal<py::object>(runtime->from_pointer(static_cast<char*>(address), type.ptr()));
  if (!made) raise();
  return made;
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

}  // namespace
