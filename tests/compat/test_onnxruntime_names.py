"""A script written for onnxruntime runs here by its import line: the same calls, against ONNX Runtime itself
where it is installed, else against numpy."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import graph_runtime.compat.onnxruntime as ours  # noqa: E402
from graph_runtime.base.errors import DocumentError, GraphRuntimeError, InputError  # noqa: E402

RNG = np.random.default_rng(5)
WEIGHT = RNG.standard_normal((4, 3)).astype(np.float32)


def proto(batch="batch"):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
        helper.make_node("ReduceSum", ["y"], ["total"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 4])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 3]),
            helper.make_tensor_value_info("total", TensorProto.FLOAT, []),
        ],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    made = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="test"
    )
    made.doc_string, made.model_version = "a small model", 7
    entry = made.metadata_props.add()
    entry.key, entry.value = "author", "nobody"
    return made.SerializeToString()


def script(ort, data):
    """What deployment scripts do, with what they would see."""
    seen = {}
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    seen["inputs"] = [(i.name, i.type, i.shape) for i in session.get_inputs()]
    seen["outputs"] = [(o.name, o.type, o.shape) for o in session.get_outputs()]
    seen["providers"] = session.get_providers()
    meta = session.get_modelmeta()
    seen["meta"] = (
        meta.producer_name,
        meta.graph_name,
        meta.description,
        meta.version,
        meta.custom_metadata_map,
    )
    for n in (2, 5, 2):
        x = np.arange(4 * n, dtype=np.float32).reshape(n, 4) - 5
        seen[f"run {n}"] = session.run(None, {"x": x})
        seen[f"total {n}"] = session.run(["total"], {"x": x}, ort.RunOptions())
    x = np.ones((3, 4), np.float32)
    value = ort.OrtValue.ortvalue_from_numpy(x, "cpu", 0)
    seen["value"] = (value.shape(), value.data_type(), value.device_name(), value.is_tensor(), value.numpy())
    seen["values"] = [v.numpy() for v in session.run_with_ort_values(["y"], {"x": value})]
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    room = np.zeros((), np.float32)
    binding.bind_output("total", "cpu", 0, np.float32, room.shape, room.ctypes.data)
    session.run_with_iobinding(binding)
    seen["bound"] = binding.copy_outputs_to_cpu()
    seen["room"] = room.copy()
    kept = binding.get_outputs()[0]
    binding.clear_binding_inputs()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(-x))
    session.run_with_iobinding(binding)
    seen["kept"] = kept.numpy()
    for wrong in ({}, {"x": x[:, :2]}, {"x": x, "z": x}):
        with pytest.raises(Exception, match=r"x|z"):
            session.run(None, wrong)
    seen["after"] = session.run(None, {"x": x})
    return seen


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda s, x: s.io_binding().bind_cpu_input("image", x), "images"),
        (
            lambda s, x: s.io_binding().bind_input("image", "cpu", 0, np.float32, x.shape, x.ctypes.data),
            "images",
        ),
        (
            lambda s, x: s.io_binding().bind_ortvalue_input("image", ours.OrtValue.ortvalue_from_numpy(x)),
            "images",
        ),
        (lambda s, x: s.io_binding().bind_output("digit"), "digits"),
        (
            lambda s, x: s.io_binding().bind_ortvalue_output("digit", ours.OrtValue.ortvalue_from_numpy(x)),
            "digits",
        ),
        (lambda s, x: s.run(None, {"images": x, "image": x}), "images"),
        (lambda s, x: s.run(None, {"image": x}), "images"),
        (lambda s, x: s.run(["digit"], {"images": x}), "digits"),
        (lambda s, x: ours.InferenceSesion, "InferenceSession"),
    ],
)
def test_an_unknown_name_is_answered_by_the_one_that_was_meant_and_all_that_there_are(call, meant):
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("images", "digits")]
    graph = helper.make_graph([helper.make_node("Relu", ["images"], ["digits"])], "g", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ours.InferenceSession(model.SerializeToString())
    with pytest.raises(
        (InputError, AttributeError), match=rf"did you mean '{meant}'\?\); there are: .*{meant}"
    ):
        call(session, np.ones(2, np.float32))


def same(a, b):
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-5)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(i, j) for i, j in zip(a, b, strict=True))
    return a == b


def test_a_script_sees_what_it_sees_with_onnx_runtime():
    theirs = pytest.importorskip("onnxruntime")
    here, there = script(ours, proto()), script(theirs, proto())
    # ONNX Runtime writes the second run to the first one's outputs
    assert {key for key in there if not same(here[key], there[key])} <= {"kept"}


def test_a_script_computes_what_numpy_does():
    seen = script(ours, proto())
    x = np.arange(8, dtype=np.float32).reshape(2, 4) - 5
    y = np.maximum(x @ WEIGHT, 0)
    np.testing.assert_allclose(seen["run 2"][0], y, rtol=1e-5)
    np.testing.assert_allclose(seen["total 2"][0], y.sum(), rtol=1e-5)
    np.testing.assert_allclose(seen["bound"][0], seen["kept"], rtol=1e-6)
    assert seen["inputs"] == [("x", "tensor(float)", ["batch", 4])]


def test_results_are_the_callers_own():
    session = ours.InferenceSession(proto(2))
    first = session.run(None, {"x": np.ones((2, 4), np.float32)})[0]
    before = first.copy()
    session.run(None, {"x": np.zeros((2, 4), np.float32)})
    np.testing.assert_array_equal(first, before)


def test_a_session_on_a_simulated_board():
    tt = ("TTExecutionProvider", {"device_id": 0, "board": "n150"})
    session = ours.InferenceSession(proto(), providers=[tt, "CPUExecutionProvider"])
    assert session.get_providers() == ["TTExecutionProvider", "CPUExecutionProvider"]
    x = RNG.standard_normal((4, 4)).astype(np.float32)
    np.testing.assert_allclose(
        session.run(["y"], {"x": x})[0], np.maximum(x @ WEIGHT, 0), rtol=0.03, atol=0.03
    )


def test_a_dimension_may_be_bound_and_threads_are_checked():
    options = ours.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    session = ours.InferenceSession(proto(), options)
    session.run(None, {"x": np.ones((2, 4), np.float32)})
    with pytest.raises(InputError, match="input 'x' is"):
        session.run(None, {"x": np.ones((3, 4), np.float32)})
    options = ours.SessionOptions()
    options.intra_op_num_threads = -1
    with pytest.raises(InputError, match="intra_op_num_threads"):
        ours.InferenceSession(proto(), options)


def test_an_entry_gives_a_dimension_buckets():
    options = ours.SessionOptions()
    options.add_session_config_entry("graph_runtime.buckets.batch", "4, 16")
    session = ours.InferenceSession(proto(), options)
    for batch in (1, 3, 4, 9, 20):
        x = RNG.standard_normal((batch, 4)).astype(np.float32)
        y, total = session.run(None, {"x": x})
        np.testing.assert_allclose(y, np.maximum(x @ WEIGHT, 0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(total, y.sum(), rtol=1e-5)
    stats = session.stats()
    assert (stats["bucket_runs"], stats["exact_runs"], stats["made"]) == (4, 1, 3)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("graph_runtime.buckets.batch", "4,-1", "positive sizes"),
        ("graph_runtime.buckets.batch", "many", "positive sizes"),
        ("graph_runtime.buckets.", "4", "no session config entry"),
        ("graph_runtime.bucket.batch", "4", "did you mean 'graph_runtime.buckets.<dimension>'"),
        ("buckets", "4", "no session config entry 'buckets'"),
    ],
)
def test_entries_that_there_are_not_are_refused_by_name(key, value, said):
    with pytest.raises(InputError, match=said):
        ours.SessionOptions().add_session_config_entry(key, value)


def test_buckets_of_a_dimension_that_the_model_has_not():
    options = ours.SessionOptions()
    options.add_session_config_entry("graph_runtime.buckets.bath", "4")
    with pytest.raises(InputError, match="did you mean 'batch'"):
        ours.InferenceSession(proto(), options)


def test_profiling_writes_chrome_events(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ours.SessionOptions()
    options.enable_profiling = True
    session = ours.InferenceSession(proto(), options)
    (y, _) = session.run(None, {"x": np.ones((2, 4), np.float32)})
    np.testing.assert_allclose(y, np.maximum(np.ones((2, 4)) @ WEIGHT, 0), rtol=1e-5)
    *nodes, run = json.loads((tmp_path / session.end_profiling()).read_text())
    assert (run["name"], run["cat"]) == ("model_run", "Session")
    assert {event["cat"] for event in nodes} == {"Node"}
    assert {event["args"]["op_name"] for event in nodes} == {"dense", "sum"}  # Relu is in an epilogue
    assert {event["args"]["provider"] for event in nodes} == {"CPUExecutionProvider"}
    assert all(event["name"].endswith("_kernel_time") for event in nodes)
    assert 0 < sum(event["dur"] for event in nodes) <= run["dur"]


def test_providers_may_be_set_later():
    session = ours.InferenceSession(proto())
    x = np.ones((2, 4), np.float32)
    before = session.run(["y"], {"x": x})[0]
    session.set_providers(["TTExecutionProvider", "CPUExecutionProvider"])
    assert session.get_providers() == ["TTExecutionProvider", "CPUExecutionProvider"]
    np.testing.assert_allclose(session.run(["y"], {"x": x})[0], before, rtol=0.05, atol=0.05)


def test_types_have_numpy_s_names():
    from graph_runtime.compat.onnxruntime.transformers.io_binding_helper import TypeHelper

    session = ours.InferenceSession(proto())
    assert TypeHelper.get_io_numpy_type_map(session) == {
        "x": np.float32,
        "y": np.float32,
        "total": np.float32,
    }
    assert TypeHelper.ort_type_to_numpy_type("tensor(int64)") is np.int64
    assert TypeHelper.ort_type_to_numpy_type(TypeHelper.get_output_type(session, "y")) is np.float32
    for wrong in ("tensor(string)", "seq(tensor(float))"):
        with pytest.raises(ValueError, match="no counterpart"):
            TypeHelper.ort_type_to_numpy_type(wrong)
    with pytest.raises(ValueError, match="has no 'z'"):
        TypeHelper.get_input_type(session, "z")


def test_what_is_not_done_is_refused_by_its_name():
    options = ours.SessionOptions()
    with pytest.raises(InputError, match=r"no option 'intra_op_num_thread'.*intra_op_num_threads"):
        options.intra_op_num_thread = 2
    for name in ("optimized_model_filepath", "register_custom_ops_library", "register_custom_ops"):
        with pytest.raises(InputError, match=name):
            getattr(options, name)
    with pytest.raises(InputError, match="optimized_model_filepath"):
        options.optimized_model_filepath = "x.onnx"
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available provider names"):
        session = ours.InferenceSession(proto(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    with pytest.raises(InputError, match=r"no output 'yy'.*'y'"):
        session.run(["yy"], {"x": np.ones((1, 4), np.float32)})
    with pytest.raises(InputError, match="takes no 'session_options'"):
        ours.InferenceSession(proto(), session_options=options)
    with pytest.raises(InputError, match="no option 'boards'"):
        ours.InferenceSession(proto(), providers=[("TTExecutionProvider", {"boards": 1})])
    with pytest.raises(DocumentError):
        ours.InferenceSession(b"no model")


@pytest.mark.parametrize("labels", [[3, 5], ["no", "yes"]])
def test_a_map_has_its_labels(labels):
    words = {"classlabels_int64s" if labels == [3, 5] else "classlabels_strings": labels}
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **words)
    code = TensorProto.INT64 if labels == [3, 5] else TensorProto.STRING
    kind = helper.make_map_type_proto(code, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    out = helper.make_value_info("y", helper.make_sequence_type_proto(kind))
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    proto_ = helper.make_model(
        helper.make_graph([node], "g", given, [out]), opset_imports=opsets, ir_version=8
    )
    x = np.float32([[0.25, 0.75], [0.5, 0.5]])
    session = ours.InferenceSession(proto_.SerializeToString())
    assert session.run(None, {"x": x})[0] == [dict(zip(labels, row, strict=True)) for row in x.tolist()]
    name = "int64" if labels == [3, 5] else "string"
    assert session.get_outputs()[0].type == f"seq(map({name},tensor(float)))"


DTYPES = ["int64", "int32", "int16", "float32", "float64", "float16", "bool", "uint8", "object", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_of_another_dtype_is_refused_as_by_onnx_runtime(dtype):
    theirs = pytest.importorskip("onnxruntime")
    infos = [helper.make_tensor_value_info(name, TensorProto.INT32, [2]) for name in "xy"]
    node = helper.make_node("Add", ["x", "x"], ["y"])
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    given = np.array([1, 2], dtype)

    def once(ort, bound):
        session = ort.InferenceSession(data.SerializeToString(), providers=["CPUExecutionProvider"])
        if not bound:
            return session.run(None, {"x": given})
        binding = session.io_binding()
        binding.bind_cpu_input("x", given)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()

    for ort, refusal in ((theirs, Exception), (ours, InputError)):
        for bound in (False, True):
            if dtype == "int32":
                assert once(ort, bound)[0].tolist() == [2, 4]
                continue
            with pytest.raises(refusal, match=r"nexpected input data type|can't be converted|Numpy_type"):
                once(ort, bound)


@pytest.fixture
def outside(tmp_path):
    """y = x + w + v, whose w and v are in w.bin beside the model."""
    arrays = {"w": np.arange(4, dtype=np.float32), "v": np.ones(4, np.float32)}
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    nodes = [helper.make_node("Add", ["x", "w"], ["z"]), helper.make_node("Add", ["z", "v"], ["y"])]
    initial = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    words = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
    onnx.save(model, str(tmp_path / "m.onnx"), **words)
    return tmp_path / "m.onnx"


def opened(ort, source, folder=None, given=None, replaced=None):
    """What a session computes of zeros."""
    options, kept = ort.SessionOptions(), []  # ONNX Runtime's options keep no OrtValue alive
    if folder is not None:
        key = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(key, str(folder))
    value = ort.OrtValue.ortvalue_from_numpy
    if given is not None:
        options.add_external_initializers(list(given), [value(array) for array in given.values()])
    for name, array in (replaced or {}).items():
        kept.append(value(array))
        options.add_initializer(name, kept[-1])
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.zeros(4, np.float32)})[0].tolist()


SEVENS = np.full(4, 7, np.float32)


def test_external_data_is_found_and_given_as_with_onnx_runtime(outside, tmp_path, monkeypatch):
    theirs = pytest.importorskip("onnxruntime")
    monkeypatch.chdir("/")
    data = outside.read_bytes()
    ways = [
        (data, tmp_path, None, None),
        (str(outside), None, None, None),
        (str(outside), tmp_path, None, None),
        (data, None, {"w": SEVENS, "v": SEVENS}, None),
        (data, tmp_path, {"v": SEVENS}, None),
        (str(outside), None, {"w": SEVENS}, None),
        (str(outside), None, None, {"w": SEVENS}),
    ]
    for way in ways:
        assert opened(ours, *way) == opened(theirs, *way)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"w": SEVENS}, "initializer 'v' is external data in 'w.bin', and a model in memory has no folder"),
        ({"w": SEVENS[:3], "v": SEVENS}, r"'w' is float32\[4\], but the value given for it is float32\[3\]"),
        ({"w": SEVENS.astype("float64"), "v": SEVENS}, "but the value given for it is float64"),
        ({"w": SEVENS, "v": SEVENS, "ww": SEVENS}, "'ww' is not in the model .*did you mean 'w'"),
    ],
)
def test_external_initializers_that_do_not_fit(outside, given, text):
    with pytest.raises(GraphRuntimeError, match=text):
        opened(ours, outside.read_bytes(), given=given)


def test_initializers_of_other_files(outside):
    data = onnx.load(str(outside)).SerializeToString()
    with pytest.raises(InputError, match="'w' is in the model's file: add_initializer"):
        opened(ours, data, given={"w": SEVENS})
    with pytest.raises(InputError, match="2 names of external initializers and 1 values"):
        ours.SessionOptions().add_external_initializers(["w", "v"], [None])
    with pytest.warns(UserWarning, match="the model has no initializer 'q'"):
        opened(ours, data, replaced={"q": SEVENS})


@pytest.mark.parametrize("provider", ["CPUExecutionProvider", "TTExecutionProvider"])
def test_threads_run_one_session(provider):
    """As in ONNX Runtime, with the values of one thread; on the host of several sizes."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((24, 24)).astype(np.float32) / 5
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["y"])]
    rows = "n" if provider == "CPUExecutionProvider" else 4
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 24]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(w, "w")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    values = [rng.standard_normal((1 + at if rows == "n" else 4, 24)).astype(np.float32) for at in range(4)]
    alone, session = (ours.InferenceSession(made.SerializeToString(), providers=[provider]) for _ in range(2))
    wanted = [alone.run(None, {"x": value})[0] for value in values]
    faults = []

    def work(number):
        binding = session.io_binding()
        binding.bind_output("y")
        try:
            for at in [*range(number, 4), *range(4)] * 3:
                (got,) = session.run(None, {"x": values[at]})
                np.testing.assert_array_equal(got, wanted[at], strict=True)
                binding.bind_cpu_input("x", values[at])
                session.run_with_iobinding(binding)
                np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], wanted[at], strict=True)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert session.stats()["made"] >= len({value.shape for value in values})
