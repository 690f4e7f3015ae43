"""graph-runtime bench"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from ..artifacts.prepare import prepare
from ..base.options import Options
from . import options as opt
from .sources import open_first, open_run, progress, random_array

__all__ = ["bench"]


@opt.with_options()
def bench(
    graph: opt.Source,
    options: Options,
    device: opt.Devices = None,
    library: opt.LibraryFiles = None,
    params: opt.Params = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Measurements.")] = 10,
    number: Annotated[int, typer.Option("--number", min=1, help="Minimum runs per measurement.")] = 1,
    min_repeat_ms: Annotated[
        int, typer.Option("--min-repeat-ms", min=0, help="Minimum milliseconds of a measurement.")
    ] = 50,
    end_to_end: Annotated[
        bool, typer.Option("--end-to-end", help="Set inputs and fetch outputs too.")
    ] = False,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Print a table of each node's time, over --repeat runs.")
    ] = False,
    seed: opt.Seed = 0,
    native: opt.Native = True,
    rebuild: opt.Rebuild = False,
    json: opt.Json = False,
) -> None:
    """Time a graph on random inputs. On --device null:0 kernels do nothing: the time is the runtime's own.

    Example: graph-runtime bench net.bundle --repeat 20 --threads 1
    """
    with progress(not json) as tell:
        opened = open_first(graph, device, library, params, options, tell, native=native, rebuild=rebuild)
        module = open_run(opened, prepare(opened, None, options, tell=tell), tell)
    rng = np.random.default_rng(seed)
    names = module.get_input_info()[0]
    values: dict[str, Any] = {name: random_array(module.get_input(name).type, rng) for name in names}
    if nodes:
        module.set_input(**values)
        times = module.benchmark_nodes(repeat)
        if json:
            opt.print_json({"graph": opened.name, "empty_ns": times.empty_ns, "nodes": times.rows()})
        else:
            typer.echo(str(times))
        return
    result = module.benchmark(
        repeat=repeat, number=number, min_repeat_ms=min_repeat_ms, end_to_end=end_to_end, **values
    )
    calls = module.session.program.main
    if json:
        opt.print_json(
            {
                "graph": opened.name,
                "devices": [str(d) for d in module.session.plan.devices],
                "instructions": calls,
                "results": result.results,
                "mean": result.mean,
                "median": result.median,
                "min": result.min,
                "max": result.max,
                "std": result.std,
                "ns_per_instruction": result.median * 1e9 / max(calls, 1),
            }
        )
        return
    typer.echo(str(result))
    typer.echo(f"{calls} instructions, {result.median * 1e9 / max(calls, 1):.1f} ns each (median)")
