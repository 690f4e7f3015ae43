"""ai.onnx.ml, as skl2onnx and onnxmltools write it, against ONNX Runtime; and trees that are none."""

from __future__ import annotations

import copy

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import UnsupportedOpError  # noqa: E402
from graph_runtime.frontends.onnx.context import table  # noqa: E402

_RNG = np.random.default_rng(3)
DOMAIN = "ai.onnx.ml"


def _f(*shape):
    return _RNG.standard_normal(shape).astype(np.float32)


def _model(op, inputs, attrs, outputs=1, version=3):
    names = [f"x{i}" for i in range(len(inputs))]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim)
        for name, x in zip(names, inputs, strict=True)
    ]
    made = [f"y{i}" for i in range(outputs)]
    attrs = {
        key: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for key, value in attrs.items()
    }
    node = helper.make_node(op, names, made, domain=DOMAIN, **attrs)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in made])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9), dict(zip(names, inputs, strict=True))


def _run(model, values, devices=("cpu:0",)):
    dims = {f"{name}.{axis}": size for name, x in values.items() for axis, size in enumerate(x.shape)}
    module = gr.create(model, devices=list(devices), dims=dims, compile=False)
    module.run(**values)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


# ---------------------------------------------------------------- ensembles


def _ensemble(kind, targets, trees=5, depth=3, features=4, modes=("BRANCH_LEQ",), spread=1, missing=False):
    """Attributes of random full trees; every leaf gives ``spread`` targets a weight."""
    rng = np.random.default_rng(len(modes) + 10 * targets + depth)
    nodes, leaves = 2**depth - 1, 2**depth
    attrs = {f"nodes_{name}": [] for name in ("treeids", "nodeids", "featureids", "values", "modes")}
    attrs |= {"nodes_truenodeids": [], "nodes_falsenodeids": [], "nodes_missing_value_tracks_true": []}
    attrs |= {f"{kind}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        for node in range(nodes + leaves):
            inner = node < nodes
            row = {
                "treeids": tree,
                "nodeids": node,
                "featureids": int(rng.integers(features)) if inner else 0,
                "values": float(np.round(rng.standard_normal(), 1)) if inner else 0.0,
                "modes": str(rng.choice(modes)) if inner else "LEAF",
                "truenodeids": 2 * node + 1 if inner else 0,
                "falsenodeids": 2 * node + 2 if inner else 0,
                "missing_value_tracks_true": int(missing and rng.integers(2)),
            }
            for key, value in row.items():
                attrs[f"nodes_{key}"].append(value)
        for node in range(nodes, nodes + leaves):
            for k in range(spread):
                attrs[f"{kind}_treeids"].append(tree)
                attrs[f"{kind}_nodeids"].append(node)
                attrs[f"{kind}_ids"].append((tree + k) % targets)
                attrs[f"{kind}_weights"].append(float(rng.standard_normal()))
    return attrs


def _regressor(targets=1, **attrs):
    given = {key: attrs.pop(key) for key in ("modes", "spread", "missing", "depth") if key in attrs}
    return {**_ensemble("target", targets, **given), "n_targets": targets, **attrs}


def _classifier(classes=3, ids=None, positive=False, **attrs):
    given = {key: attrs.pop(key) for key in ("modes", "spread") if key in attrs}
    made = _ensemble("class", classes, **given)
    if ids is not None:
        made["class_ids"] = [ids] * len(made["class_ids"])
    if positive:
        made["class_weights"] = [abs(w) / 5 for w in made["class_weights"]]
    return {**made, "classlabels_int64s": [10 * (k + 1) for k in range(classes)], **attrs}


def _rows(dtype="float32", gaps=False):
    x = np.round(_f(40, 4), 1).astype(dtype)
    if gaps:
        x[::3, 1] = np.nan
    return x


_ALL = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_TREES = {
    "one target": ("TreeEnsembleRegressor", _rows(), _regressor()),
    "a row": ("TreeEnsembleRegressor", _rows()[:1], _regressor()),
    "deep": ("TreeEnsembleRegressor", _rows(), _regressor(depth=7)),
    "several targets": ("TreeEnsembleRegressor", _rows(), _regressor(3, base_values=[0.5, 1.0, -1.0])),
    "leaves for all": ("TreeEnsembleRegressor", _rows(), _regressor(3, spread=3)),
    "average": (
        "TreeEnsembleRegressor",
        _rows(),
        _regressor(aggregate_function="AVERAGE", base_values=[2.0]),
    ),
    "least": ("TreeEnsembleRegressor", _rows(), _regressor(2, aggregate_function="MIN")),
    "greatest": ("TreeEnsembleRegressor", _rows(), _regressor(2, aggregate_function="MAX", spread=2)),
    "gaps": ("TreeEnsembleRegressor", _rows(gaps=True), _regressor(missing=True)),
    "probit": (
        "TreeEnsembleRegressor",
        _rows(),
        {**_regressor(post_transform="PROBIT"), "target_weights": [0.02 * k for k in range(40)]},
    ),
    **{
        f"targets {how.lower()}": ("TreeEnsembleRegressor", _rows(), _regressor(3, post_transform=how))
        for how in ("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
    },
    **{
        mode: ("TreeEnsembleRegressor", _rows(gaps=mode == "BRANCH_GT"), _regressor(modes=(mode,)))
        for mode in _ALL
    },
    "all modes": ("TreeEnsembleRegressor", _rows(), _regressor(modes=_ALL)),
    "classes": ("TreeEnsembleClassifier", _rows(), _classifier()),
    "a forest": ("TreeEnsembleClassifier", _rows(), _classifier(spread=3, positive=True)),
    "classes softmax": (
        "TreeEnsembleClassifier",
        _rows(),
        _classifier(post_transform="SOFTMAX", base_values=[0.1, -0.2, 0.3]),
    ),
    "a forest of two": ("TreeEnsembleClassifier", _rows(), _classifier(2, spread=2, positive=True)),
    "two mixed": ("TreeEnsembleClassifier", _rows(), _classifier(2, spread=2)),
    **{
        f"one score, {name}": (
            "TreeEnsembleClassifier",
            _rows(),
            _classifier(2, ids=0, positive=positive, post_transform=how, **base),
        )
        for name, positive, how, base in (
            ("positive", True, "NONE", {}),
            ("positive logistic", True, "LOGISTIC", {"base_values": [0.1]}),
            ("mixed logistic", False, "LOGISTIC", {}),
            ("mixed logistic base", False, "LOGISTIC", {"base_values": [0.3]}),
        )
    },
}


def _compare(op, inputs, attrs, outputs=1, version=3):
    ort = pytest.importorskip("onnxruntime")
    ort.set_default_logger_severity(4)
    model, values = _model(op, inputs, attrs, outputs, version)
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, values)
    for got, expected in zip(_run(model, values), wanted, strict=True):
        if isinstance(expected, list):  # ZipMap
            expected = np.array([list(row.values()) for row in expected], np.float32)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("case", _TREES)
def test_trees_as_onnx_runtime(case):
    op, x, attrs = _TREES[case]
    _compare(op, [x], attrs, 2 if "Classifier" in op else 1)


def _split(aggregate=1, how=0, dtype="float32", modes=None, **attrs):
    """The form of version 5: two trees, one of three nodes, one of a node with sets."""
    return {
        "aggregate_function": aggregate,
        "post_transform": how,
        "n_targets": 2,
        "tree_roots": [0, 3],
        "nodes_modes": np.array(modes or [0, 2, 3, 6, 6], np.uint8),
        "nodes_featureids": [0, 1, 2, 3, 0],
        "nodes_splits": np.array([0.1, -0.3, 0.4, 0, 0], dtype),
        "nodes_truenodeids": [1, 0, 2, 4, 5],
        "nodes_trueleafs": [0, 1, 1, 0, 1],
        "nodes_falsenodeids": [2, 1, 3, 4, 6],
        "nodes_falseleafs": [0, 1, 1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 1, 0, 1],
        "leaf_weights": np.array([1, 2, 3, -4, 5, 6, 7], dtype),
        "membership_values": np.array([-1, 1, 2, np.nan, 3, 0, np.nan], dtype),
        **attrs,
    }


@pytest.mark.parametrize(
    ("attrs", "dtype"),
    [
        (_split(), "float32"),
        (_split(dtype="float64"), "float64"),
        (_split(aggregate=0), "float32"),
        (_split(aggregate=2), "float32"),
        (_split(aggregate=3), "float32"),
        (_split(nodes_missing_value_tracks_true=[1, 0, 1, 0, 1]), "float32"),
    ],
)
def test_ensembles_of_version_5(attrs, dtype):
    x = np.round(3 * _RNG.standard_normal((60, 4))).astype(dtype)
    model, values = _model("TreeEnsemble", [x], attrs, version=5)
    (wanted,) = (
        pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString()).run(None, values)
    )
    (got,) = _run(model, values)
    assert (got.dtype, got.shape) == (x.dtype, (60, 2))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_doubles_are_compared_as_doubles():
    """ONNX Runtime has no kernel for them: numbers that are exact in float32 give what floats give."""
    attrs = _regressor()
    wide = {
        **{key: value for key, value in attrs.items() if key not in ("nodes_values", "target_weights")},
        "nodes_values_as_tensor": np.float32(attrs["nodes_values"]).astype(np.float64),
        "target_weights_as_tensor": np.float64(attrs["target_weights"]),
    }
    x = _RNG.permutation(_rows())
    wanted = _run(*_model("TreeEnsembleRegressor", [x], attrs))[0]
    (got,) = _run(*_model("TreeEnsembleRegressor", [x.astype(np.float64)], wide))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    moved = {**wide, "nodes_values_as_tensor": wide["nodes_values_as_tensor"] - 1e-12}
    assert (_run(*_model("TreeEnsembleRegressor", [x.astype(np.float64)], moved))[0] != wanted).any()


def test_whole_numbers_are_taken_as_floats():
    """ONNX Runtime has no kernels for them in these two."""
    whole = _RNG.integers(-2, 3, (20, 4))
    for op, attrs in (
        ("TreeEnsembleRegressor", _regressor()),
        ("LinearRegressor", {"coefficients": [0.5, 1.0, -1.0, 2.0]}),
    ):
        wanted = _run(*_model(op, [whole.astype(np.float32)], attrs))[0]
        np.testing.assert_array_equal(_run(*_model(op, [whole], attrs))[0], wanted)


def test_coefficients_beyond_the_features_are_not_read():
    """As ONNX Runtime: a file of its own has twice as many as its input has features for."""
    x, numbers = _rows(), list(map(float, range(1, 9)))
    wanted = _run(*_model("LinearRegressor", [x], {"coefficients": numbers[:4]}))[0]
    made = _run(*_model("LinearRegressor", [x], {"coefficients": numbers}))[0]
    np.testing.assert_array_equal(made, wanted)


def test_a_transform_of_version_5_has_the_number_that_onnx_gives_it():
    """1 is SOFTMAX; ONNX Runtime 1.32 takes it for LOGISTIC."""
    x = _rows()
    (scores,) = _run(*_model("TreeEnsemble", [x], _split(how=0), version=5))
    wanted = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    for how, expected in ((1, wanted), (2, 1 / (1 + np.exp(-scores)))):
        made = _run(*_model("TreeEnsemble", [x], _split(how=how), version=5))[0]
        np.testing.assert_allclose(made, expected, rtol=1e-5)


def test_trees_run_on_tt():
    op, x, attrs = _TREES["several targets"]
    model, values = _model(op, [x], attrs)
    on_cpu, on_tt = _run(model, values)[0], _run(model, values, ("tt:0",))[0]
    near = np.isclose(on_cpu, on_tt, rtol=0.02, atol=0.05).mean()
    assert near > 0.9  # bfloat16 moves what is near a threshold


def _without(attrs, **changes):
    made = copy.deepcopy(attrs)
    for key, (at, value) in changes.items():
        made[key][at] = value
    return made


_PLAIN = _regressor(depth=2)


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        (_without(_PLAIN, nodes_truenodeids=(1, 0)), "cannot be reached from its root"),
        (_without(_PLAIN, nodes_truenodeids=(0, 2)), "has no root, or several"),
        (_without(_PLAIN, nodes_truenodeids=(0, 99)), "a node that does not exist|no root"),
        (_without(_PLAIN, nodes_featureids=(0, 7)), "feature 7, but rows have 4"),
        (_without(_PLAIN, nodes_featureids=(0, -1)), "reads feature"),
        (_without(_PLAIN, nodes_modes=(0, "BRANCH_OWN")), "BRANCH_OWN"),
        (_without(_PLAIN, nodes_nodeids=(1, 0)), "two nodes with one number"),
        (_without(_PLAIN, target_nodeids=(0, 0)), "not a leaf"),
        (_without(_PLAIN, target_nodeids=(0, 77)), "not a leaf"),
        (_without(_PLAIN, target_ids=(0, 3)), "a leaf has target 3, but there are only 1"),
        (_without(_PLAIN, target_ids=(0, -1)), "a leaf has target"),
        ({**_PLAIN, "nodes_values": [1.0]}, "different lengths"),
        ({**_PLAIN, "target_weights": [1.0]}, "different lengths"),
        ({**_PLAIN, "aggregate_function": "MEDIAN"}, "MEDIAN"),
        ({**_PLAIN, "post_transform": "OWN", "n_targets": 2}, "OWN"),
        ({**_PLAIN, "base_values": [1.0, 2.0, 3.0]}, "3 base values"),
    ],
)
def test_no_trees_are_refused_before_a_run(attrs, words):
    model, values = _model("TreeEnsembleRegressor", [_rows()], attrs)
    with pytest.raises(UnsupportedOpError, match=words):
        _run(model, values)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes_truenodeids": (1, 9)}, "a node that does not exist"),
        ({"nodes_truenodeids": (0, 0)}, "its own descendant"),
        ({"tree_roots": (0, 12)}, "a node that does not exist"),
        ({"nodes_featureids": (0, 4)}, "feature 4"),
        ({"leaf_targetids": (0, 2)}, "target 2, but there are only 2"),
    ],
)
def test_no_trees_of_version_5_are_refused(changes, words):
    model, values = _model("TreeEnsemble", [_rows()], _without(_split(), **changes), version=5)
    with pytest.raises(UnsupportedOpError, match=words):
        _run(model, values)
    model, values = _model("TreeEnsemble", [_rows()], _split(membership_values=np.float32([1])), version=5)
    with pytest.raises(UnsupportedOpError, match="2 nodes test membership, but there are 1 sets"):
        _run(model, values)


# ---------------------------------------------------------------- all others

_X, _W = _rows(), list(map(float, _f(12)))
_PER_CLASS = [3, 4, 2]
_SVC = {
    "classlabels_ints": [1, 2, 4],
    "vectors_per_class": _PER_CLASS,
    "support_vectors": list(map(float, _f(36))),
    "coefficients": list(map(float, _f(18))),
    "rho": [0.1, -0.2, 0.3],
}
_SVC_2 = {
    **_SVC,
    "classlabels_ints": [3, 5],
    "vectors_per_class": [4, 5],
    "coefficients": _SVC["coefficients"][:9],
    "rho": [0.2],
}
_KERNELS = {
    "linear": {"kernel_params": [0.0, 0.0, 0.0]},
    "poly": {"kernel_type": "POLY", "kernel_params": [0.2, 0.5, 3.0]},
    "rbf": {"kernel_type": "RBF", "kernel_params": [0.3, 0.0, 0.0]},
    "sigmoid": {"kernel_type": "SIGMOID", "kernel_params": [0.2, 0.1, 0.0]},
}
_GAPS = _rows(gaps=True)
_WHOLE = _RNG.integers(0, 5, (6, 3))
_WIDE = 1e8 + _RNG.standard_normal((6, 4))
_OTHERS = {
    "regressor": ("LinearRegressor", [_X], {"coefficients": _W[:4], "intercepts": [0.5]}),
    "regressor probit": (
        "LinearRegressor",
        [np.abs(_X) / 40],
        {"coefficients": [0.5, 0.1, 0.2, 0.3], "intercepts": [0.1], "post_transform": "PROBIT"},
    ),
    "targets": ("LinearRegressor", [_X], {"coefficients": _W, "targets": 3, "intercepts": [0.0, 1.0, 2.0]}),
    **{
        f"linear classes {how}": (
            "LinearClassifier",
            [_X],
            {
                "coefficients": _W,
                "intercepts": [0.1, 0.2, -0.3],
                "classlabels_ints": [7, 8, 9],
                "post_transform": how,
            },
        )
        for how in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
    },
    **{
        f"two linear classes {how}": (
            "LinearClassifier",
            [_X],
            {
                "coefficients": _W[:4],
                "intercepts": [0.1],
                "classlabels_ints": [7, 8],
                "post_transform": how,
            },
        )
        for how in ("NONE", "LOGISTIC")
    },
    **{
        f"vectors {name}": (
            "SVMRegressor",
            [_X],
            {"n_supports": 3, "support_vectors": _W, "coefficients": _W[:3], "rho": [0.5], **kernel},
        )
        for name, kernel in _KERNELS.items()
    },
    "vectors, linear": ("SVMRegressor", [_X], {"coefficients": _W[:4], "rho": [0.5], **_KERNELS["linear"]}),
    "one class": (
        "SVMRegressor",
        [_X],
        {
            "n_supports": 3,
            "support_vectors": _W,
            "coefficients": _W[:3],
            "rho": [-0.1],
            "one_class": 1,
            **_KERNELS["rbf"],
        },
    ),
    **{f"classes {name}": ("SVMClassifier", [_X], {**_SVC, **kernel}) for name, kernel in _KERNELS.items()},
    **{
        f"two classes {how}": ("SVMClassifier", [_X], {**_SVC_2, **_KERNELS["rbf"], "post_transform": how})
        for how in ("NONE", "LOGISTIC", "SOFTMAX")
    },
    "liblinear": (
        "SVMClassifier",
        [_X],
        {
            "classlabels_ints": [1, 2, 4],
            "coefficients": _W,
            "rho": [0.3],
            "post_transform": "SOFTMAX",
            **_KERNELS["linear"],
        },
    ),
    "liblinear of two": (
        "SVMClassifier",
        [_X],
        {"classlabels_ints": [1, 2], "coefficients": _W[:8], "rho": [0.3], **_KERNELS["linear"]},
    ),
    "scaler": ("Scaler", [_X], {"offset": _W[:4], "scale": _W[4:8]}),
    "scaler of doubles": ("Scaler", [_WIDE], {"offset": [1e8] * 4, "scale": _W[:4]}),
    "scaler, one number": ("Scaler", [_WHOLE], {"offset": [1.0], "scale": [0.5]}),
    **{f"norm {norm}": ("Normalizer", [np.abs(_X)], {"norm": norm}) for norm in ("MAX", "L1", "L2")},
    **{f"norm {norm} of gaps": ("Normalizer", [_GAPS], {"norm": norm}) for norm in ("MAX", "L1", "L2")},
    "norm of squares without end": ("Normalizer", [np.float32([[1e20, -1], [-1e-30, 0]])], {"norm": "L2"}),
    "norm of zeros": ("Normalizer", [np.zeros((2, 3), "float32")], {"norm": "L1"}),
    "imputer": (
        "Imputer",
        [_GAPS],
        {"imputed_value_floats": _W[:4], "replaced_value_float": float("nan")},
    ),
    "imputer, whole": ("Imputer", [_WHOLE], {"imputed_value_int64s": [9], "replaced_value_int64": 2}),
    "binarizer": ("Binarizer", [_X], {"threshold": 0.2}),
    "extractor": ("ArrayFeatureExtractor", [_X, np.array([[3, 1]])], {}),
    "extractor of a row": ("ArrayFeatureExtractor", [_X[0], np.array([2])], {}),
    "vectorizer": ("FeatureVectorizer", [_X, _X[:, :2]], {"inputdimensions": [4, 2]}),
    "one hot": ("OneHotEncoder", [_WHOLE], {"cats_int64s": [3, 1, 2]}),
    "one hot of floats": (
        "OneHotEncoder",
        [np.float32([[np.nan, -0.5, 1.9, -2]])],
        {"cats_int64s": [0, 1, -1]},
    ),
    "labels": ("LabelEncoder", [_WHOLE], {"keys_int64s": [1, 3, 0], "values_int64s": [10, 30, 0]}),
    "labels, floats": (
        "LabelEncoder",
        [_GAPS],
        {"keys_floats": [0.1, float("nan"), 0.5], "values_floats": [1.0, 2.0, 3.0], "default_float": 7.0},
    ),
    "labels, mixed": ("LabelEncoder", [_WHOLE], {"keys_int64s": [1, 2], "values_floats": [0.5, 1.5]}),
    "zip": ("ZipMap", [np.abs(_X)], {"classlabels_int64s": [1, 2, 3, 4]}),
}


@pytest.mark.parametrize("case", _OTHERS)
def test_as_onnx_runtime(case):
    op, inputs, attrs = _OTHERS[case]
    _compare(op, inputs, attrs, 2 if "Classifier" in op else 1, 4 if op == "LabelEncoder" else 3)


def _machine(classes, kernel, scale):
    """A machine of random vectors, whose decisions are about as large as ``scale``."""
    per = _RNG.integers(1, 4, classes)
    count, pairs = int(per.sum()), classes * (classes - 1) // 2
    return {
        "classlabels_ints": list(range(classes)),
        "vectors_per_class": per.tolist(),
        "support_vectors": _f(4 * count).tolist(),
        "coefficients": (scale * _f((classes - 1) * count)).tolist(),
        "rho": _f(pairs).tolist(),
        "prob_a": (-np.abs(_f(pairs))).tolist(),
        "prob_b": _f(pairs).tolist(),
        **_KERNELS[kernel],
    }


@pytest.mark.parametrize("classes", [2, 3, 5, 10])
@pytest.mark.parametrize("kernel", _KERNELS)
def test_probabilities_of_vectors(kernel, classes):
    """Each row stops where libsvm's iteration does; scores of 40 are near the bounds of 1e-7. A row of NaN
    stays at 1 / classes."""
    x = np.concatenate([_rows(), np.zeros((1, 4)), [[np.nan, 0, 0, 1], [np.inf, 1, 0, 0], [1e20, 0, 0, 0]]])
    for scale, dtype in ((0.01, "float32"), (1, "float64"), (40, "float32")):
        attrs = _machine(classes, kernel, scale)
        _compare("SVMClassifier", [x.astype(dtype)], attrs, 2)
        _compare("SVMClassifier", [x.astype(dtype)], {**attrs, "post_transform": "SOFTMAX"}, 2)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.filterwarnings("ignore:.*probability:FutureWarning")
def test_probabilities_as_scikit_learn(kernel, classes):
    svm = pytest.importorskip("sklearn.svm")
    middle = 2 * _RNG.standard_normal((classes, 3))
    label = np.repeat(np.arange(classes), 30)
    x = middle[label] + _RNG.standard_normal((len(label), 3))
    found = svm.SVC(kernel=kernel, probability=True, random_state=0).fit(x, label)
    attrs = {
        "classlabels_ints": list(range(classes)),
        "vectors_per_class": found.n_support_.tolist(),
        "support_vectors": found.support_vectors_.ravel().tolist(),
        "coefficients": found._dual_coef_.ravel().tolist(),
        "rho": found._intercept_.tolist(),
        "prob_a": found.probA_.tolist(),
        "prob_b": found.probB_.tolist(),
        "kernel_type": kernel.upper(),
        "kernel_params": [float(found._gamma), 0.0, 3.0],
    }
    between = (x + x[_RNG.permutation(len(x))]) / 2
    labels, made = _run(*_model("SVMClassifier", [np.float32(between)], attrs, 2))
    np.testing.assert_allclose(made, found.predict_proba(between), atol=5e-6)
    np.testing.assert_array_equal(labels, found.predict(between))


def test_vectors_far_from_zero():
    """|x|^2 - 2 x v + |v|^2 of float32 has no digit of a distance left."""
    x = np.float32(_rows() + 1000)
    attrs = _machine(3, "rbf", 1)
    moved = np.float32(attrs["support_vectors"]) + np.float32(1000)
    _compare("SVMClassifier", [x], {**attrs, "support_vectors": moved.tolist()}, 2)
    count = len(moved) // 4
    attrs = {"n_supports": count, "support_vectors": moved.tolist(), "coefficients": _f(count).tolist()}
    _compare("SVMRegressor", [x], {**attrs, "rho": [0.5], **_KERNELS["rbf"]})


def test_a_row_that_cannot_be_coupled_stays_even():
    between = np.float32([[0.9, 0.8, 0.3], [0.9, np.nan, 0.3], [0, 0, 0]])
    builder = gr.GraphBuilder()
    builder.output(builder.op("couple", builder.input("x", between.shape)))
    module = gr.create(builder, devices=["cpu:0"])
    module.run(x=between)
    made = module.get_output(0).numpy()
    assert made[0].argmax() == 0
    assert abs(made[0].sum() - 1) < 1e-6
    np.testing.assert_array_equal(made[1], np.float32([1 / 3] * 3))


def test_every_converter_is_compared():
    compared = {op for op, *_ in (*_TREES.values(), *_OTHERS.values())} | {"TreeEnsemble"}
    compared |= {"CategoryMapper"}  # test_texts.py
    assert {op for domain, op in table() if domain == DOMAIN} == compared


@pytest.mark.parametrize(
    ("op", "x", "attrs", "words"),
    [
        ("Scaler", _X, {"scale": [1.0, 2.0]}, "scale has 2 numbers, but rows have 4"),
        ("LinearRegressor", _X, {"coefficients": _W[:3]}, "coefficients has 3 numbers instead of 1 x 4"),
        ("SVMClassifier", _X, {**_SVC, "rho": [0.1]}, "does not fit 3 classes"),
        ("SVMClassifier", _X, {**_SVC, "vectors_per_class": [-3, 4, 8]}, "does not fit 3 classes"),
        ("LabelEncoder", _WHOLE, {"keys_int64s": [1], "values_int64s": [1, 2]}, "1 keys for 2 values"),
        ("LabelEncoder", _WHOLE, {"keys_strings": ["a"], "values_int64s": [1]}, "of the input's kind"),
        ("Normalizer", _X, {"norm": "L3"}, "L3"),
        ("Imputer", _X, {"imputed_value_floats": [1.0, 2.0]}, "has 2 numbers, but rows have 4"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_run(op, x, attrs, words):
    model, values = _model(op, [x], attrs, 2 if "Classifier" in op else 1)
    with pytest.raises(UnsupportedOpError, match=words):
        _run(model, values)
