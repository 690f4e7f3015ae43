"""ttnn.model_preprocessing: the parameters of torch modules as ttnn tensors, with the names of the modules.

Weights of linear layers are transposed; biases, and the parameters of norms, become tensors of one row;
tables of embeddings are in ROW_MAJOR. All are bfloat16. A caller's preprocessor may convert a module in
another way. With a model's name and CONFIG.enable_model_cache the tensors are kept in files.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import Unsupported
from ..memory.values import DataType, Layout
from ..operations.creation.conversion import OF_NUMPY, from_torch
from ..operations.movement.moves import to_device
from ..settings import SETTINGS
from ..tensors.tensor import Tensor
from .cache import (
    Conv2dArgs,
    ConvTranspose2dArgs,
    GroupNormArgs,
    MaxPool2dArgs,
    ModuleArgs,
    ParameterDict,
    ParameterList,
    cached,
    make_parameter_dict,
)

__all__ = [
    "convert_torch_model_to_ttnn_model",
    "default_preprocessor",
    "fold_batch_norm2d_into_conv2d",
    "infer_ttnn_module_args",
    "move_to_device",
    "preprocess_embedding_weight",
    "preprocess_layernorm_parameter",
    "preprocess_linear_bias",
    "preprocess_linear_weight",
    "preprocess_model",
    "preprocess_model_parameters",
    "preprocess_remaining_children_and_parameters",
]

TILE = Layout.TILE


# **************** one parameter ****************


def preprocess_linear_weight(
    weight: Any, *, dtype: DataType, layout: Layout = TILE, weights_mesh_mapper: Any = None
) -> Any:
    """A weight [out, in] as [in, out]. ``weights_mesh_mapper`` has no effect on one chip."""
    return from_torch(weight.T.contiguous(), dtype=dtype, layout=layout, mesh_mapper=weights_mesh_mapper)


def preprocess_linear_bias(
    bias: Any, *, dtype: DataType, layout: Layout = TILE, weights_mesh_mapper: Any = None
) -> Any:
    """A bias [n] as [1, n]."""
    return from_torch(bias.reshape((1, -1)), dtype=dtype, layout=layout, mesh_mapper=weights_mesh_mapper)


def preprocess_layernorm_parameter(parameter: Any, *, dtype: DataType, layout: Layout = TILE) -> Any:
    """A parameter [n] as [1, n]."""
    return from_torch(parameter.reshape((1, -1)), dtype=dtype, layout=layout)


def preprocess_embedding_weight(weight: Any, *, dtype: DataType) -> Any:
    """A table of embeddings in ROW_MAJOR."""
    return from_torch(weight, dtype=dtype)


def fold_batch_norm2d_into_conv2d(conv: Any, bn: Any) -> tuple[Any, Any]:
    """(weight, bias) of a convolution that includes the batch norm after it. Raises RuntimeError for a norm
    without running statistics."""
    if not bn.track_running_stats:
        raise RuntimeError("BatchNorm2d must have track_running_stats=True to be folded into Conv2d")
    factor = bn.weight / (bn.running_var + bn.eps).sqrt()
    bias = -bn.running_mean if conv.bias is None else conv.bias - bn.running_mean
    return conv.weight * factor[:, None, None, None], bias * factor + bn.bias


# **************** many parameters ****************


def default_preprocessor(model: Any, name: str, ttnn_module_args: Any) -> ParameterDict:
    """The parameters of a linear layer, a layer norm or an embedding; an empty dict for other modules."""
    import torch

    kind, made = DataType.BFLOAT16, {}
    if isinstance(model, torch.nn.Linear):
        made["weight"] = preprocess_linear_weight(model.weight, dtype=kind)
        if model.bias is not None:
            made["bias"] = preprocess_linear_bias(model.bias, dtype=kind)
    elif isinstance(model, torch.nn.LayerNorm):
        for key in ("weight", "bias"):
            made[key] = preprocess_layernorm_parameter(getattr(model, key), dtype=kind)
    elif isinstance(model, torch.nn.Embedding):
        made["weight"] = preprocess_embedding_weight(model.weight, dtype=kind)
    return make_parameter_dict(made)


def _type_of(parameter: Any) -> DataType:
    """The ttnn type of a parameter of other layers: bfloat16 for floats."""
    found = OF_NUMPY.get(str(parameter.dtype).removeprefix("torch."), DataType.BFLOAT16)
    return DataType.BFLOAT16 if found.is_float else found


def _by_caller(preprocessor: Callable[..., Any], model: Any, name: str, more: Mapping[str, Any]) -> Any:
    parameters = list(inspect.signature(preprocessor).parameters)
    if len(parameters) < 2:
        raise RuntimeError("Custom preprocessor must have at least two parameters: model and name")
    unknown = [key for key in parameters[2:] if key not in more]
    if unknown:
        raise RuntimeError(f"Unsupported parameter: {unknown[0]}")
    return preprocessor(model, name, **{key: more[key] for key in parameters[2:]})


def convert_torch_model_to_ttnn_model(
    model: Any,
    *,
    convert_to_ttnn: Callable[[Any, str], bool],
    custom_preprocessor: Callable[..., Any] | None,
    name: str,
    ttnn_module_args: Any,
) -> Any:
    """The parameters of a module and of its parts. A module for which ``convert_to_ttnn(module, name)`` is
    false keeps torch's tensors. Raises RuntimeError if some of a layer's parameters were not converted."""
    import torch

    how: dict[str, Any] = {"convert_to_ttnn": convert_to_ttnn, "custom_preprocessor": custom_preprocessor}

    def part(child: Any, key: Any) -> Any:
        inner = None if ttnn_module_args is None else _found(ttnn_module_args, key)
        whole = f"{name}.{key}" if name else f"{key}"
        return convert_torch_model_to_ttnn_model(child, name=whole, ttnn_module_args=inner, **how)

    if isinstance(model, torch.nn.ModuleList):
        return ParameterList([part(child, at) for at, child in enumerate(model.children())])
    if custom_preprocessor is not None:
        more = {"ttnn_module_args": ttnn_module_args, "convert_to_ttnn": convert_to_ttnn}
        made = _by_caller(custom_preprocessor, model, name, more)
        if made:
            return make_parameter_dict(made)
    own = [(key, value) for key, value in model.named_parameters() if "." not in key]
    children = list(model.named_children())
    if not convert_to_ttnn(model, name):
        found = dict(own)
        if isinstance(model, torch.nn.Linear):
            found["weight"] = model.weight.T.contiguous()
        made = make_parameter_dict(found)
    else:
        made = default_preprocessor(model, name, ttnn_module_args)
        if made:
            if len(made) != len(children) + len(own):
                raise RuntimeError(f"not all parameters of {name or type(model).__name__} were converted")
            return made
        made = ParameterDict({key: from_torch(value, dtype=_type_of(value)) for key, value in own})
    for key, child in children:
        number: Any = int(key) if key.isdigit() else key
        if inner := part(child, number):
            made[number] = inner
    return made


def _found(args: Any, key: Any) -> Any:
    return args.get(key) if isinstance(args, dict) else args[key]


def preprocess_remaining_children_and_parameters(
    model: Any,
    name: str,
    convert_to_ttnn: Callable[[Any, str], bool],
    custom_preprocessor: Callable[..., Any] | None,
    parameters: Any,
    ttnn_module_args: Any,
    *,
    already_preprocessed_children: Any,
) -> Any:
    """The parameters of a module together with the parameters of the module's parts that are not among
    ``already_preprocessed_children``."""
    for key, child in model.named_children():
        if key not in already_preprocessed_children:
            parameters[key] = convert_torch_model_to_ttnn_model(
                child,
                convert_to_ttnn=convert_to_ttnn,
                custom_preprocessor=custom_preprocessor,
                name=name,
                ttnn_module_args=None if ttnn_module_args is None else ttnn_module_args.get(key),
            )
    for key, value in model.named_parameters():
        if "." not in key and key not in already_preprocessed_children:
            parameters[key] = from_torch(value, dtype=_type_of(value))
    return parameters


def move_to_device(value: Any, device: Any) -> Any:
    """Move all tensors of parameters to a device, in place."""
    if isinstance(value, ParameterDict):
        value.update({key: move_to_device(one, device) for key, one in value.items()})
    elif isinstance(value, ParameterList):
        value[:] = [move_to_device(one, device) for one in value]
    elif isinstance(value, Tensor):
        return to_device(value, device)
    return value


# **************** arguments of modules ****************

_PLAIN = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")


def _args_of(module: Any, shape: Any, device: Any) -> ModuleArgs | None:
    import torch

    image = {"batch_size": shape[0], "input_height": shape[-2], "input_width": shape[-1]}
    kinds = {"dtype": DataType.BFLOAT16, "weights_dtype": DataType.BFLOAT16, "device": device}
    if isinstance(module, torch.nn.Conv2d | torch.nn.ConvTranspose2d):
        names: tuple[str, ...] = (*_PLAIN, "padding_mode")
        kind: type[ModuleArgs] = Conv2dArgs
        if isinstance(module, torch.nn.ConvTranspose2d):
            names, kind = (*names, "output_padding"), ConvTranspose2dArgs
        return kind({key: getattr(module, key) for key in names} | image | kinds)
    if isinstance(module, torch.nn.MaxPool2d):
        names = ("kernel_size", "stride", "padding", "dilation")
        found = {key: getattr(module, key) for key in names} | image
        return MaxPool2dArgs(found | {"input_channels": shape[1], "dtype": DataType.BFLOAT16})
    if isinstance(module, torch.nn.GroupNorm):
        names = ("num_groups", "num_channels", "eps", "affine")
        return GroupNormArgs({key: getattr(module, key) for key in names} | image)
    return None


def infer_ttnn_module_args(*, model: Any, run_model: Callable[[Any], Any] | None, device: Any) -> Any:
    """The arguments of convolutions, pools and group norms in a traced run of the model, by the names of the
    model's parts; None if there is no ``run_model``."""
    from ..graphs.nodes import TorchModule
    from ..graphs.traced import get_graph
    from ..graphs.tracer import trace

    if run_model is None:
        return None
    with trace():
        output = run_model(model)

    def inner(graph: Any) -> ParameterDict:
        made = ParameterDict()
        for node in graph:
            operation = graph.nodes[node]["operation"]
            if not isinstance(operation, TorchModule):
                continue
            name = operation.module.__ttnn_tracer_name__.split(".")[-1]
            (source, _, data), *_ = graph.in_edges(node, data=True)
            shape = graph.nodes[source]["shapes"][data["source_output_index"]]
            args = _args_of(operation.module, shape, device)
            made[int(name) if name.isdigit() else name] = inner(operation.graph) if args is None else args
        return made

    return inner(get_graph(output))[""]


def _with_args(parameters: Any, args: Any) -> Any:
    """The parameters, with ``args`` of each module's call added as ``ttnn_module_args``."""
    if isinstance(args, ModuleArgs):
        parameters["ttnn_module_args"] = type(args)({k: v for k, v in args.items() if k != "device"})
    else:
        for key, value in parameters.items():
            if key in args and isinstance(value, dict):
                _with_args(value, args[key])
    return parameters


# **************** whole models ****************


def _converted(
    initialize_model: Any, run_model: Any, convert: Any, custom: Any, device: Any, prefix: str
) -> Any:
    model = initialize_model()
    model.eval()
    args = infer_ttnn_module_args(model=model, run_model=run_model, device=device)
    made = convert_torch_model_to_ttnn_model(
        model, convert_to_ttnn=convert, custom_preprocessor=custom, name=prefix, ttnn_module_args=args
    )
    return make_parameter_dict(made if args is None else _with_args(made, args))


def preprocess_model(
    *,
    model_name: str | None = None,
    version: str | None = None,
    initialize_model: Callable[[], Any] | None = None,
    convert_to_ttnn: Callable[[Any, str], bool] | None = None,
    custom_preprocessor: Callable[..., Any] | None = None,
    device: Any = None,
    prefix: str | None = "",
    run_model: Callable[[Any], Any] | None = None,
    reader_patterns_cache: Any = None,
) -> Any:
    """The parameters of ``initialize_model()``, on ``device`` if there is one. With ``model_name`` and
    CONFIG.enable_model_cache they come from files, if these are of ``version`` (None: the git hash).
    ``run_model`` runs the model once, which shows the arguments of its parts. ``reader_patterns_cache``
    belonged to an older conv2d and is not read. Raises RuntimeError if there are neither files nor a model,
    Unsupported for pools and convolutions as objects."""

    def made() -> Any:
        if initialize_model is None:
            raise RuntimeError(
                f'Cached weights for the model {model_name} (version "{version}") don\'t exist'
            )
        convert = convert_to_ttnn or (lambda *_: True)
        return _converted(initialize_model, run_model, convert, custom_preprocessor, device, prefix or "")

    if model_name is None or not SETTINGS.enable_model_cache:
        parameters = made()
    else:
        parameters = cached(model_name, version, made)
    if _has_args(parameters) and device is not None:
        text = "ttnn.model_preprocessing: layers as objects (ttnn.Conv2d, ttnn.MaxPool2d) are not supported"
        raise Unsupported(text, op="ttnn.model_preprocessing.preprocess_model")
    return parameters if device is None else move_to_device(parameters, device)


preprocess_model_parameters = preprocess_model


def _has_args(value: Any) -> bool:
    if isinstance(value, ParameterList):
        return any(map(_has_args, value))
    if not isinstance(value, ParameterDict):
        return False
    args = value.get("ttnn_module_args")
    return (isinstance(args, Conv2dArgs) and isinstance(value.get("weight"), Tensor)) or any(
        map(_has_args, value.values())
    )
