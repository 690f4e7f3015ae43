"""Text of a captured graph (captures.py): names of device operations, arguments and tensors as text, and
serialize_graph, which reads such text."""

from __future__ import annotations

import re
from typing import Any

from ..memory.configs import MemoryConfig
from ..memory.values import DataType, Layout
from ..registry import TRANSFERS
from ..tensors.tensor import Tensor

# ttnn function that runs a single device operation -> that operation
DEVICE_NAMES = {
    name: device
    for device, names in {
        "PermuteDeviceOperation": "permute transpose",
        "MatmulDeviceOperation": "matmul linear",
        "SoftmaxDeviceOperation": "softmax",
        "LayerNormDeviceOperation": "layer_norm rms_norm",
        "EmbeddingsDeviceOperation": "embedding",
        "ConcatDeviceOperation": "concat",
        "SliceDeviceOperation": "slice",
        "PadDeviceOperation": "pad",
        "TypecastDeviceOperation": "typecast",
        "TopKDeviceOperation": "topk",
        "TernaryDeviceOperation": "where",
        "ReduceDeviceOperation": "sum mean max min",
        "ArgMaxDeviceOperation": "argmax",
        "TilizeDeviceOperation": "tilize",
        "UntilizeDeviceOperation": "untilize",
        "InterleavedToShardedDeviceOperation": "interleaved_to_sharded",
        "ShardedToInterleavedDeviceOperation": "sharded_to_interleaved",
        "ReshardDeviceOperation": "reshard",
        "CloneOperation": "clone",
        "FullLikeOperation": "full_like",
        "FullDeviceOperation": "moreh_full moreh_full_like",
        "BinaryNgDeviceOperation": (
            "add subtract multiply div eq ne lt le gt ge logical_and logical_or logical_xor rsub pow "
            "squared_difference maximum minimum bitwise_and bitwise_or bitwise_xor"
        ),
        "UnaryDeviceOperation": (
            "relu exp log sqrt rsqrt abs neg sigmoid silu gelu tanh sin cos tan reciprocal square floor ceil "
            "erf sign relu6 leaky_relu elu hardswish hardsigmoid softplus logical_not isnan isinf"
        ),
    }.items()
    for name in names.split()
}


def arguments_of(name: str, args: Any, given: Any, on_device: bool) -> tuple[str, list[str]]:
    """(function's name in a graph, texts of the function's arguments). The texts are [attributes, tensors]
    for a device operation, [] for other functions."""
    if name in TRANSFERS or not (on_device or name in DEVICE_NAMES):
        return f"ttnn.{name}", []
    tensors = [x for x in (*args, *given.values()) if isinstance(x, Tensor)]
    plain = [_text(x) for x in args if not isinstance(x, Tensor)]
    plain += [f"{key}={_text(x)}" for key, x in given.items() if not isinstance(x, Tensor)]
    config = given.get("memory_config") or (tensors[0].memory_config() if tensors else MemoryConfig())
    like = tensors[0].dtype if tensors else DataType.BFLOAT16
    layout = tensors[0].layout if tensors else Layout.TILE
    if name == "transpose" and tensors:
        plain = [_turned(len(tensors[0].shape), *args[1:3], **given)]
    attributes = ", ".join([*plain, _name(like), _name(layout), memory_text(config)])
    inputs = "{}" if name.startswith("moreh_full") else f"{{{', '.join(map(_tensor_text, tensors))}}}"
    return DEVICE_NAMES.get(name, f"ttnn::{name}"), [f"{{{attributes}}}", inputs]


def _turned(rank: int, first: Any = None, second: Any = None, dim0: Any = 0, dim1: Any = 1, **_: Any) -> str:
    dims = list(range(rank))
    a, b = (dim0 if first is None else first) % rank, (dim1 if second is None else second) % rank
    dims[a], dims[b] = dims[b], dims[a]
    return f"SmallVector({dims})"


def _name(value: Any) -> str:
    return f"{type(value).__name__}::{value.name}"


def _text(value: Any) -> str:
    if isinstance(value, MemoryConfig):
        return memory_text(value)
    if isinstance(value, (DataType, Layout)):
        return _name(value)
    if isinstance(value, (list, tuple)):
        return f"SmallVector([{', '.join(map(_text, value))}])"
    return "std::nullopt" if value is None else str(value)


def _tensor_text(tensor: Tensor) -> str:
    config = memory_text(tensor.memory_config())
    return f"Tensor(Shape({list(tensor.shape)}), {_name(tensor.dtype)}, {_name(tensor.layout)}, {config})"


def memory_text(config: MemoryConfig) -> str:
    spec = config.shard_spec
    cut = "std::nullopt" if spec is None else f"ShardSpec(grid={spec.grid}, shape={spec.shape})"
    return (
        f"MemoryConfig(memory_layout={_name(config.memory_layout)},buffer_type={_name(config.buffer_type)},"
        f"shard_spec={cut})"
    )


def tensor_params(tensor: Tensor) -> dict[str, Any]:
    return {
        "shape": f"Shape({list(tensor.shape)})",
        "tensor_id": tensor.tensor_id,
        "dtype": _name(tensor.dtype),
        "layout": _name(tensor.layout),
        "size": tensor.logical_volume() * tensor.element_size(),
    }


def create_arguments(tensor: Tensor) -> list[str]:
    """The arguments of create_device_tensor: shape, type, layout, device, memory."""
    shape = f"Shape({list(tensor.shape)})"
    config = memory_text(tensor.memory_config())
    return [shape, _name(tensor.dtype), _name(tensor.layout), repr(tensor._device), config]


# **************** reading ****************

_FIELD = re.compile(r"(\w+)=([^,(){}]+)(?:,|$)")


def _parsed(text: str, at: int) -> dict[str, Any]:
    """{"argN": the value in the text}; the value is UnparsedElement if the text is more than a name with
    plain fields."""
    key, text = f"arg{at}", "".join(c if c >= " " else f"\\u{ord(c):04X}" for c in text)
    if found := re.fullmatch(r"(\w+)\(\[([-\d, ]*)\]\)", text):
        return {key: {found[1]: [int(n) for n in found[2].split(",") if n.strip()]}}
    if (found := re.fullmatch(r"(\w+)\((.*)\)", text)) and not _FIELD.sub("", found[2]).strip():
        return {key: {found[1]: dict(_FIELD.findall(found[2]))}}
    if re.search(r"[(=\[]", text):
        return {"UnparsedElement": {"error": "no plain value", "element_info": text}}
    return {key: text}


def serialize_graph(captured_graph: list[dict[str, Any]]) -> dict[str, Any]:
    """The functions of a captured graph with their arguments, as plain values."""
    return {
        "content": [
            {
                "operation": node["params"].get("name", ""),
                "arguments": [_parsed(text, at) for at, text in enumerate(node["arguments"])],
            }
            for node in captured_graph
            if node["arguments"]
        ]
    }
