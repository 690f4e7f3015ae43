// repeated_calls.cpp: operations on tt tensors, and compiled programs, that were done before, without Python's way.
//
// Built by codegen/torch_calls.py, loaded by graph_runtime/torch/native_calls.py; without it the same calls take the
// Python way (eager.py, writes.py, compiled_graph.py). There is one cache, Python's, and values, lifetimes and counters
// are Python's in both ways: its `adopt` takes over what was launched.
#include "pinned.h"
#include "programs.h"
#include "repeated.h"

namespace {

std::vector<Repeated*>& operations = *new std::vector<Repeated*>;

class Quiet final : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

void put(const c10::OperatorHandle& op, c10::KernelFunction kernel) {
  Quiet quiet;  // torch warns of a kernel that comes above another
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  static auto& registered = *new std::vector<c10::RegistrationHandleRAII>;
  registered.push_back(c10::Dispatcher::singleton().registerImpl(op.operator_name(), c10::DispatchKey::PrivateUse1,
                                                                 std::move(kernel), std::nullopt, nullptr,
                                                                 "graph_runtime/torch/repeated_calls.cpp"));
}

// Puts a kernel above Python's for an operation; `written`: position of the argument that it writes, -1: none;
// `indices`: positions of arguments that are indices.
void install(const std::string& name, const std::string& overload, py::object operation, int64_t written,
             const std::vector<size_t>& indices) {
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  std::vector<bool> at(op.schema().arguments().size());
  for (size_t index : indices)
    if (index < at.size()) at[index] = true;
  auto below = op.getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
  auto* repeated = new Repeated(std::move(below), std::move(operation), written, std::move(at),
                                op.schema().returns().size());
  operations.push_back(repeated);
  put(op, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(repeated)));
}

// The same for what only views.
void install_view(const std::string& name, const std::string& overload) {
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  put(op, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<View>()));
}

template <class Function>
void take(Function& function, const py::dict& functions, const char* name) {
  function = reinterpret_cast<Function>(functions[name].cast<uintptr_t>());
}

void start(py::object stores, py::object lock, py::object current, py::type store, py::type tensor, py::type buffer,
           py::object pointer_type, py::object run_type, const py::dict& functions) {
  auto* made = new Runtime;
  made->stores = std::move(stores);
  made->lock = std::move(lock);
  made->current = std::move(current);
  made->tensor = reinterpret_cast<PyTypeObject*>(tensor.ptr());
  made->buffer = reinterpret_cast<PyTypeObject*>(buffer.ptr());
  made->base = Slot(store, "base");
  made->dtype = Slot(store, "dtype");
  made->images = Slot(store, "images");
  made->spec = Slot(tensor, "_spec");
  made->owner = Slot(tensor, "_owner");
  made->pointer = Slot(buffer, "pointer");
  made->pointer_type = std::move(pointer_type);
  made->run_type = std::move(run_type);
  py::object api = py::module_::import("_cffi_backend").attr("_C_API");
  void** cffi = static_cast<void**>(PyCapsule_GetPointer(api.ptr(), "cffi"));  // as _cffi_include.h numbers it
  if (!cffi) throw py::error_already_set();
  made->from_pointer = reinterpret_cast<decltype(made->from_pointer)>(cffi[10]);
  made->to_pointer = reinterpret_cast<decltype(made->to_pointer)>(cffi[11]);
  take(made->submit_call, functions, "gr_submit_call");
  take(made->submit, functions, "gr_submit");
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
  py::class_<Program>(module, "Program")
      .def(py::init<uintptr_t, size_t, uintptr_t, py::object, py::object>())
      .def("give", &Program::give)
      .def("make", &Program::make)
      .def("__call__", &Program::operator());
  module.def("install", &install);
  module.def("install_view", &install_view);
  module.def("keep", [](const py::handle& operation, const py::object& ready, const py::sequence& taken) {
    if (missed && missed->operation->is_of(operation)) missed->operation->remember(*missed, ready, taken);
  });
  module.def("forget", [] {
    for (Repeated* operation : operations) operation->forget();
  });
}
