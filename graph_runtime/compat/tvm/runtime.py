"""tvm.runtime: modules, devices and parameter files."""
from ...arrays import array, empty
from ...devices import Device, cpu, of_type
from ...params import read_params as load_param_dict
from ...params import read_params as load_param_dict_from_file
from ...params import save_params as save_param_dict
from ...params import save_params as save_param_dict_to_file
from ...profile import Report
from ...tensor import Tensor as NDArray
from ...tvm_library import TvmModule as Module
from ...tvm_library import load_module

device = of_type

__all__ = ["Device", "Module", "NDArray", "Report", "array", "cpu", "device", "empty", "load_module",
           "load_param_dict",
           "load_param_dict_from_file", "save_param_dict", "save_param_dict_to_file"]
