"""tvm.runtime: modules, devices and parameter files."""

import os

from ...base.machine.devices import Device, cpu, of_type
from ...ir.documents.params import read_params as load_param_dict
from ...ir.documents.params import read_params as load_param_dict_from_file
from ...ir.documents.params import save_params as save_param_dict
from ...ir.documents.params import save_params as save_param_dict_to_file
from ...run.tensors.arrays import array, empty
from ...run.tensors.tensor import Tensor as NDArray
from ...views.profile import Report
from ..artifacts.library import TvmModule as Module
from ..artifacts.library import load_module as _load_module

device = of_type


def load_module(path: str | os.PathLike[str]) -> Module:
    """tvm.library.load_module; its executors compute with inputs that were never set, as TVM's do."""
    module = _load_module(path)
    module.options["unset_inputs"] = "allow"
    return module


__all__ = [
    "Device",
    "Module",
    "NDArray",
    "Report",
    "array",
    "cpu",
    "device",
    "empty",
    "load_module",
    "load_param_dict",
    "load_param_dict_from_file",
    "save_param_dict",
    "save_param_dict_to_file",
]
