"""A model in several precisions, thresholds, and the search for nodes that may be coarser."""

import numpy as np
import pytest

from graph_runtime.accuracy.coarsening import Coarsening
from graph_runtime.accuracy.precision import Precision
from graph_runtime.accuracy.searching import Chosen, Goal, _in_order, search
from graph_runtime.accuracy.side_by_side import Question
from graph_runtime.accuracy.thresholds import Thresholds
from graph_runtime.base.errors import DocumentError, InputError
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.ir.model import Model
from graph_runtime.run import factory

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def question():
    """Three products on tt. What the middle one makes is a small part of what its reader gets, so it may be
    coarser than the others."""
    rng = np.random.default_rng(0)

    def weights(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    b = GraphBuilder(device="tt:0")
    x, w0 = b.input("x", (64, 256), "float32"), b.input("w0", (256, 256), "float32")
    w1, w2 = b.input("w1", (256, 256), "float32"), b.input("w2", (256, 96), "float32")
    first = b.op("matmul", x, w0, name="first")
    middle = b.op("matmul", first, w1, name="middle")
    b.output(b.op("matmul", b.op("add", first, middle, name="sum"), w2, name="last"))
    constants = {"w0": weights(256, 256), "w1": weights(256, 256) / 64, "w2": weights(256, 96)}
    return Question.of(Model.of(b.build(), constants), ["tt:0"])


def test_precisions_side_by_side(question):
    plain, coarse = (question.answer(Precision.of(text)) for text in ("bf16", "bfp4_b/LoFi"))
    assert len(plain.comparison.isolated) == len(plain.comparison.accumulated) >= 3
    for one in (plain, coarse):
        row = one.comparison.outputs[0]
        assert 0 < row.nmse == pytest.approx(1 - row.cosine**2, rel=0.5)
        assert row.worst[0].ulp > 0
        assert abs(row.worst[0].got - row.worst[0].wanted) == pytest.approx(row.max_abs)
    assert coarse.comparison.outputs[0].correlation < plain.comparison.outputs[0].correlation
    assert coarse.latency_ns < plain.latency_ns
    document = plain.as_dict()
    assert [row["name"] for row in document["alone"]] == [row["name"] for row in document["accumulated"]]
    order = [
        name for name in plain.prepared.model.graph.names if name in {r["name"] for r in document["alone"]}
    ]
    assert [row["name"] for row in document["alone"]] == order


def test_thresholds_are_read_and_missed(question, tmp_path):
    file = tmp_path / "limits.json"
    comparison = question.answer(Precision.of("bfp8_b")).comparison
    file.write_text('{"outputs": {"*": {"pcc": 0.9, "nmse": 1e-9}}, "alone": {"matmul": {"max_abs": 1e9}}}')
    missed = Thresholds.read(file).of_model("bfp8_b", comparison)
    assert [(m.part, m.measure) for m in missed] == [("outputs", "nmse")]
    assert "at most 1e-09" in str(missed[0])
    file.write_text('{"alone": {"matnul": {"pcc": 0.9}}}')
    with pytest.raises(InputError, match="did you mean 'matmul'"):
        Thresholds.read(file).of_model("bfp8_b", comparison)
    for text in (
        '{"outputs": {"*": {"ppc": 1}}}',
        "{}",
        '{"outputs": {"*": {}}}',
        "[]",
        '{"nodes": {}}',
        "{",
    ):
        file.write_text(text)
        with pytest.raises(DocumentError):
            Thresholds.read(file)


def test_the_search_is_proved_and_reaches_its_goal(question):
    found = search(question, Goal.of("pcc=0.999"), precision=Precision.of("bf16"))
    assert found.ok
    assert found.value_before > found.value >= 0.999
    assert found.latency_ns < found.latency_before_ns
    assert found.chosen
    # the plan that it gives has that value, by a run of its own
    case = Coarsening(question, question.prepare(Precision.of("bf16")))
    module = factory.create(found.prepared.plan)
    module.run(**case._values)
    got, right = (
        module.get_output(0).numpy().ravel(),
        question.right[question.source.graph.outputs[0]].ravel(),
    )
    assert np.corrcoef(got, right)[0, 1] == pytest.approx(found.value, abs=1e-9)


@pytest.mark.slow
def test_a_looser_goal_saves_no_less(question):
    tight, loose = (
        search(question, Goal.of(text), precision=Precision.of("bf16")) for text in ("pcc=0.9999", "pcc=0.9")
    )
    assert loose.latency_ns <= tight.latency_ns
    assert len(loose.chosen) >= len(tight.chosen)


@pytest.mark.slow
def test_few_runs_are_kept_to_and_still_proved(question):
    found = search(question, Goal.of("pcc=0.999"), precision=Precision.of("bf16"), runs=4)
    assert found.runs <= 4
    assert found.ok


def test_a_model_that_misses_the_goal_is_left_alone(question):
    found = search(question, Goal.of("pcc=0.9999999"), precision=Precision.of("bfp4_b"))
    assert not found.ok
    assert (found.chosen, found.runs) == ((), 1)
    assert found.latency_ns == found.latency_before_ns


def test_goals_are_judged_when_they_are_said():
    for text in ("pcc", "pcc=", "pcc=x", "ppc=0.9", "pcc=nan", ""):
        with pytest.raises(InputError, match="is not a goal"):
            Goal.of(text)


def test_a_model_of_hosts_has_nothing_to_choose(question):
    with pytest.raises(InputError, match="give --device tt:0"):
        search(Question.of(question.source, ["cpu:0"]), Goal.of("pcc=0.9"))


def test_steps_of_a_node_stay_in_their_order():
    offers = [
        Chosen("a", "matmul", "bfp8_b", 10, 1e-4),
        Chosen("a", "matmul", "bfp4_b", 1000, 1e-3),  # worth more than the step before it
        Chosen("a", "matmul", "LoFi", 5, 1e-2),  # saves less for more
        Chosen("b", "matmul", "bfp8_b", 50, 1e-4),
    ]
    row = [(one.name, one.choice) for one in _in_order(offers)]
    assert row == [("b", "bfp8_b"), ("a", "bfp8_b"), ("a", "bfp4_b")]


def test_of_hosts_alone_a_precision_is_that_of_their_weights_and_each_layer_has_its_error():
    """An image has its channels last there: its right values are the source's, turned."""
    rng = np.random.default_rng(0)
    b = GraphBuilder()
    x = b.input("x", (1, 8, 12, 12))
    w = rng.standard_normal((24, 8, 1, 1)).astype(np.float32)
    y = b.op("relu", b.op("conv2d", x, b.param("w", w), name="conv"), name="relu")
    b.output(b.op("flatten", y))
    question = Question.of(Model.from_builder(b), ["cpu:0"])
    exact, rounded = (question.answer(Precision.of(text)).comparison for text in ("f32", "bf16"))
    of_conv = [next(r.nmse for r in c.isolated if r.op == "conv2d") for c in (exact, rounded)]
    assert of_conv[0] < 1e-12 < 1e-7 < of_conv[1] < 1e-4
    assert rounded.outputs[0].nmse == pytest.approx(of_conv[1], rel=0.01)
    with pytest.raises(InputError, match="applies to simulated devices"):
        question.answer(Precision.of("LoFi"))
