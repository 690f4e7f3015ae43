"""Meaning of the signature of a function's body: it says which arguments are tensors, to be checked before
the body runs, and which keywords place the result. ``operation`` (operation.py) reads the signature once and
wraps each call.

A parameter's annotation says what the body gets: a Tensor (on a device), a TiledTensor (in tiles), a
FloatTensor (of floats), or the values of such a tensor: WideValue, TiledValue, FloatValue. Each may have ``|
None``. An AnyTensor is not checked and may be on the host. A parameter ``goal`` is the result's Target.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from ..devices.wide_value import WideValue
from ..memory.configs import MemoryConfig
from ..memory.values import DataType, Layout
from ..tensors.tensor import Tensor
from .results import device_tensor, finish, float_tensor, target, tiled_input

AnyTensor = Tensor
TiledTensor = Tensor
FloatTensor = Tensor
TiledValue = WideValue
FloatValue = WideValue

# keywords that place a result: name -> (the argument of ``target``, its annotation)
PLACES = {
    "memory_config": ("memory_config", "MemoryConfig | None"),
    "dtype": ("dtype", "DataType | None"),
    "output_dtype": ("dtype", "DataType | None"),
    "output_tensor": ("output_tensor", "Tensor | None"),
    "output": ("output_tensor", "Tensor | None"),
    "out": ("output_tensor", "Tensor | None"),
    "optional_output_tensor": ("output_tensor", "Tensor | None"),
    "input_grad": ("output_tensor", "Tensor | None"),
    "input_grad_tensor": ("output_tensor", "Tensor | None"),
}
_KINDS: dict[str, tuple[type, ...]] = {
    "dtype": (DataType,),
    "layout": (Layout,),
    "memory_config": (MemoryConfig,),
}
_CHECKED = {"Tensor", "TiledTensor", "FloatTensor", "WideValue", "TiledValue", "FloatValue"}
_ANNOTATED = re.compile(r"\b(?:Any|Tiled|Float)Tensor\b|\b(?:Wide|Tiled|Float)Value\b")


class Parameters:
    """The parameters of a body. ``positional``, ``keywords``: parameters that the body names; ``added``:
    keywords that the decorator adds; ``order``: published order of the keywords, where "..." stands for the
    body's keywords that are not listed; ``open``: whether the body takes any other keyword."""

    __slots__ = ("added", "defaults", "function", "keywords", "names", "open", "order", "positional")

    def __init__(self, function: Callable[..., Any], takes: str = ""):
        code = function.__code__
        named = code.co_argcount + code.co_kwonlyargcount
        self.function, self.positional = function, code.co_varnames[: code.co_argcount]
        self.keywords = code.co_varnames[code.co_argcount : named]
        self.order = tuple(takes.split(", ")) if takes else ()
        self.added = tuple(name for name in self.order if name not in (*self.keywords, "..."))
        rest = code.co_varnames[named + bool(code.co_flags & inspect.CO_VARARGS) :][:1]
        self.open = bool(code.co_flags & inspect.CO_VARKEYWORDS) and rest[0] not in ("_", "__")
        own = (name for name in self.keywords if name != "goal")
        self.names = (*self.positional, *own, *self.added)
        usual = function.__defaults__ or ()
        self.defaults = dict(zip(self.positional[len(self.positional) - len(usual) :], usual, strict=True))
        self.defaults |= function.__kwdefaults__ or {}

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, and the defaults of those that it leaves out."""
        return {**self.defaults, **dict(zip(self.positional, args, strict=False)), **kwargs}

    def kinds(self) -> tuple[tuple[int, str], ...]:
        """(position, name) of the arguments that are types, layouts and memories; the position of a
        keyword-only argument is -1."""
        places = {name: at for at, name in enumerate(self.positional)}
        return tuple(
            (places.get(name, -1), name)
            for name in (*self.positional, *self.keywords, *self.added)
            if name in _KINDS
        )

    def signature(self) -> inspect.Signature:
        """The published signature: the body's parameters and the added keywords; all operands are tensors."""
        own = inspect.signature(self.function)
        first: list[inspect.Parameter] = []
        keywords: dict[str, inspect.Parameter] = {}
        last: list[inspect.Parameter] = []
        for one in own.parameters.values():
            if one.name == "goal" or (one.kind is one.VAR_KEYWORD and not self.open):
                continue
            one = one.replace(annotation=_published(one.annotation))
            if one.kind is one.KEYWORD_ONLY:
                keywords[one.name] = one
            else:
                (last if one.kind is one.VAR_KEYWORD else first).append(one)
        new = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY, default=None)
        known = {name: new(name, annotation=PLACES.get(name, ("", "Any"))[1]) for name in self.added}
        rest = [name for name in keywords if name not in self.order]
        at = self.order.index("...") if "..." in self.order else 0
        order = [*self.order[:at], *rest, *self.order[at:]]
        inner = [(known | keywords)[name] for name in order if name != "..."]
        return inspect.Signature([*first, *inner, *last], return_annotation=_published(own.return_annotation))


def _published(annotation: Any) -> Any:
    return _ANNOTATED.sub("Tensor", annotation) if isinstance(annotation, str) else annotation


def check_kinds(op: str, kinds: tuple[tuple[int, str], ...], args: Any, kwargs: Any) -> None:
    """Raise TypeError for an argument that should be a type, a layout or a memory and is not."""
    for at, name in kinds:
        value = args[at] if 0 <= at < len(args) else kwargs.get(name)
        if value is not None and not isinstance(value, _KINDS[name]):
            text = f"{name} is {value!r}, wanted a ttnn.{_KINDS[name][0].__name__}"
            raise TypeError(f"{op}(): incompatible function arguments: {text}")


class _Operand:
    """An operand of a body: the check to make, and whether the body gets the tensor's values (``valued``)."""

    __slots__ = ("at", "is_float", "is_tiled", "name", "optional", "text", "valued", "what")

    def __init__(self, at: int, name: str, annotation: str, tiled: str):
        self.at, self.name, self.optional = at, name, annotation.endswith("| None")
        kind = annotation.removesuffix(" | None")
        self.is_float, self.is_tiled = kind.startswith("Float"), kind.startswith("Tiled")
        self.valued = kind.endswith("Value")
        self.what = "input tensor" if at == 0 and name.startswith("input") else name.replace("_", " ")
        self.text = tiled or f"the {self.what} must be in TILE layout"

    def checked(self, value: Any) -> Tensor:
        if self.is_float:
            return float_tensor(value, self.what)
        return tiled_input(value, self.text, self.what) if self.is_tiled else device_tensor(value, self.what)


def _operands(parameters: Parameters, tiled: str) -> tuple[_Operand, ...]:
    """The operands among the parameters of a body, in order."""
    annotations, places = parameters.function.__annotations__, parameters.positional
    return tuple(
        _Operand(at if at < len(places) else -1, name, annotations[name], tiled)
        for at, name in enumerate((*places, *parameters.keywords))
        if annotations.get(name, "").removesuffix(" | None") in _CHECKED
    )


def around(
    body: Callable[..., Any],
    takes: str = "",
    tiled: str = "",
    like: str = "",
    in_place: bool = False,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    into_wins: bool = False,
) -> Callable[..., Any]:
    """A function that checks the tensors of a call, calls the body and places the values that it returns.
    ``takes``: keywords to add, such as "memory_config, ..., output_tensor", where the dots stand for the
    body's own keywords; keywords of PLACES place the result, the others have no effect. ``like``: the operand
    whose place and dtype a result has by default; without ``like``, the first operand. ``in_place``: whether
    the result is written into that operand. ``dtype``, ``layout``: defaults for the result. ``into_wins``:
    whether the dtype of an output tensor overrides the caller's dtype. ``tiled``: the text of the error about
    an operand that is not in tiles."""
    call = _Call(Parameters(body, takes), tiled, like)
    call.in_place, call.into_wins, call.dtype, call.layout = in_place, into_wins, dtype, layout
    body.parameters = call.parameters  # type: ignore[attr-defined]

    def function(*args: Any, **given: Any) -> Any:
        return call.made(args, given)

    return functools.update_wrapper(function, body, assigned=("__module__", "__doc__"))


class _Call:
    """The steps around a body. Operands are found in the first call, so that imports stay fast. ``model``:
    the argument ``like`` of around; each other field has the name of its argument of around."""

    __slots__ = ("dtype", "in_place", "into_wins", "layout", "model", "operands", "parameters", "tiled")
    dtype: DataType | None
    layout: Layout | None
    in_place: bool
    into_wins: bool
    operands: tuple[_Operand, ...] | None

    def __init__(self, parameters: Parameters, tiled: str, model: str):
        self.parameters, self.tiled, self.model, self.operands = parameters, tiled, model, None

    def made(self, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        """The result of a call."""
        if self.operands is None:
            self.operands = _operands(self.parameters, self.tiled)
            self.model = self.model or self.operands[0].name if self.operands else ""
        parameters = self.parameters
        said: dict[str, Any] = {"dtype": self.dtype, "layout": self.layout}
        for name in parameters.added:
            value = given.pop(name, None)
            if value is not None and name in PLACES:
                said[PLACES[name][0]] = value
        if self.into_wins and "output_tensor" in said:
            said["dtype"] = None
        first, passed = None, list(args)
        for one in self.operands:
            here = 0 <= one.at < len(args)
            value = args[one.at] if here else given.get(one.name)
            if value is None and (one.optional or not (here or one.name in given)):
                continue  # a missing argument: Python raises its own TypeError
            tensor = one.checked(value)
            if one.name == self.model:
                first = tensor
            if here:
                passed[one.at] = tensor._value if one.valued else tensor
            else:
                given[one.name] = tensor._value if one.valued else tensor
        if self.in_place and first is not None:
            said["output_tensor"] = first
        if first is not None and "goal" in parameters.keywords:
            given["goal"] = target(first, **said)
        made = parameters.function(*passed, **given)
        return made if first is None else _placed(made, first, said)


def _placed(made: Any, first: Tensor, said: dict[str, Any]) -> Any:
    """``made`` with each WideValue placed as a tensor, also inside of a list or tuple; other objects are
    unchanged."""
    if isinstance(made, WideValue):
        return finish(target(first, **said), made)
    if isinstance(made, (list, tuple)):
        return type(made)(_placed(one, first, said) for one in made)
    return made
