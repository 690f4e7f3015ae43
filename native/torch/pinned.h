// pinned.h: memory of the host for torch.empty(pin_memory=True), which graph_runtime/torch/pinned.py gives. Called by
// torch, any thread.
#pragma once

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <cstring>

#include "stored.h"

namespace {

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

// Functions that torch asks of an accelerator.
struct Hooks final : public at::PrivateUse1HooksInterface {
  explicit Hooks(c10::Allocator* pinned) : pinned(pinned) {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned; }

  c10::Allocator* pinned;
};

}  // namespace
