"""gr_jit: a jax function that is lowered once for each kind of arguments; each kind has its own session."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.absent import installing, load_fault
from ..base.errors import InputError, did_you_mean
from ..base.exact import exactly
from ..frontends.stablehlo.source import read_source
from ..run.factory import create
from ..run.module import GraphModule
from ..run.tensors.tensor import Tensor

try:
    import jax
except ImportError as error:
    text = f"graph_runtime.jax needs the jax package{load_fault(error)}: {installing('jax')}"
    raise InputError(text, wanted="jax") from error

_OUTPUTS = ("jax", "numpy", "tensor")
_IMPLEMENTATIONS = {"fry": "threefry2x32", "urbg": "unsafe_rbg"}  # {key dtype: jax.random's implementation}


def gr_jit(
    function: Callable[..., Any] | None = None,
    *,
    devices: Any = ("cpu:0",),
    outputs: str = "jax",
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    **options: Any,
) -> Any:
    """A function that computes the same as jax.jit(function), on ``devices``; without ``function``, a
    decorator.

    ``outputs``: type of the returned arrays: "jax", "numpy", or "tensor" (tensors of the session, which the
    next call overwrites). Static and donated arguments work as in jax: a donated argument shares its memory
    with a result of its type, and a result passed to the next call is not copied in again; donated jax arrays
    are deleted. ``options``: further options of gr.create. Raises InputError for other ``outputs``.
    Calls raise the errors of jax's tracing, of gr.create and of run.
    """
    if outputs not in _OUTPUTS:
        raise InputError(
            f"outputs {outputs!r} is none of {', '.join(_OUTPUTS)}{did_you_mean(outputs, _OUTPUTS)}"
        )
    words = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
    }

    def wrap(f: Callable[..., Any]) -> GrJit:
        jitted = jax.jit(f, keep_unused=True, **{k: v for k, v in words.items() if v is not None})
        return GrJit(jitted, _statics(f, static_argnums, static_argnames), devices, outputs, options)

    return wrap if function is None else wrap(function)


@dataclass(frozen=True, slots=True)
class _Statics:
    """Which arguments are static (not arrays), by position and by name."""

    places: frozenset[int]
    names: frozenset[str]


def _statics(f: Callable[..., Any], places: Any, names: Any) -> _Statics:
    """The static arguments as in jax: an argument given by position is also static by name, and an argument
    given by name is also static by position."""
    given = () if names is None else (names,) if isinstance(names, str) else tuple(names)
    numbers = () if places is None else (places,) if isinstance(places, int) else tuple(places)
    if not given and not numbers:
        return _Statics(frozenset(), frozenset())
    of_f = list(inspect.signature(f).parameters)
    at = {n % len(of_f) if of_f else n for n in numbers}
    at |= {of_f.index(name) for name in given if name in of_f}
    return _Statics(frozenset(at), frozenset(given) | {of_f[n] for n in at})


@dataclass(eq=False)
class _Compiled:
    """A function compiled for one kind of arguments. ``inputs``: {name: dtype}, in jax's order; ``infos``:
    jax's descriptions of the outputs; ``donated``: for each input whether jax may reuse its memory;
    ``states`` {input: number of the output that is written into it}; ``held`` {input in ``states``: the value
    that was last returned for the input's output}."""

    module: GraphModule
    inputs: dict[str, np.dtype]
    infos: list[Any]
    tree: Any
    donated: list[bool]
    states: dict[str, int]
    held: dict[str, Any] = field(default_factory=dict)


class GrJit:
    """The function that gr_jit returns. ``lower(*args)``: method that returns jax's lowering for these
    arguments; ``modules``: GraphModules, one for each kind of arguments used so far."""

    def __init__(self, jitted: Any, statics: _Statics, devices: Any, outputs: str, options: dict[str, Any]):
        self._jitted, self._statics = jitted, statics
        self._devices, self._outputs, self._options = devices, outputs, options
        self._by_kind: dict[Any, _Compiled] = {}
        update_wrapper(self, jitted.__wrapped__)

    def __repr__(self) -> str:
        return (
            f"<GrJit of {getattr(self, '__name__', 'a function')}: {len(self._by_kind)} kinds of arguments>"
        )

    @property
    def modules(self) -> list[GraphModule]:
        """The modules, one for each kind of arguments, in the order of the first calls."""
        return [compiled.module for compiled in self._by_kind.values()]

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """jax's Lowered object, lowered for the CPU."""
        return self._jitted.trace(*args, **kwargs).lower(lowering_platforms=("cpu",))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result for these arguments: jax's tree, with arrays as leaves."""
        still = self._statics
        arrays = [arg for i, arg in enumerate(args) if i not in still.places]
        named = {name: arg for name, arg in kwargs.items() if name not in still.names}
        fixed: tuple[Any, ...] = tuple((i, args[i]) for i in sorted(still.places) if i < len(args))
        fixed += tuple(sorted((name, kwargs[name]) for name in still.names & kwargs.keys()))
        leaves, tree = jax.tree_util.tree_flatten((arrays, named))
        key = tree, fixed, tuple([_kind(leaf) for leaf in leaves])
        compiled = self._by_kind.get(key)
        if compiled is None:
            compiled = self._by_kind[key] = self._compile(self.lower(*args, **kwargs))
        return self._run(compiled, leaves)

    def _compile(self, lowered: Any) -> _Compiled:
        source = read_source(lowered)
        module = create(source, devices=self._devices, **self._options)
        states: dict[str, int] = {}
        if isinstance(module, GraphModule):  # a flow writes no outputs into inputs
            names = module.session.graph.input_names
            states = {names[at]: output for output, at in module.session.plan.aliases}
        inputs = {name: dtypes.to_numpy(kind.dtype) for name, kind in source.inputs().items()}
        donated = [bool(info.donated) for info in jax.tree_util.tree_leaves(lowered.args_info)]
        infos, tree = jax.tree_util.tree_flatten(lowered.out_info)
        return _Compiled(module, inputs, infos, tree, donated, states)

    def _run(self, compiled: _Compiled, leaves: Sequence[Any]) -> Any:
        module, given = compiled.module, {}
        for (name, dtype), leaf in zip(compiled.inputs.items(), leaves, strict=True):
            if name not in compiled.held or compiled.held[name] is not leaf:
                given[name] = _array(leaf, dtype)
        compiled.held = {}  # if the run fails, no held value is valid
        module.run(**given)
        made = [self._value(module.get_output(i), info) for i, info in enumerate(compiled.infos)]
        compiled.held = {name: made[output] for name, output in compiled.states.items()}
        for leaf, donated in zip(leaves, compiled.donated, strict=True):
            if donated and isinstance(leaf, jax.Array):
                leaf.delete()
        return jax.tree_util.tree_unflatten(compiled.tree, made)

    def _value(self, tensor: Any, info: Any) -> Any:
        if self._outputs == "tensor":
            return tensor
        array = np.array(tensor.numpy())
        if _is_key(info):
            name = str(info.dtype).removeprefix("key<").removesuffix(">")
            return jax.random.wrap_key_data(array, impl=_IMPLEMENTATIONS.get(name, name))
        array.flags.writeable = False  # a returned state stays in the session, so callers must not change it
        return array if self._outputs == "numpy" else jax.numpy.asarray(array)


def _is_key(leaf: Any) -> bool:
    """Whether a leaf is an array of jax's random keys."""
    return hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _array(leaf: Any, dtype: np.dtype) -> np.ndarray:
    if isinstance(leaf, Tensor):
        return leaf.numpy()
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    return exactly(array, dtype, "an argument")


def _kind(leaf: Any) -> Any:
    """A hashable value that is equal for leaves that one lowering serves: shape, dtype, and whether jax may
    widen the dtype."""
    if isinstance(leaf, (bool, int, float, complex)):
        return type(leaf)
    if not hasattr(leaf, "dtype"):
        raise InputError(f"an argument is a {type(leaf).__name__}, no array: make it static", got=type(leaf))
    return tuple(leaf.shape), str(leaf.dtype), getattr(leaf, "weak_type", False)
