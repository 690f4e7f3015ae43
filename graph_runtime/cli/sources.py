"""The argument MODEL of commands and its flags, opened by artifacts/door.py; the reading of flags' values;
and messages on stderr: the current step, and with GR_DEBUG the model that run and bench run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import typer

from ..artifacts.door import BUNDLE, Plannable, Waiting, kind_of, open_source
from ..artifacts.libraries.judge import read_library
from ..artifacts.prepare import Prepared
from ..base import config, dtypes
from ..base.errors import DocumentError, InputError
from ..base.files.mapped import map_file
from ..base.json_text import brief
from ..base.options import Options
from ..base.progress import Tell, silent
from ..ir.documents.params import Cursor
from ..ir.documents.tensor_files import read_npy
from ..ir.graph import TensorType

if TYPE_CHECKING:
    from ..plan import Plan
    from ..run.module import GraphModule
    from ..simulation.timeline import Timeline


def is_bundle(path: Path) -> bool:
    """Whether the path is a bundle: a folder or a zip."""
    return kind_of(path) == BUNDLE


def open_given(
    path: Path,
    devices: Sequence[str] | None = None,
    libraries: Sequence[Path] | None = None,
    params: Path | None = None,
    options: Options | None = None,
    tell: Tell = silent,
    *,
    native: bool = True,
    rebuild: bool = False,
) -> Plannable | Waiting:
    """The source that MODEL names, opened; no code of a library runs. --device, --library and --params
    replace the bundle's devices, libraries and parameters. ``native``: False with --no-native; ``rebuild``:
    True with --rebuild. Raises as open_source."""
    found = [read_library(file) for file in libraries or ()]
    if not path.exists():
        raise DocumentError(f"there is no file {path}", got=str(path))
    kernels = None
    if not native or rebuild:
        from ..run.loading import chosen_kernels  # most runs use the default kernels

        kernels = chosen_kernels(native, rebuild)
    return open_source(
        path, options, devices or None, libraries=found, params=params, kernels=kernels, tell=tell
    )


def open_first(path: Path, *flags: Any, **words: Any) -> Plannable:
    """The source, opened as by open_given. For a bundle, the result is its first program; a line on stderr
    says whether there are more. Raises Waiting.why for a model that has no program before it runs."""
    found = open_given(path, *flags, **words)
    if isinstance(found, Waiting):
        raise found.why
    return say_first(found)


def say_first(first: Plannable) -> Plannable:
    """``first``, after a line on stderr if its bundle has more programs."""
    if first.bundle is not None and first.entry is not None and len(first.bundle.programs) > 1:
        programs = first.bundle.programs
        names = ", ".join(one.name for one in programs[:8])
        more = f" and {len(programs) - 8} more" if len(programs) > 8 else ""
        typer.echo(
            f"{first.name} has {len(programs)} programs: {names}{more}; what follows is of "
            f"{first.entry.name} alone, {_sizes(first)}",
            err=True,
        )
    return first


def _sizes(opened: Plannable) -> str:
    """The inputs of a bundle's program, with their types."""
    assert opened.entry is not None, "of a bundle"
    graph = opened.graph
    types = dict(zip(graph.input_names, map(graph.entry_type, graph.input_eids), strict=True))
    return ", ".join(f"{name} {types[name]}" for name in opened.entry.inputs) or "which has no inputs"


def open_run(opened: Plannable, prepared: Prepared, tell: Tell = silent) -> GraphModule:
    """The prepared source as a module ready to run. Raises as open_module."""
    from ..run.factory import open_prepared, warn_of  # needs the native core; looking at a file does not
    from ..run.loading import open_module

    warn_of(prepared)
    if opened.bundle is None:
        module = open_prepared(prepared, opened.libraries, opened.name, tell=tell)
    else:
        module = open_module(opened, prepared, tell=tell)
    show_plan(module)
    return module


# **************** on stderr ****************


@contextmanager
def progress(shown: bool = True) -> Iterator[Tell]:
    """A Tell, for the block, that draws a progress bar; the bar disappears when the block ends.

    The bar is not drawn if stderr is no terminal, so that a log gets only results and warnings.
    """
    if not (shown and sys.stderr.isatty()):
        yield silent
        return
    from rich.console import Console  # only for terminals: the import takes 50 ms
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=console, transient=True) as bars:

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for task in tasks.values():
                    bars.update(task, visible=False)
                tasks[what] = bars.add_task(what, total=None)
            bars.update(tasks[what], completed=done, total=total or None)

        yield tell


# **************** GR_DEBUG ****************


def show_plan(module: GraphModule) -> None:
    """Print devices and memories from GR_DEBUG level 1 on, and every node, copy and storage with its cause
    from level 3 on."""
    level, plan = int(config.get("DEBUG")), module.session.plan
    if not level:
        return
    from ..views import report  # only these messages need it

    if level >= 3:
        _say(report.plan_text(plan))
    else:
        inserted = int((plan.origin < 0).sum())
        _say(
            f"{plan.graph.num_nodes} nodes ({inserted} copies inserted) on "
            f"{', '.join(map(str, plan.devices))}, {plan.storage.count} storages\n{report.summary(plan)}"
        )


def timed_run(module: GraphModule, record: bool = False) -> Timeline | None:
    """Run once. From GR_DEBUG level 2 on, the nodes run one by one, with a line on stderr after each and a
    table by op at the end. Return the timeline of such a run. ``record``: whether other runs are recorded,
    too; None is returned for a run that is not recorded."""
    if int(config.get("DEBUG")) >= 2:
        from ..run.peak import machine_peak
        from ..views.measured import stepped_run
        from ..views.node_rates import op_totals, op_totals_text

        took: dict[int, float] = {}
        timeline = stepped_run(module.session, _tell(module.session.plan, took))
        _say(op_totals_text(op_totals(module.session.plan, took), machine_peak().as_dict()))
        return timeline
    if record:
        from ..views.measured import queued_run

        return queued_run(module.session)
    module.run()
    return None


def _tell(plan: Plan, took: dict[int, float]) -> Callable[[int, int], None]:
    """A function that prints one line per node, and adds its time to ``took``."""

    def line(nid: int, ns: int) -> None:
        took[nid] = took.get(nid, 0.0) + ns
        node = plan.graph.node(nid)
        _say(f"{ns / 1e3:12.1f} us  {plan.devices[plan.did[nid]]!s:6}  {node.name} ({node.op})")

    return line


def _say(text: str) -> None:
    typer.echo(text, err=True)


# **************** values ****************

# Values of flags are texts: name=text pairs, sizes, and for inputs numbers, .npy files or "random".

_INPUT = "--input takes a .npy file or the word random"


def pairs(items: Sequence[str] | None, option: str, shown: str = "NAME=VALUE") -> dict[str, str]:
    """{left: right} of texts such as left=right. Raises InputError for a text without an equals sign.
    ``shown``: example for the error text."""
    found = {}
    for item in items or ():
        left, equals, right = item.partition("=")
        if not (left and equals and right):
            raise InputError(f"{option} {brief(item)!r}: write {option} {shown}", got=item)
        found[left] = right
    return found


def sizes(dims: Sequence[str] | None) -> dict[str, int | tuple[int, ...]]:
    """{name: size or sizes} of --dim. batch=4 gives the size of a dimension, x=1x3x224 the shape of an input,
    and batch=1,8,32 the buckets of a dimension. Raises InputError for a size that is not a positive number.
    """
    found: dict[str, int | tuple[int, ...]] = {}
    for name, text in pairs(dims, "--dim", "batch=4").items():
        parts = text.split("," if "," in text else "x")
        if not all(part.isdecimal() and len(part) < 11 and 0 < int(part) < 1 << 31 for part in parts):
            said = f"--dim {brief(name)}={brief(text)}: a size is a positive number, as in --dim batch=4"
            raise InputError(said, got=text)
        found[name] = int(text) if len(parts) == 1 else tuple(map(int, parts))
    return found


def constants(values: Mapping[str, str]) -> dict[str, Any]:
    """{input: number, numbers or array} of --value NAME=text. Raises InputError for a text that is neither
    numbers nor a file."""
    return {name: _constant(name, text) for name, text in values.items()}


def _constant(name: str, text: str) -> Any:
    try:
        found = orjson.loads(f"[{text.lower()}]")
    except ValueError:
        found = None
    if not found or not all(isinstance(item, (bool, int, float)) for item in found):
        if Path(text).suffix == ".npy":
            return _read_array(text, "--value takes numbers or a .npy file")
        raise InputError(
            f"--value {brief(name)}={brief(text)}: a value is a number, numbers as 1,2,3, true, false, or "
            "a .npy file",
            got=text,
        )
    return found if len(found) > 1 else found[0]


def random_array(type_: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Random values for an input that the user did not give: normal floats, small integers."""
    dtype = dtypes.to_numpy(type_.dtype)
    if dtype.kind in "iub":
        return rng.integers(0, 2, type_.shape).astype(dtype)
    return rng.standard_normal(type_.shape).astype(dtype)


def read_input(text: str, type_: TensorType, rng: np.random.Generator) -> np.ndarray:
    """The value of --input NAME=text: "random", or a .npy file."""
    if text == "random":
        return random_array(type_, rng)

    return _read_array(text, _INPUT)


def read_texts(text: str) -> np.ndarray:
    """The strings of a .npy file, as an array of objects. Raises InputError if the file is not one of
    strings."""
    try:
        array = np.load(text, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # reading a bad header raises many types, even of tokenize
        raise InputError(
            f"cannot read {text}: {error}; strings are a .npy file of numpy's own: "
            "numpy.save(file, numpy.array(texts, str))",
            got=text,
        ) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind != "U":
        raise InputError(f"{text} has no array of strings", got=text)
    if array.size > os.path.getsize(text):  # an array of empty strings takes no bytes
        raise InputError(
            f"{text} is damaged: it declares {array.size} strings and has fewer bytes", got=array.size
        )
    return array.astype(object)


def _read_array(text: str, wanted: str) -> np.ndarray:
    """The array of a .npy file. Raises InputError. ``wanted``: end of the error text, which says what the
    file must contain."""

    def wrong(message: str, offset: int) -> InputError:
        return InputError(f"cannot read {text}: {message} (byte {offset}); {wanted}", got=text)

    try:
        data = map_file(text)
    except (OSError, ValueError) as error:
        said = f"cannot read {text}: {getattr(error, 'strerror', None) or error}; {wanted}"
        raise InputError(said, got=text) from None
    if data[:2] == b"PK":
        raise InputError(f"{text} is an .npz of several arrays; a .npy file has one: save it alone", got=text)
    return read_npy(Cursor(data, wrong))
