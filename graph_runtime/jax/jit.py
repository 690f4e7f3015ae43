"""gr_jit: a function of jax's, lowered once for each kind of arguments, run by a session each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.absent import load_fault
from ..base.errors import InputError, did_you_mean
from ..base.exact import exactly
from ..frontends.stablehlo.source import read_source
from ..run.factory import create
from ..run.module import GraphModule
from ..run.tensors.tensor import Tensor

try:
    import jax
except ImportError as error:
    raise InputError(
        f'graph_runtime.jax needs the jax package{load_fault(error)}: pip install "graph-runtime[jax]"',
        wanted="jax",
    ) from error

__all__ = ["GrJit", "gr_jit"]

_OUTPUTS = ("jax", "numpy", "tensor")
_IMPLEMENTATIONS = {"fry": "threefry2x32", "urbg": "unsafe_rbg"}  # of keys, by the name that a dtype has


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
    """A function that computes what jax.jit(function) does, on ``devices``; a decorator without ``function``.

    ``outputs``: what its arrays are: "jax", "numpy", or "tensor", tensors of the session that the next call
    overwrites. Static and donated arguments are jax's: a donated argument whose result has its type shares
    its memory, and a result that comes back as the next call's argument is not copied in again; donated jax
    arrays are deleted. ``options`` are those of gr.create. Raises InputError for other ``outputs``; calling
    it raises what jax raises while it traces, and as gr.create and run.
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
    """Arguments that are no arrays, by place and by name."""

    places: frozenset[int]
    names: frozenset[str]


def _statics(f: Callable[..., Any], places: Any, names: Any) -> _Statics:
    """As jax: what one of the two says is said of the other."""
    given = () if names is None else (names,) if isinstance(names, str) else tuple(names)
    numbers = () if places is None else (places,) if isinstance(places, int) else tuple(places)
    if not given and not numbers:
        return _Statics(frozenset(), frozenset())
    of_f = list(inspect.signature(f).parameters)
    at = {n % len(of_f) if of_f else n for n in numbers}
    at |= {of_f.index(name) for name in given if name in of_f}
    return _Statics(frozenset(at), frozenset(given) | {of_f[n] for n in at})


@dataclass(eq=False)
class _Program:
    """A function at one kind of arguments. ``inputs``: dtypes by name, in jax's order; ``infos``: of the
    outputs; ``donated``: for each input whether jax may reuse it; ``states``: for inputs that an output is
    written into, that output; ``held``: what was returned for them."""

    module: GraphModule
    inputs: dict[str, np.dtype]
    infos: list[Any]
    tree: Any
    donated: list[bool]
    states: dict[str, int]
    held: dict[str, Any] = field(default_factory=dict)


class GrJit:
    """What gr_jit returns. ``lower(*args)``: jax's lowering for these arguments; ``modules``: of the kinds of
    arguments that it was called with so far."""

    def __init__(self, jitted: Any, statics: _Statics, devices: Any, outputs: str, options: dict[str, Any]):
        self._jitted, self._statics = jitted, statics
        self._devices, self._outputs, self._options = devices, outputs, options
        self._programs: dict[Any, _Program] = {}
        update_wrapper(self, jitted.__wrapped__)

    def __repr__(self) -> str:
        return f"<GrJit of {getattr(self, '__name__', 'a function')}: {len(self._programs)} programs>"

    @property
    def modules(self) -> list[GraphModule]:
        """One for each kind of arguments, in the order of the first calls."""
        return [program.module for program in self._programs.values()]

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """jax's Lowered, for a host."""
        return self._jitted.trace(*args, **kwargs).lower(lowering_platforms=("cpu",))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns for these arguments, a tree of arrays."""
        still = self._statics
        arrays = [arg for i, arg in enumerate(args) if i not in still.places]
        named = {name: arg for name, arg in kwargs.items() if name not in still.names}
        fixed: tuple[Any, ...] = tuple((i, args[i]) for i in sorted(still.places) if i < len(args))
        fixed += tuple(sorted((name, kwargs[name]) for name in still.names & kwargs.keys()))
        leaves, tree = jax.tree_util.tree_flatten((arrays, named))
        key = tree, fixed, tuple([_kind(leaf) for leaf in leaves])
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._compile(self.lower(*args, **kwargs))
        return self._run(program, leaves)

    def _compile(self, lowered: Any) -> _Program:
        source = read_source(lowered)
        module = create(source, devices=self._devices, **self._options)
        states: dict[str, int] = {}
        if isinstance(module, GraphModule):  # a flow hands nothing on in place
            names = module.session.graph.input_names
            states = {names[at]: output for output, at in module.session.plan.aliases}
        inputs = {name: dtypes.to_numpy(kind.dtype) for name, kind in source.inputs().items()}
        donated = [bool(info.donated) for info in jax.tree_util.tree_leaves(lowered.args_info)]
        infos, tree = jax.tree_util.tree_flatten(lowered.out_info)
        return _Program(module, inputs, infos, tree, donated, states)

    def _run(self, program: _Program, leaves: Sequence[Any]) -> Any:
        module, given = program.module, {}
        for (name, dtype), leaf in zip(program.inputs.items(), leaves, strict=True):
            if name not in program.held or program.held[name] is not leaf:
                given[name] = _array(leaf, dtype)
        program.held = {}  # a run that fails leaves nothing that is known
        module.run(**given)
        made = [self._value(module.get_output(i), info) for i, info in enumerate(program.infos)]
        program.held = {name: made[output] for name, output in program.states.items()}
        for leaf, donated in zip(leaves, program.donated, strict=True):
            if donated and isinstance(leaf, jax.Array):
                leaf.delete()
        return jax.tree_util.tree_unflatten(program.tree, made)

    def _value(self, tensor: Any, info: Any) -> Any:
        if self._outputs == "tensor":
            return tensor
        array = np.array(tensor.numpy())
        if _is_key(info):
            name = str(info.dtype).removeprefix("key<").removesuffix(">")
            return jax.random.wrap_key_data(array, impl=_IMPLEMENTATIONS.get(name, name))
        array.flags.writeable = False  # it may come back as what the session has already
        return array if self._outputs == "numpy" else jax.numpy.asarray(array)


def _is_key(leaf: Any) -> bool:
    """Whether its elements are jax's keys of random numbers."""
    return hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _array(leaf: Any, dtype: np.dtype) -> np.ndarray:
    if isinstance(leaf, Tensor):
        return leaf.numpy()
    array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
    return exactly(array, dtype, "an argument")


def _kind(leaf: Any) -> Any:
    """Equal for leaves that one lowering serves: shape, dtype and whether jax may widen it."""
    if isinstance(leaf, (bool, int, float, complex)):
        return type(leaf)
    if not hasattr(leaf, "dtype"):
        raise InputError(f"an argument is a {type(leaf).__name__}, no array: make it static", got=type(leaf))
    return tuple(leaf.shape), str(leaf.dtype), getattr(leaf, "weak_type", False)
