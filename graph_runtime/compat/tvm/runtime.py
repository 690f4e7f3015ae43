"""tvm.runtime: modules, devices and parameter files."""

import os

from ...devices import Device, cpu, of_type
from ...documents.params import read_params as load_param_dict
from ...documents.params import read_params as load_param_dict_from_file
from ...documents.params import save_params as save_param_dict
from ...documents.params import save_params as save_param_dict_to_file
from ...tensors.arrays import array, empty
from ...tensors.tensor import Tensor as NDArray
from ...tvm.library import TvmModule as Module
from ...tvm.library import load_module as _load_module
from ...views.profile import Report

device = of_type


def load_module(path: str | os.PathLike) -> Module:
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
