"""The page's own canvas beside chart libraries whose scripts come in a Python package: a timeline of events.

    pip install bokeh plotly selenium && python tests/bench/bench_view.py

Prints a JSON line for each way: bytes of the file, ms until it is loaded and drawn, ms of a zoom (the least
of several). Needs Debian's chromium and chromium-driver; a way whose package is absent is left out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import graph_runtime as gr
from graph_runtime.plan import plan
from graph_runtime.simulation.simulation import simulate
from graph_runtime.views.page.data import page_data
from graph_runtime.views.page.html import html_page
from graph_runtime.views.page.shown import Shown

Way = tuple[str, str]  # the file, a script that zooms and tells its callback when that is drawn
_DRAWN = "requestAnimationFrame(() => requestAnimationFrame(() => done()))"


def canvas(start: np.ndarray, end: np.ndarray, lane: np.ndarray) -> Way:
    """All views of the page, with as many events."""
    b = gr.GraphBuilder()
    x = b.input("x", (32, 32), device="cpu:0")
    for at in range(400):
        x = b.op("relu", x, name=f"n{at}", device="tt:0" if at % 2 else "cpu:0")
    b.output(x)
    planned = plan(b.build(), ["cpu:0", "tt:0"])
    one = simulate(planned)
    timeline = simulate(planned, runs=max(len(start) // len(one), 1))
    page = html_page(page_data("bench", Shown("bench", planned, {"simulated": timeline}))).decode()
    return page, f"made.timeline.board.zoom(1.3); {_DRAWN}"


def bokeh(start: np.ndarray, end: np.ndarray, lane: np.ndarray) -> Way:
    from bokeh.embed import file_html
    from bokeh.plotting import figure
    from bokeh.resources import INLINE

    drawing = figure(width=1000, height=600, tools="xpan,xwheel_zoom", output_backend="canvas")
    drawing.hbar(y=lane, left=start, right=end, height=0.8)
    zoom = (
        "const r = Bokeh.documents[0].roots()[0].x_range; r.setv({start: r.start + 0.1 * (r.end - r.start)});"
    )
    return file_html(drawing, INLINE, "bench"), f"{zoom} {_DRAWN}"


def plotly(start: np.ndarray, end: np.ndarray, lane: np.ndarray) -> Way:
    import plotly.graph_objects as go

    bars = go.Bar(y=lane, x=end - start, base=start, orientation="h", width=0.8)
    text = go.Figure(bars).to_html(include_plotlyjs=True, div_id="it")
    zoom = "const d = document.getElementById('it'), r = d.layout.xaxis.range;"
    layout = "{'xaxis.range': [r[0] + 0.1 * (r[1] - r[0]), r[1]]}"
    return text, f"{zoom} Plotly.relayout(d, {layout}).then(() => {_DRAWN})"


def measure(driver: webdriver.Chrome, make: Callable[..., Way], events: int, zooms: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    lane = rng.integers(0, 8, events)
    start = np.sort(rng.uniform(0, 1e6, events))
    text, zoom = make(start, start + rng.uniform(1, 60, events), lane)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(text, encoding="utf-8")
        opened = []
        for _ in range(3):
            driver.get("about:blank")
            driver.get(f"{file.as_uri()}#timeline")
            loaded = f"const tell = arguments[0], done = () => tell(performance.now()); {_DRAWN}"
            opened.append(driver.execute_async_script(loaded))
        begin = "const tell = arguments[0], from = performance.now()"
        timed = f"{begin}, done = () => tell(performance.now() - from); {zoom}"
        took = [driver.execute_async_script(timed) for _ in range(zooms)]
        size = file.stat().st_size
    return {
        "way": make.__name__,
        "events": events,
        "bytes": size,
        "open_ms": min(opened),
        "zoom_ms": min(took),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--zooms", type=int, default=7)
    given = parser.parse_args()
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,1000"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    driver.set_script_timeout(120)
    try:
        for make in (canvas, bokeh, plotly):
            try:
                print(json.dumps(measure(driver, make, given.events, given.zooms)), flush=True)
            except ImportError as error:
                print(json.dumps({"way": make.__name__, "absent": str(error)}), flush=True)
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
