"""graph-runtime run"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..artifacts.door import Plannable, Waiting
from ..artifacts.prepare import Prepared, prepare
from ..base.errors import InputError, did_you_mean
from ..base.files.writing import writing
from ..base.options import Options
from ..run.module import GraphModule
from . import options as opt
from .expect import Difference, compare_outputs, read_expected, write_outputs
from .output.pictures import (
    Html,
    Trace,
    Visualizer,
    page_of_problem,
    write_prepared_page,
    write_trace,
    write_visualizer,
)
from .sources import open_given, open_run, pairs, progress, random_array, read_input, say_first, timed_run

if TYPE_CHECKING:
    from ..accuracy.differences import Comparison
    from ..simulation.timeline import Timeline

__all__ = ["run"]

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the outputs to an .npz, by name.")]
Expect = Annotated[
    Path | None,
    typer.Option(
        "--expect",
        help="An .npz with outputs to compare with, by name or as output<i>; in:<name> for inputs that "
        "are not given.",
    ),
]
Rtol = Annotated[float, typer.Option("--rtol", help="Relative tolerance of --expect.")]
Atol = Annotated[float, typer.Option("--atol", help="Absolute tolerance of --expect.")]
Compare = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Compare outputs and every node with the numpy interpreter: alone, and with errors added "
        "up; worst first. Inputs not given are random.",
    ),
]
Profile = Annotated[
    bool,
    typer.Option("--profile", help="Also run node by node; print time, share, rates, kernel by node and op."),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        help="Compare the outputs with those of another runtime, onnxruntime; if they differ, find the "
        "first node that does.",
    ),
]

_PROFILED = 10  # number of runs of --profile, in which nodes run one by one


@opt.with_options(but=("reuse",))
def run(
    graph: opt.Source,
    options: Options,
    input: opt.Inputs = None,
    params: opt.Params = None,
    device: opt.Devices = None,
    library: opt.LibraryFiles = None,
    output: Output = None,
    expect: Expect = None,
    rtol: Rtol = 1e-5,
    atol: Atol = 1e-6,
    compare: Compare = False,
    against: Against = None,
    profile: Profile = False,
    seed: opt.Seed = 0,
    native: opt.Native = True,
    rebuild: opt.Rebuild = False,
    trace: Trace = None,
    html: Html = None,
    visualizer: Visualizer = None,
    json: opt.Json = False,
) -> None:
    """Run a graph once and show its outputs. A bundle's libraries from other machines run only if trusted
    (graph-runtime trust).

    Example: graph-runtime run net.bundle --input x=x.npy --output y.npz

    Example: graph-runtime run model.onnx --input x=random

    Example: graph-runtime run net.json --device cpu:0 --device tt:0 --place 'conv*=tt:0' --compare
    """
    expected = read_expected(expect) if expect else {}
    looks: dict[str, Any] = {"compare": compare, "against": against, "profile": profile}
    looks |= {"trace": trace, "html": html, "visualizer": visualizer, "params": params, "library": library}
    with progress(not json) as tell:
        opened = open_given(graph, device, library, params, options, tell, native=native, rebuild=rebuild)
        if isinstance(opened, Waiting) and input and any(looks.values()):
            from .flows import bind_inputs  # needs onnx, unlike most commands

            opened, options = bind_inputs(opened, options, pairs(input, "--input"))
        if isinstance(opened, Plannable) and not opened.has_flow:
            with page_of_problem(html, opened.name) if html else nullcontext():
                prepared = prepare(say_first(opened), None, options, tell=tell)
            module = open_run(opened, prepared, tell)
    if isinstance(opened, Waiting) or opened.has_flow:
        from .flows import flow_of, run_flow

        flow = flow_of(opened, options, looks)
        made = run_flow(flow, pairs(input, "--input"), expected, options.dims, seed)
        _write(output, made[0], made[1])
        differences = compare_outputs(made[1], made[0], expected, rtol, atol) if expect else None
        return _show(*made, differences, [], None, json)
    fill, rng = compare or against is not None, np.random.default_rng(seed)
    _set_inputs(module, pairs(input, "--input"), expected, fill, rng)
    start = time.perf_counter()
    timeline = timed_run(module, record=bool(trace or html))
    seconds = time.perf_counter() - start
    values = [module.get_output(i).numpy() for i in range(module.get_num_outputs())]
    write_trace(trace, timeline)
    names = module.session.graph.output_names
    _write(output, names, values)
    differences = compare_outputs(values, names, expected, rtol, atol) if expect else None
    reports = [_compare(opened, prepared, module)] if compare else []
    write_visualizer(visualizer, module.session.plan, opened.name, reports)
    if html and timeline is not None:
        _write_page(html, opened.name, prepared, timeline, _kept(prepared, module, values), *reports)
    if against:
        from ..accuracy.against import Judge

        judge = Judge(against, graph, options, device or ["cpu:0"], _arrays(module, opened.model.input_names))
        reports.append(judge.compare(values, module.session.plan))
    tables = _profile(module) if profile else None
    _show(names, values, seconds, differences, reports, tables, json)


def _set_inputs(
    module: GraphModule,
    given: dict[str, str],
    expected: dict[str, np.ndarray],
    fill: bool,
    rng: np.random.Generator,
) -> None:
    """Set inputs from --input, then in:<name> of --expect, then random values if ``fill``; parameters are set
    already."""
    graph = module.session.graph
    unset = set(module.get_input_info()[0])
    for name in given:
        if name not in graph.input_names:
            raise InputError(
                f"--input {name}: the graph has no such input"
                f"{did_you_mean(name, sorted(unset) or graph.input_names)}",
                got=name,
            )
    values: dict[str, Any] = {}
    for index, name in enumerate(graph.input_names):
        type_ = graph.entry_type(int(graph.input_eids[index]))
        if name in given:
            values[name] = read_input(given[name], type_, rng)
        elif f"in:{name}" in expected:
            values[name] = expected[f"in:{name}"]
        elif name in unset and fill:
            values[name] = random_array(type_, rng)
    missing = [name for name in graph.input_names if name in unset and name not in values]
    if missing:
        files = " (or --params FILE for all that it holds)" if len(missing) > 1 else ""
        raise InputError(
            f"inputs without a value: {', '.join(missing)}; give --input {missing[0]}=FILE.npy "
            f"or --input {missing[0]}=random{files}",
            wanted=missing,
        )
    module.set_input(**values)


def _arrays(module: GraphModule, names: Iterable[str]) -> dict[str, np.ndarray]:
    return {name: module.get_input(name).numpy() for name in names}


def _compare(opened: Plannable, prepared: Prepared, module: GraphModule) -> Comparison:
    from ..accuracy.compare import compare_prepared

    source = prepared.source
    names = [name for name in source.graph.input_names if name not in source.constants]
    return compare_prepared(prepared, opened.libraries, inputs=_arrays(module, names))


def _kept(prepared: Prepared, module: GraphModule, outputs: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
    """{eid in the plan's graph: value} of the outputs, and of the inputs that are not constants."""
    graph, constants = module.session.plan.graph, prepared.model.constants
    eids = dict(zip(graph.input_names, graph.input_eids.tolist(), strict=True))
    inputs = _arrays(module, [name for name in eids if name not in constants])
    kept = {eids[name]: value for name, value in inputs.items()}
    return kept | dict(zip(np.asarray(graph.outputs).tolist(), outputs, strict=True))


def _write_page(
    html: Path,
    name: str,
    prepared: Prepared,
    measured: Timeline,
    kept: dict[int, np.ndarray],
    compared: Comparison | None = None,
) -> None:
    """Write the page of a run, with measured and predicted times, and comparisons. ``kept``: tensors that the
    page summarises."""
    from ..simulation.simulation import simulate

    timelines = {"measured": measured, "simulated": simulate(measured.plan)}
    comparison = None if compared is None else compared.as_dict()
    write_prepared_page(html, name, prepared, timelines=timelines, comparison=comparison, kept=kept)


def _storable(value: np.ndarray) -> np.ndarray:
    """The array in a dtype that .npz can store: bfloat16, int4 and other extension dtypes as float32, which
    holds their values exactly; strings become as wide as the longest."""
    if value.dtype.kind == "O":
        return value.astype(str)
    return value.astype(np.float32) if value.dtype.kind == "V" else value


def _dtype_name(value: np.ndarray) -> str:
    return "string" if value.dtype.kind == "O" else value.dtype.name


def _profile(module: GraphModule) -> dict[str, Any]:
    """The rows of the tables by node and by op, and the machine's rates."""
    from ..run.peak import machine_peak
    from ..views.node_rates import node_rates, op_totals

    ns = module.benchmark_nodes(_PROFILED).medians()
    return {
        "nodes": node_rates(module.session.program, ns),
        "ops": op_totals(module.session.plan, ns),
        "machine": machine_peak().as_dict(),
    }


def _write(output: Path | None, names: Sequence[str], values: Sequence[np.ndarray]) -> None:
    if output:
        with writing(output, through=True) as part, part.open("wb") as file:
            write_outputs(file, {name: _storable(v) for name, v in zip(names, values, strict=True)})


def _show(
    names: Sequence[str],
    values: list[np.ndarray],
    seconds: float,
    differences: list[Difference] | None,
    reports: list[Comparison],
    profile: dict[str, Any] | None,
    json: bool,
) -> None:
    """Show the outputs, comparisons and times. Exit code 1 if a comparison failed."""
    failed = not all(one.ok for one in (*(differences or ()), *reports))
    if json:
        rows = [
            {"name": name, "shape": value.shape, "dtype": _dtype_name(value)}
            for name, value in zip(names, values, strict=True)
        ]
        result: dict[str, Any] = {"outputs": rows, "seconds": seconds}
        if differences is not None:
            result["expect"] = [d.as_dict() for d in differences]
        if profile is not None:
            result["profile"] = profile
        for report in reports:
            result["compare" if report.judge == "numpy" else report.judge] = report.as_dict()
        opt.print_json(result)
        raise typer.Exit(int(failed))
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        text = np.array2string(_storable(value.ravel()[:6]), precision=6, separator=" ", max_line_width=200)
        more = " ..." if value.size > 6 else ""
        typer.echo(f"output {i} {name}: {_dtype_name(value)}{list(value.shape)} {text}{more}")
    typer.echo(f"run: {seconds * 1e3:.3f} ms")
    for line in [*(differences or ()), *reports]:
        typer.echo(str(line))
    if profile is not None:
        from ..views.node_rates import node_rates_text, op_totals_text

        typer.echo(node_rates_text(profile["nodes"], opt.terminal_width()) + "\n")
        typer.echo(op_totals_text(profile["ops"], profile["machine"], opt.terminal_width()))
    if failed:
        raise typer.Exit(1)
