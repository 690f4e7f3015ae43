"""StableHLO as text: what is read, what it computes, and where errors say they are. Needs no jax."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.artifacts.door import open_source
from graph_runtime.cli import main
from graph_runtime.frontends.stablehlo import load_model
from graph_runtime.run.flows.flow_module import FlowModule

MLP = """\
#loc = loc(unknown)
module @mlp attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32> {mhlo.sharding = ""} loc("x"), %arg1: tensor<3x2xf32>)
      -> (tensor<2x2xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT]
        : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32> loc(#loc)
    %1 = call @relu(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
    return %1 : tensor<2x2xf32>
  }
  func.func private @relu(%arg0: tensor<2x2xf32>) -> tensor<2x2xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>  // a comment
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x2xf32>
    return %1 : tensor<2x2xf32>
  }
}
"""
GENERIC = """\
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<2x3xf32>) -> tensor<3xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<2x3xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1.5> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %2 = "stablehlo.add"(%arg1, %arg2) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%2) : (tensor<f32>) -> ()
    }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
    "func.return"(%1) : (tensor<3xf32>) -> ()
  }) : () -> ()
}) : () -> ()
"""


def module_of(body: str, inputs: str, result: str) -> str:
    return f"func.func @main({inputs}) -> {result} {{\n{body}\n}}\n"


def run(text: str, *arrays: np.ndarray, **words) -> list[np.ndarray]:
    module = gr.create(text, compile=False, **words)
    module.run(**{f"arg{i}": array for i, array in enumerate(arrays)})
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def test_pretty_forms_calls_and_locations():
    x, w = np.random.default_rng(0).standard_normal((2, 2, 3), np.float32)
    w = w.reshape(3, 2)
    (made,) = run(MLP, x, w)
    np.testing.assert_allclose(made, np.maximum(x @ w, 0), rtol=1e-6)
    assert load_model(MLP).input_names == ("arg0", "arg1")


def test_generic_forms():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run(GENERIC, x)[0], x.sum(0) + 1.5)


@pytest.mark.parametrize("source", ["path", "bytes", "text"])
def test_a_path_bytes_and_text_are_the_same(tmp_path, source):
    path = tmp_path / "mlp.mlir"
    path.write_text(MLP)
    given = {"path": path, "bytes": MLP.encode(), "text": MLP}[source]
    assert load_model(given).output_names == ("output0",)
    assert gr.create(given, compile=False).get_num_outputs() == 1


def test_hexadecimal_constants_stay_in_the_file(tmp_path):
    w = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    body = f'%0 = stablehlo.constant dense<"0x{w.tobytes().hex().upper()}"> : tensor<64x64xf32>\n'
    body += "%1 = stablehlo.add %arg0, %0 : tensor<64x64xf32>\nreturn %1 : tensor<64x64xf32>"
    path = tmp_path / "w.mlir"
    path.write_text(module_of(body, "%arg0: tensor<64x64xf32>", "tensor<64x64xf32>"))
    model = load_model(path)
    (constant,) = model.constants.values()
    np.testing.assert_array_equal(constant.read(), w)
    np.testing.assert_array_equal(run(str(path), w)[0], w + w)


def test_resources():
    w = np.arange(6, dtype=np.float32)
    body = "%0 = stablehlo.constant dense_resource<w> : tensor<6xf32>\nreturn %0 : tensor<6xf32>"
    text = module_of(body, "", "tensor<6xf32>")
    blob = "04000000" + w.tobytes().hex()
    text += '{-#\n  dialect_resources: {\n    builtin: {\n      w: "0x' + blob + '"\n    }\n  }\n#-}\n'
    np.testing.assert_array_equal(run(text)[0], w)


@pytest.mark.parametrize(
    ("literal", "kind", "wanted"),
    [
        ("[[1, 2], [3, -4]]", "2x2xi32", np.array([[1, 2], [3, -4]], np.int32)),
        ("true", "3xi1", np.ones(3, bool)),
        ("[true, false]", "2xi1", np.array([True, False])),
        ("0xFF800000", "f32", np.float32(-np.inf)),
        ("[0x7FC00000, 1.5]", "2xf32", np.array([np.nan, 1.5], np.float32)),
        ("-1", "2xui8", np.array([255, 255], np.uint8)),
        ('"0x0100000002000000"', "2xi32", np.array([1, 2], np.int32)),
        ("", "0xf32", np.zeros(0, np.float32)),
    ],
)
def test_literals(literal, kind, wanted):
    body = f"%0 = stablehlo.constant dense<{literal}> : tensor<{kind}>\nreturn %0 : tensor<{kind}>"
    np.testing.assert_array_equal(run(module_of(body, "", f"tensor<{kind}>"))[0], wanted)


def test_a_comment_may_end_the_text():
    assert load_model(MLP + "// CHECK: nothing").output_names == ("output0",)


def test_batch_norm_and_next_after():
    body = """\
%0 = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg1, %arg1, %arg1)
    <{epsilon = 0.5 : f32, feature_index = 1 : i64}>
    : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
%1 = chlo.next_after %arg0, %0 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>"""
    inputs, outputs = "%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>", "(tensor<2x3xf32>, tensor<2x3xf32>)"
    x, v = np.array([[0, 1, -2], [3, -4, 5]], np.float32), np.array([1, 2, 3], np.float32)
    made, after = run(module_of(body, inputs, outputs), x, v)
    np.testing.assert_allclose(made, v * (x - v) / np.sqrt(v + 0.5) + v, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(after, np.nextafter(x, made))


WHILE = """\
%c = stablehlo.constant dense<0> : tensor<i32>
%0:2 = stablehlo.while(%i = %c, %x = %arg0) : tensor<i32>, tensor<4xf32>
cond {
  %n = stablehlo.compare LT, %i, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %n : tensor<i1>
} do {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %j = stablehlo.add %i, %one : tensor<i32>
  %y = stablehlo.add %x, %x : tensor<4xf32>
  stablehlo.return %j, %y : tensor<i32>, tensor<4xf32>
}
return %0#1 : tensor<4xf32>"""


@pytest.mark.parametrize(
    ("algorithm", "state", "wanted"),
    [
        ("PHILOX", [0, 0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ("PHILOX", [2**64 - 1] * 3, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        ("DEFAULT", [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ("THREE_FRY", [0, 0], [0x6B200159, 0x99BA4EFE]),
        ("THREE_FRY", [2**64 - 1] * 2, [0x1CB996FC, 0xBB002BE7]),
    ],
)
def test_bits_of_generators(algorithm, state, wanted):
    """The known answers that Random123 ships."""
    words, count = f"tensor<{len(state)}xui64>", len(wanted)
    body = (
        f"%s, %b = stablehlo.rng_bit_generator %arg0, algorithm = {algorithm} : ({words}) -> "
        f"({words}, tensor<{count}xui32>)\nreturn %s, %b : {words}, tensor<{count}xui32>"
    )
    after, bits = run(
        module_of(body, f"%arg0: {words}", f"({words}, tensor<{count}xui32>)"), np.array(state, np.uint64)
    )
    np.testing.assert_array_equal(bits, np.array(wanted, np.uint32), strict=True)
    low, high = (state[1] + 1) % 2**64, (state[-1] + (state[1] == 2**64 - 1)) % 2**64
    assert after.tolist() == [state[0], low, high][: len(state)]


@pytest.mark.parametrize("count", [0, 1, 5, 40])
def test_a_loop_that_a_run_ends(count):
    text = module_of(WHILE, "%arg0: tensor<4xf32>, %arg1: tensor<i32>", "tensor<4xf32>")
    module = gr.create(text, compile=False)
    assert isinstance(module, FlowModule)
    x = np.arange(4, dtype=np.float32)
    module.run(arg0=x, arg1=np.array(count, np.int32))
    np.testing.assert_array_equal(module.get_output(0).numpy(), x * np.float32(2) ** count)
    with pytest.raises(gr.GraphError, match="line 3: while: its condition must be known before a run"):
        load_model(text)


def test_a_branch_that_a_run_chooses():
    branches = """\
%0 = "stablehlo.case"(%arg1) ({
  %1 = stablehlo.dot %arg0, %arg0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  stablehlo.return %1 : tensor<2x2xf32>
}, {
  stablehlo.return %arg0 : tensor<2x2xf32>
}) : (tensor<i32>) -> tensor<2x2xf32>
return %0 : tensor<2x2xf32>"""
    text = module_of(branches, "%arg0: tensor<2x2xf32>, %arg1: tensor<i32>", "tensor<2x2xf32>")
    module = gr.create(text, compile=False)
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    for index, wanted in ((0, x @ x), (1, x), (7, x), (-1, x)):
        module.run(arg0=x, arg1=np.array(index, np.int32))
        np.testing.assert_array_equal(module.get_output(0).numpy(), wanted)


def test_a_donated_argument_becomes_an_alias():
    body = "%0 = stablehlo.add %arg0, %arg1 : tensor<4xf32>\n"
    body += (
        "%1 = stablehlo.multiply %arg0, %arg1 : tensor<4xf32>\nreturn %0, %1 : tensor<4xf32>, tensor<4xf32>"
    )
    donated = "%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4xf32>"
    model = load_model(module_of(body, donated, "(tensor<4xf32>, tensor<4xf32>)"))
    assert model.graph.hints.aliases == ((0, 0),)
    module = gr.create(model, compile=False)
    x = np.ones(4, np.float32)
    module.set_input(arg0=x, arg1=x)
    for i in range(3):
        module.run()
        np.testing.assert_array_equal(module.get_output(0).numpy(), x * (i + 2))
        np.testing.assert_array_equal(module.get_output(1).numpy(), x * (i + 1))


TRANSPOSED = module_of(
    "%0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>\n"
    "return %0 : tensor<2x2xf32>",
    "%arg0: tensor<2x2xf32> {tf.aliasing_output = 0 : i32}",
    "tensor<2x2xf32>",
)


@pytest.mark.parametrize("opened", [str, load_model, open_source])
def test_a_result_that_cannot_be_where_it_was_donated_has_memory_of_its_own(opened):
    module = gr.create(opened(TRANSPOSED), compile=False)
    module.run(arg0=np.arange(4, dtype=np.float32).reshape(2, 2))
    np.testing.assert_array_equal(module.get_output(0).numpy(), [[0, 2], [1, 3]])
    assert not module.session.plan.aliases


def test_the_commands_take_such_a_donation_too(tmp_path, capsys):
    (tmp_path / "net.mlir").write_text(TRANSPOSED)
    with pytest.raises(SystemExit) as end:
        main(["run", str(tmp_path / "net.mlir"), "--input", "arg0=random", "--no-compile"])
    assert not end.value.code
    assert "output 0 output0: float32[2, 2]" in capsys.readouterr().out


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        (
            MLP.replace("maximum %arg0,", "maximum , ]"),
            13,
            30,
            "is not expected",
        ),
        (MLP.replace("@relu(%0) :", "@relux(%0) :"), 7, 5, "there is no function @relux"),
        (
            MLP.replace("maximum %arg0, %0", "maximum %arg0, %9"),
            13,
            5,
            "reads %9, which is not defined before it",
        ),
        (MLP[:-3], 15, 4, "closed"),
        ("module {\n}\n", 3, 1, "no func.func"),
        (MLP.replace("tensor<2x3xf32> {", "tensr {"), 3, 33, "a type is expected"),
        (MLP.replace("-> tensor<2x2xf32> loc(#loc)", "-> tensor<2x9xf32>"), 5, 5, "declares float32"),
    ],
)
def test_errors_say_line_and_column(text, line, column, reason):
    with pytest.raises((gr.DocumentError, gr.GraphError)) as found:
        load_model(text)
    assert reason in str(found.value)
    assert (found.value.fields["line"], found.value.fields["column"]) == (line, column)


def test_an_operand_that_an_op_does_not_take_is_refused():
    body = """%0 = "stablehlo.exponential"(%arg0, %arg0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
return %0 : tensor<2xf32>"""
    with pytest.raises(gr.UnsupportedOpError, match=r"exponential .*it has 2 operands, but takes 1"):
        load_model(module_of(body, "%arg0: tensor<2xf32>", "tensor<2xf32>"))


def test_all_that_is_not_supported_is_listed_at_once_with_counts():
    body = "\n".join(
        [
            *(f"%{i} = stablehlo.cholesky %arg0, lower = true : tensor<2x2xf32>" for i in range(3)),
            "%3 = stablehlo.custom_call @lapack_x(%arg0) : (tensor<2x2xf32>) -> tensor<2x2xf32>",
            "%4 = stablehlo.complex %arg0, %arg0 : tensor<2x2xcomplex<f32>>",
            "return %3 : tensor<2x2xf32>",
        ]
    )
    text = module_of(body, "%arg0: tensor<2x2xf32>", "tensor<2x2xf32>")
    with pytest.raises(gr.UnsupportedOpError) as found:
        load_model(text)
    assert "3 x stablehlo.cholesky (no converter; line 2, 3, 4)" in str(found.value)
    assert "complex" in str(found.value)
    body = "\n".join([body.split("\n")[3], "return %3 : tensor<2x2xf32>"])
    with pytest.raises(gr.UnsupportedOpError, match="custom_call @lapack_x calls a function of another"):
        load_model(module_of(body, "%arg0: tensor<2x2xf32>", "tensor<2x2xf32>"))


def test_functions_that_call_themselves_end():
    body = "%0 = call @main(%arg0) : (tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32>"
    with pytest.raises(gr.GraphError, match="expand to more"):
        load_model(module_of(body, "%arg0: tensor<f32>", "tensor<f32>"))


def test_no_jax_and_no_onnx_are_needed(tmp_path):
    path = tmp_path / "mlp.mlir"
    path.write_text(module_of(WHILE, "%arg0: tensor<4xf32>, %arg1: tensor<i32>", "tensor<4xf32>"))
    code = (
        "import sys; sys.modules['onnx'] = sys.modules['jax'] = None\n"
        "import numpy as np, graph_runtime as gr\n"
        f"m = gr.create({str(path)!r}, compile=False)\n"
        "m.run(arg0=np.ones(4, np.float32), arg1=np.int32(3)); print(m.get_output(0).numpy()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "8.0", done.stderr
