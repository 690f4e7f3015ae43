"""The names of ttnn's interface, for ``import ttnn`` and graph_runtime.compat.ttnn.

``__all__`` of each module lists the names that belong to ttnn's interface; operations are found by name in
the registry.
"""

# ruff: noqa: F403
from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..base.errors import did_you_mean
from ..base.version import VERSION
from . import submodules
from .accepted.rules import ttnn_accepts as ttnn_accepts
from .answers import *
from .devices.chip_mesh import *
from .devices.chips import *
from .devices.memory_views import *
from .devices.mesh_device import *
from .devices.mesh_device import MeshDevice
from .devices.opening import *
from .devices.traces import *
from .errors import Unsupported as Unsupported
from .golden.functions import *
from .memory.configs import *
from .memory.cores import *
from .memory.enums import *
from .memory.values import *
from .memory.values import DataType, Layout, StorageType
from .operations import (  # noqa: F401  (each makes its operations)
    attention,
    collectives,
    complex_tensors,
    creation,
    diffusion_norms,
    elementwise,
    experts,
    gradients,
    images,
    indexing,
    model_kernels,
    moreh,
    movement,
    norms,
    products,
    recurrences,
    reduction,
    semaphores,
    transforms,
)
from .operations.complex_tensors import ComplexTensor as ComplexTensor
from .operations.declined import decline_the_rest
from .operations.elementwise.activations import *
from .operations.operation import REPORTERS
from .operations.operation import Operation as Operation
from .operations.operation import register_post_operation_hook as register_post_operation_hook
from .operations.operation import register_pre_operation_hook as register_pre_operation_hook
from .operations.operators import *
from .operations.other_names import serve_under_other_names
from .operations.products.matmul import *
from .operations.recurrences.kda import *
from .programs.configs import *
from .programs.descriptors import *
from .programs.windows import *
from .registry import OPERATIONS
from .released.names import filled
from .settings import *
from .settings import SETTINGS
from .tensors.distributed import *
from .tensors.drawn_meshes import *
from .tensors.placements import *
from .tensors.specs import *
from .tensors.tensor import Tensor as Tensor
from .tensors.text import *

RELEASE = "0.81.1"  # the release of ttnn whose names and rules these are
__version__ = f"{RELEASE}+graph.runtime.{VERSION}"  # a local version (PEP 440): no card's ttnn has one
Device = MeshDevice
CONFIG = SETTINGS
CONFIG_PATH = CONFIG_OVERRIDES = None
bfloat16, float32 = DataType.BFLOAT16, DataType.FLOAT32
bfloat8_b, bfloat4_b = DataType.BFLOAT8_B, DataType.BFLOAT4_B
uint8, uint16, uint32, int32 = DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.INT32
int8, fp8_e4m3 = DataType.INT8, DataType.FP8_E4M3
ROW_MAJOR_LAYOUT, TILE_LAYOUT = Layout.ROW_MAJOR, Layout.TILE
DEVICE_STORAGE_TYPE = StorageType.DEVICE


def _compared(*call: Any) -> Any:
    from .graphs.compared_calls import compared  # loaded if CONFIG asks for it

    return compared(*call)


def _logged(*call: Any) -> Any:
    from .graphs.logged_calls import logged  # imported here, for it loads sqlite3

    return logged(*call)


decline_the_rest()
serve_under_other_names()
REPORTERS |= {"compared": _compared, "logged": _logged}

_ALIASES = {
    "mul": "multiply",
    "sub": "subtract",
    "divide": "div",
    "sub_": "subtract_",
    "mul_": "multiply_",
    "div_": "divide_",
}


def _named(name: str) -> Any:
    """What this module has under a name of ttnn, or None."""
    return OPERATIONS.get(_ALIASES.get(name, name), globals().get(name))


SUBMODULES = submodules.submodules(_named)
globals().update({name: module for name, module in SUBMODULES.items() if "." not in name})
globals().update(filled("", {*globals(), *_ALIASES, *OPERATIONS}, lambda name: None))


def __getattr__(name: str) -> Any:
    key = _ALIASES.get(name, name)
    if key in OPERATIONS:
        return OPERATIONS[key]
    raise AttributeError(f"module 'ttnn' has no attribute {name!r}{did_you_mean(name, OPERATIONS)}")


def install() -> None:
    """Let ``import ttnn`` import this module from now on. Raises RuntimeError if another ttnn is loaded."""
    submodules.install(sys.modules[__name__])


_OURS = {"Any", "ModuleType", "OPERATIONS", "REPORTERS", "SETTINGS", "annotations"}
_OURS |= {"decline_the_rest", "did_you_mean", "filled", "RELEASE", "VERSION", "serve_under_other_names"}
_NAMES = {
    name
    for name, value in globals().items()
    if not name.startswith("_")
    and name not in _OURS
    and (name in SUBMODULES or not isinstance(value, ModuleType))
}
__path__: list[str] = []  # this package has no files of its own: ttnn.NAME is in SUBMODULES
__all__ = sorted({*_NAMES, *_ALIASES, *(name for name in OPERATIONS if "." not in name)})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
