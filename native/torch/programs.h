// programs.h: a compiled program, submitted on torch's tensors. Python says once what it takes and gives
// (graph_runtime/torch/submitter.py), and takes over each run; where an argument is stored otherwise than the program
// takes it, or memory is short, nothing is done, and Python submits.
//
// Called by graph_runtime/torch/compiled/compiled_graph.py under Python's lock, which the submission gives up.
#pragma once

#include <torch/csrc/autograd/python_variable.h>

#include "stored.h"

namespace {

class Program {
 public:
  // An argument that is read: a tensor of `sizes` whose Store holds `dtype`, stored as `spec`.
  struct Given {
    size_t argument, slot;
    py::object spec, dtype;
    std::vector<int64_t> sizes;
  };
  // A result: the buffer of a slot.
  struct Made {
    size_t slot;
    Form form;
  };

  Program(uintptr_t launched, size_t slots, uintptr_t constants, py::object turn, py::object adopt)
      : launched_(reinterpret_cast<gr_template*>(launched)),
        constants_(reinterpret_cast<gr_buffer**>(constants), reinterpret_cast<gr_buffer**>(constants) + slots),
        turn_(std::move(turn)),
        adopt_(std::move(adopt)) {}

  void give(size_t argument, size_t slot, py::object spec, py::object dtype, std::vector<int64_t> sizes) {
    given_.push_back({argument, slot, std::move(spec), std::move(dtype), std::move(sizes)});
  }
  void make(size_t slot, int32_t device, int32_t code, int32_t bits, std::vector<int64_t> sizes) {
    made_.push_back({slot, {device, code, bits, std::move(sizes), {}}});
  }

  // A list of its results; None: nothing was done.
  py::object operator()(const py::sequence& arguments);

 private:
  py::object buffer_in(const Given& given, const py::handle& argument) const;

  gr_template* launched_;
  std::vector<gr_buffer*> constants_;  // a slot each, null but for constants
  py::object turn_, adopt_;            // turn(): waits while too many runs are queued; adopt(gr_run *, [gr_buffer *])
  std::vector<Given> given_;
  std::vector<Made> made_;
};

// The gr_buffer * of an argument, in cffi's object; none where it is another than the program takes.
py::object Program::buffer_in(const Given& given, const py::handle& argument) const {
  if (!THPVariable_Check(argument.ptr())) return {};
  const at::Tensor& tensor = THPVariable_Unpack(argument.ptr());
  if (!tensor.device().is_privateuseone() || tensor.sizes() != c10::IntArrayRef(given.sizes) ||
      tensor.storage_offset() || !tensor.is_contiguous())  // what shows all of its storage: store.py's `whole`
    return {};
  PyObject* store = store_of(tensor);
  if (!store || runtime->dtype.of(store) != given.dtype.ptr() ||
      reinterpret_cast<PyObject*>(torch::getTHPDtype(tensor.scalar_type())) != given.dtype.ptr())
    return {};
  PyObject* base = runtime->base.of(store);
  return Py_TYPE(base) == runtime->tensor ? buffer_of(base, given.spec) : py::object();
}

py::object Program::operator()(const py::sequence& arguments) {
  py::object waited = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(turn_.ptr()));  // first: buffers may move
  if (!waited) raise();
  std::vector<gr_buffer*> buffers = constants_;
  std::vector<py::object> held;  // while the lock of Python is open
  held.reserve(given_.size());
  for (const Given& given : given_) {
    held.push_back(buffer_in(given, arguments[given.argument]));
    if (!held.back()) return py::none();
    buffers[given.slot] = address_in(held.back());
  }
  std::vector<py::object> gone;
  std::vector<Exported> exported;
  {
    Locked locked;
    gone = collected();
    for (const Made& made : made_) {
      exported.emplace_back(made.form.exported());
      if (!exported.back().managed) return py::none();
    }
  }
  gone.clear();
  gr_run* run;
  {
    py::gil_scoped_release open;
    run = runtime->submit(launched_, buffers.data());
  }
  if (!run) return py::none();
  py::list pointers(made_.size());
  for (size_t i = 0; i < made_.size(); ++i)
    PyList_SET_ITEM(pointers.ptr(), static_cast<Py_ssize_t>(i),
                    pointer_to(buffers[made_[i].slot], runtime->pointer_type).release().ptr());
  py::list stores = adopt_(pointer_to(run, runtime->run_type), pointers);
  py::list results(made_.size());
  for (size_t i = 0; i < made_.size(); ++i)
    PyList_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i),
                    THPVariable_Wrap(tensor_of(exported[i], py::reinterpret_borrow<py::object>(stores[i]))));
  return results;
}

}  // namespace
