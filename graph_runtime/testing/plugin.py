"""The pytest plugin, which pytest loads by an entry point: the fixture ``check_graph``. Importing it costs
nothing.

def test_my_network(check_graph):
    check_graph("network.json", devices=["cpu:0", "tt:0"])
"""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def check_graph():
    """check_graph(graph, library=None, devices=("cpu:0",), **options) runs a graph on random inputs and
    compares it with the numpy interpreter: unchanged, with its storage planned anew, and with its devices
    rotated among its nodes.

    ``graph``: JSON text, a path, a Graph or a GraphBuilder. ``library``: None for the built-in kernels.
    ``options``: options of compare.compare, such as seed, inputs, bound, nodes, formats and functions. Fails
    the test with the differences, worst first; returns {arrangement: Comparison, or the reason why it is
    impossible}.
    """

    def check(graph, library=None, devices=("cpu:0",), **options):
        __tracebackhide__ = True
        from ..accuracy.compare import (  # imports numpy and the core, only if a test uses it
            Comparison,
            compare_arrangements,
        )
        from ..base.errors import GraphRuntimeError

        try:
            reports = compare_arrangements(graph, library, devices, **options)
        except GraphRuntimeError as error:  # the text names the fault; a traceback does not
            pytest.fail(f"{type(error).__name__}: {error}", pytrace=False)
        wrong = [
            f"{name}: {report}"
            for name, report in reports.items()
            if isinstance(report, Comparison) and not report.ok
        ]
        if wrong:
            pytest.fail(
                "\n".join(wrong) + f"\n(seed={options.get('seed', 0)} replays the inputs)", pytrace=False
            )
        return reports

    return check
