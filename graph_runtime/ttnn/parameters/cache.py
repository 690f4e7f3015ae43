"""Parameters by name, and the files that keep them: the dicts and the cache of ttnn.model_preprocessing."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..memory.values import DataType
from ..operations.creation.conversion import dump_tensor, load_tensor
from ..settings import SETTINGS
from ..tensors.tensor import Tensor

__all__ = [
    "Conv2dArgs",
    "ConvTranspose2dArgs",
    "GroupNormArgs",
    "MaxPool2dArgs",
    "ModuleArgs",
    "ParameterDict",
    "ParameterList",
    "make_parameter_dict",
]


class ParameterList(list[Any]):
    """The parameters of a list of modules."""

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and index < len(self)


class ParameterDict(dict[Any, Any]):
    """The parameters of a module, by name; also as attributes: parameters.layer.weight."""

    __delattr__ = dict.__delitem__

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no parameter {name!r}, there are {sorted(map(str, self))}") from None


class ModuleArgs(ParameterDict):
    """Arguments of a module's call, in the form that the ttnn function of the module takes."""


def _kind(name: str, function: str) -> Any:
    return type(name, (ModuleArgs,), {"__doc__": f"Arguments of {function}.", "__module__": __name__})


Conv2dArgs, ConvTranspose2dArgs = (
    _kind("Conv2dArgs", "conv2d"),
    _kind("ConvTranspose2dArgs", "conv_transpose2d"),
)
MaxPool2dArgs, GroupNormArgs = _kind("MaxPool2dArgs", "max_pool2d"), _kind("GroupNormArgs", "group_norm")


def make_parameter_dict(dictionary: Mapping[Any, Any]) -> ParameterDict:
    """A ParameterDict with the contents of nested dicts."""
    return make_dot_access_dict(dictionary)


def make_dot_access_dict(dictionary: Any, *, ignore_types: type | tuple[type, ...] | None = None) -> Any:
    """As make_parameter_dict; a dict of ``ignore_types`` stays as it is."""
    if isinstance(dictionary, ParameterDict) or isinstance(dictionary, ignore_types or ()):
        return dictionary
    made = {
        k: make_dot_access_dict(v, ignore_types=ignore_types)
        for k, v in dictionary.items()
        if isinstance(v, dict)
    }
    return ParameterDict({**dictionary, **made})


def _git_hash() -> str:
    try:
        found = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError("Couldn't get git hash: give version=") from error
    return found.decode("ascii").strip()


def cached(name: str, version: str | None, made: Callable[[], Any]) -> Any:
    """The parameters of the model ``name``, from its files if these are of ``version`` (None: the git hash),
    else from ``made()``; the files then keep the new parameters."""
    version = version or _git_hash()
    folder = Path(SETTINGS.model_cache_path) / name.replace("/", "_")
    marked = folder / "version.txt"
    if marked.is_file() and marked.read_text() == version:
        return _read(folder)
    parameters = made()
    shutil.rmtree(folder, ignore_errors=True)
    _write(folder, parameters)
    marked.write_text(version)
    return parameters


def _write(folder: Path, parameters: Any) -> None:
    import torch

    folder.mkdir(parents=True)
    listed = isinstance(parameters, ParameterList)
    for key, value in enumerate(parameters) if listed else parameters.items():
        path = folder / f"{key}"
        if isinstance(value, ModuleArgs):
            plain = {k: [v.name] if isinstance(v, DataType) else v for k, v in value.items()}
            path.with_name(f"{key}.args").write_text(json.dumps([type(value).__name__, plain]))
        elif isinstance(value, (ParameterDict, ParameterList)):
            _write(path, value)
        elif isinstance(value, Tensor):
            dump_tensor(path.with_name(f"{key}.tensorbin"), value)
        else:
            torch.save(value, path.with_name(f"{key}.pt"))


_TYPES = ("dtype", "weights_dtype")
_ARGS = {kind.__name__: kind for kind in (Conv2dArgs, ConvTranspose2dArgs, MaxPool2dArgs, GroupNormArgs)}


def _read(folder: Path) -> Any:
    import torch

    made = ParameterDict()
    for path in folder.iterdir():
        key: Any = int(path.stem) if path.stem.isdigit() else path.stem
        if path.is_dir():
            made[key] = _read(path)
        elif path.suffix == ".tensorbin":
            made[key] = load_tensor(path)
        elif path.suffix == ".pt":
            made[key] = torch.load(path)
        elif path.suffix == ".args":
            kind, found = json.loads(path.read_text())
            types = {k: DataType[v[0]] for k, v in found.items() if k in _TYPES}
            plain = {k: tuple(v) if isinstance(v, list) else v for k, v in found.items()}
            made[key] = _ARGS[kind](plain | types)
    if made and all(isinstance(key, int) for key in made):
        return ParameterList([made[key] for key in sorted(made)])
    return made
