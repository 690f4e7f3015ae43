"""The page in a real browser: headless Chromium by selenium, on five models. .ci/run's step browser runs it.

Screenshots go to the folder that GR_SCREENSHOTS names, else to the test's own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base.options import Options
from graph_runtime.simulation.simulation import simulate
from graph_runtime.views.page.data import page_data
from graph_runtime.views.page.html import html_page
from graph_runtime.views.page.shown import Shown

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.core,
    pytest.mark.slow,
    pytest.mark.timeout(170),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Debian's chromium and chromium-driver"),
]
ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "graph_runtime" / "study" / "corpus"
DEVICES = ["cpu:0", "tt:0=n150"]
HOSTILE = "</script><img src=x onerror=window.hurt=1>"
MOST_BYTES, MOST_MS = 8_000_000, 100


# ---------------------------------------------------------------- models


def bert(layers: int = 12, width: int = 768, tokens: int = 128) -> gr.Graph:
    """The encoder of BERT, with names as exporters give them."""
    b = gr.GraphBuilder()
    x = b.input("hidden", (tokens, width))

    def dense(name: str, value: Any, k: int, n: int) -> Any:
        return b.op(
            "dense", value, b.input(f"{name}.weight", (n, k)), b.input(f"{name}.bias", (n,)), name=name
        )

    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        q, k, v = (dense(f"{at}.attention.{part}", x, width, width) for part in ("query", "key", "value"))
        scores = b.op(
            "matmul",
            q,
            b.op("transpose", k, perm=[1, 0], name=f"{at}.attention.turned"),
            name=f"{at}.attention.scores",
        )
        mixed = b.op(
            "matmul",
            b.op("softmax", scores, axis=-1, name=f"{at}.attention.probs"),
            v,
            name=f"{at}.attention.mixed",
        )
        x = b.op(
            "add", x, dense(f"{at}.attention.output", mixed, width, width), name=f"{at}.attention.residual"
        )
        h = b.op("gelu", dense(f"{at}.mlp.up", x, width, 4 * width), name=f"{at}.mlp.act")
        x = b.op("add", x, dense(f"{at}.mlp.down", h, 4 * width, width), name=f"{at}.mlp.residual")
    b.output(x)
    return b.build()


def large(count: int = 4000) -> gr.Graph:
    """A graph of that many nodes that run, with reads across it."""
    rng, b = np.random.default_rng(0), gr.GraphBuilder()
    values = [b.input("x", (32, 32), device="cpu:0")]
    for at in range(count):
        device = "tt:0" if at // 50 % 3 else "cpu:0"
        near = [values[max(len(values) - 1 - int(back), 0)] for back in rng.geometric(0.3, 2)]
        op = ("relu", "tanh", "add", "multiply")[at % 4]
        values.append(b.op(op, *near[: 1 + (at % 4 > 1)], name=f"block{at // 100}.node{at}", device=device))
    b.output(values[-1])
    return b.build()


def llama(folder: Path) -> Path:
    """tests/bench/llama.py's ONNX file."""
    pytest.importorskip("onnx")
    path = ROOT / "tests" / "bench" / "llama.py"
    spec = importlib.util.spec_from_file_location("_llama", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file, old = folder / "llama.onnx", sys.argv
    sys.argv = ["llama.py", str(file)]
    try:
        module.main()
    finally:
        sys.argv = old
    return file


def shown_of(name: str, source: Any, devices: list[str], runs: int = 1, **words: Any) -> Shown:
    prepared = prepare(source, devices, Options.of(**words))
    return Shown.of(name, prepared, {"simulated": simulate(prepared.plan, runs=runs)})


def mlp() -> Shown:
    b = gr.GraphBuilder()
    x = b.input("x", (64, 128), device="cpu:0")
    h = b.op(
        "relu",
        b.op("matmul", x, b.input("w", (128, 96)), name="mm", device="tt:0"),
        name="act",
        device="tt:0",
    )
    b.output(b.op("softmax", h, name=HOSTILE, device="cpu:0"))
    prepared = prepare(b.build(), DEVICES, Options.of(formats={"tt": "bf16"}, layouts={"act": "l1/height"}))
    from graph_runtime.accuracy.compare import compare_prepared  # needs the core

    compared = compare_prepared(prepared).as_dict()
    return Shown.of("mlp", prepared, {"simulated": simulate(prepared.plan, runs=4)}, comparison=compared)


# ---------------------------------------------------------------- the browser


@dataclass
class Page:
    """A page that is open in the browser."""

    driver: Any
    folder: Path
    name: str = ""

    def open(self, name: str, html: bytes) -> None:
        """Write it, open it from disk, and see that nothing else was asked for."""
        assert len(html) < MOST_BYTES
        file = self.folder / f"{name}.html"
        file.write_bytes(html)
        self.name = name
        self.driver.get("about:blank")
        self.driver.get_log("performance")
        self.driver.get(file.as_uri())
        self.calm(file.as_uri())

    def calm(self, allowed: str = "") -> None:
        """No line on the console, and no request but for the page itself."""
        assert self.driver.get_log("browser") == []
        asked = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        urls = [
            one["params"]["request"]["url"] for one in asked if one["method"] == "Network.requestWillBeSent"
        ]
        assert [url for url in urls if url.partition("#")[0] != allowed and not url.startswith("blob:")] == []

    def js(self, text: str, *args: Any) -> Any:
        return self.driver.execute_script(f"return {text}", *args)

    def tab(self, name: str) -> None:
        self.driver.find_element(By.ID, f"tab-{name}").click()
        self.frame()

    def frame(self) -> None:
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )

    def text(self, css: str) -> str:
        return self.driver.find_element(By.CSS_SELECTOR, css).text

    def search(self, text: str) -> None:
        field = self.driver.find_element(By.ID, "search")
        field.clear()
        field.send_keys(text, Keys.ENTER)
        self.frame()

    def shoot(self, what: str) -> None:
        self.frame()
        self.driver.save_screenshot(str(self.folder / f"{self.name}-{what}.png"))

    def point(self, css: str, x: int, y: int, click: bool = False) -> None:
        """Move the pointer to a place in an element's box; click there."""
        at = self.driver.find_element(By.CSS_SELECTOR, css)
        box = at.rect
        chain = ActionChains(self.driver).move_to_element_with_offset(
            at, x - int(box["width"] / 2), y - int(box["height"] / 2)
        )
        (chain.click() if click else chain).perform()
        self.frame()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    kept = os.environ.get("GR_SCREENSHOTS")
    made = Path(kept) if kept else tmp_path_factory.mktemp("pages")
    made.mkdir(parents=True, exist_ok=True)
    return made


@pytest.fixture(scope="module")
def driver():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(DRIVER))
    made.set_script_timeout(30)
    yield made
    made.quit()


@pytest.fixture
def page(driver, folder):
    driver.set_window_size(1400, 1000)
    return Page(driver, folder)


def all_views(page: Page) -> None:
    """Screenshots of every view at both widths; nothing is wider than the window, nothing is on the
    console."""
    names = page.js("shownViews.map(([name]) => name)")
    for width in (1400, 800):
        page.driver.set_window_size(width, 1000)
        for name in names:
            page.tab(name)
            page.shoot(f"{name}-{width}")
            assert page.js("document.documentElement.scrollWidth <= innerWidth")
    page.driver.set_window_size(1400, 1000)
    page.calm()


# ---------------------------------------------------------------- what is shown


def test_a_small_model_selects_zooms_filters_and_compares(page):
    page.open("mlp", html_page(page_data(f"mlp {HOSTILE}", mlp())))
    all_views(page)
    assert page.js("window.hurt") is None
    assert HOSTILE in page.text("h1")
    page.tab("overview")
    assert "2 of 3 nodes run on tt:0" in page.text("#view-overview")
    page.search("mm")
    assert page.text("#selected") == "mm"
    assert "float32[64, 96]" in page.text("aside")
    assert "native/kernels/tt/" in page.text("aside")
    assert "Numbers" in page.text("aside")
    assert "first, alone: " in page.text("aside")
    at = "plan().tensors.nid.indexOf(state.nid)"
    assert page.js(f"String(plan().tensors.max[{at}])") in page.text("aside")
    heads = "[...document.querySelectorAll('aside h3')]"
    numbers = f"{heads}.find((one) => one.textContent === 'Numbers')"
    page.js(f"({numbers}.scrollIntoView(), 1)")
    assert page.js(f"{numbers}.nextElementSibling.offsetWidth <= document.querySelector('aside').clientWidth")
    page.shoot("numbers")
    page.tab("timeline")
    before = page.js("made.timeline.board.kx")
    page.driver.find_element(By.CSS_SELECTOR, "#view-timeline canvas").send_keys("+")
    page.frame()
    assert page.js("made.timeline.board.kx") > before
    for _ in range(60):  # down to single ns
        page.js("made.timeline.board.zoom(2)")
    page.frame()
    assert page.js("made.timeline.board.kx") == 100
    page.driver.find_element(By.CSS_SELECTOR, "#view-timeline canvas").send_keys("f")
    page.tab("memory")
    page.driver.find_element(By.CSS_SELECTOR, "#view-memory select").send_keys("tt:0 l1")
    page.frame()
    assert "circular buffers" in page.text("#view-memory").lower()
    page.tab("accuracy")
    assert "PCC" in page.text("#view-accuracy")
    page.tab("tables")
    field = page.driver.find_element(By.CSS_SELECTOR, "#view-tables input[aria-label='filter op']")
    field.send_keys("matmul")
    page.frame()
    rows = page.driver.find_elements(By.CSS_SELECTOR, "#view-tables tbody tr:not(.space)")
    assert [row.text.split()[0] for row in rows] == ["mm"]
    assert page.js("made.tables.table.csv().split('\\r\\n').length") == 2
    page.js("(made.tables.table.sort(4), 1)")
    page.driver.find_element(By.CSS_SELECTOR, "#view-tables select").send_keys("tensors")
    page.frame()
    assert "added up" in page.text("#view-tables .grid")
    page.shoot("tensors")
    page.calm()


def test_keys_theme_and_reader(page):
    page.open("keys", html_page(page_data("mlp", mlp())))
    body = page.driver.find_element(By.TAG_NAME, "body")
    body.send_keys("n")
    assert page.js("state.nid") == 0
    assert page.text("#selected") in page.js("document.getElementById('live').textContent")
    body.send_keys("2")
    assert page.js("document.getElementById('tab-graph').getAttribute('aria-selected')") == "true"
    theme = page.js("document.documentElement.dataset.theme")
    body.send_keys("t")
    assert page.js("document.documentElement.dataset.theme") != theme
    page.shoot("dark")
    body.send_keys(Keys.ESCAPE)
    assert page.js("state.nid") == -1
    page.driver.find_element(By.ID, "tab-graph").send_keys(Keys.ARROW_RIGHT)
    assert page.js("document.activeElement.id") == "tab-timeline"
    named = "[...document.querySelectorAll('canvas, input, select')]"
    unnamed = page.js(f"{named}.filter((one) => !one.getAttribute('aria-label')).length")
    assert unnamed == 0
    page.calm()


def test_bert_reads_as_its_layers(page):
    page.open("bert", html_page(page_data("BERT", shown_of("bert", bert(), DEVICES, placement="mincut"))))
    all_views(page)
    page.tab("graph")
    drawing = "made.graph.drawing"
    layers = page.js(f"{drawing}.boxes.filter((box) => box.group !== undefined && !box.open).length")
    assert layers == 12
    page.js(
        f"(made.graph.toggle({drawing}.boxes.find((box) => box.group !== undefined && !box.open).group), 1)"
    )
    page.frame()
    assert page.js(f"{drawing}.boxes.filter((box) => box.open).length") == 2
    page.search("layer.7.mlp.up")
    assert page.js(f"{drawing}.nodeBox.has(state.nid)"), "its groups were opened"
    page.shoot("selected")
    page.tab("timeline")
    page.shoot("selected-timeline")
    event = "made.timeline.drawing.byNode[0].get(state.nid)[0]"
    begin = f"plan().timelines[0].events.start[{event}]"
    assert 0 < page.js(f"made.timeline.board.toX({begin})") < page.js("innerWidth")
    page.calm()


def test_resnet_in_two_placements(page):
    graph = gr.load_graph(CORPUS / "resnet50.json")
    one = shown_of("mincut", graph, DEVICES, placement="mincut")
    two = shown_of("convolutions on tt", graph, DEVICES, place={"conv*": "tt:0"})
    page.open("resnet", html_page(page_data("ResNet-50", one, two)))
    all_views(page)
    page.tab("moved")
    told = page.text("#view-moved")
    assert "changed device" in told
    assert "latency" in told
    first = page.js("document.querySelector('#view-moved .grid tbody tr:not(.space) td').textContent")
    page.js("document.querySelector('#view-moved .grid tbody tr:not(.space)').click()")
    assert page.text("#selected") == first
    page.driver.find_element(By.ID, "plan-b").click()
    page.frame()
    assert page.js("nodes().name.length") == two.plan.graph.num_nodes
    assert page.text("#selected") == first
    page.tab("graph")
    page.js("(set('colour', 'moved'), 1)")
    page.shoot("moved")
    page.calm()


def test_plans_of_unlike_models_change_places(page):
    one = shown_of("mlp", gr.load_graph(CORPUS / "mlp.json"), ["cpu:0", "tt:0"])
    two = shown_of("bert", gr.load_graph(CORPUS / "bert.json"), ["cpu:0", "tt:0"])
    page.open("unlike", html_page(page_data("unlike", one, two)))
    for name in page.js("shownViews.map(([name]) => name)"):
        page.tab(name)
        for at in (1, 0):
            page.js(f"(showPlan({at}), select(nodes().name.length - 1))")
            page.frame()
    page.calm()


def test_llama_says_what_bounds_and_fills_it(page, tmp_path):
    file = llama(tmp_path)
    shown = shown_of("llama", file, DEVICES, formats={"tt": "bfp8_b"}, dims={"batch": 1})
    page.open("llama", html_page(page_data("Llama-8B-shaped", shown)))
    all_views(page)
    page.tab("overview")
    told = page.text("#view-overview")
    assert "What fills the memory?" in told
    assert "tt:0 dram" in told
    assert "DRAM" in told
    page.calm()


def test_4000_nodes_and_20000_events_respond(page):
    shown = shown_of("large", large(), ["cpu:0", "tt:0"], runs=5)
    assert len(shown.timeline) >= 20_000
    page.open("large", html_page(page_data("4,000 nodes", shown)))
    all_views(page)
    timed = """(() => {
        const times = [];
        for (let i = 0; i < 9; i++) { const t = performance.now(); STEP; times.push(performance.now() - t); }
        return Math.min(...times); // others use the machine, too
    })()"""
    steps = {
        "graph": "made.graph.board.zoom(i % 2 ? 1.3 : 0.7); made.graph.board.paint()",
        "timeline": "made.timeline.board.zoom(i % 2 ? 1.3 : 0.7); made.timeline.board.paint()",
        "memory": "made.memory.board.zoom(i % 2 ? 1.3 : 0.7); made.memory.board.paint()",
    }
    took = {}
    for name, step in steps.items():
        page.tab(name)
        if name == "graph":
            page.js("made.graph.all(true)")
            page.frame()
        took[name] = page.js(timed.replace("STEP", step))
        took[f"{name} hover"] = page.js(
            timed.replace("STEP", f"made.{name}.board.view.hit(made.{name}.board, 300 + 9 * i, 200)")
        )
        took[f"{name} select"] = page.js(timed.replace("STEP", f"select(100 * i); made.{name}.board.paint()"))
    page.shoot("open")
    (page.folder / "times.json").write_text(json.dumps(took, indent=1))
    assert {name: ms for name, ms in took.items() if ms > MOST_MS} == {}
    page.calm()
