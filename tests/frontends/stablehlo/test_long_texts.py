"""Texts that are long, deep or full: each is refused at a place, or read, in one pass over its bytes. Times
are judged by fuzz/fuzz_long.py; what is quadratic here ends by the timeout."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.frontends.stablehlo import load_model

HEAD = "func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"
END = "return %arg0 : tensor<4xf32>\n}\n"
LONG = 1 << 20
REFUSED = {
    "a string that is not closed": (HEAD + '%0 = a.b "' + '\\"' * LONG, "is not closed"),
    "literals that are not closed": (HEAD + "dense<" * (LONG // 6), "is not closed"),
    "types that are not closed": (HEAD + "tensor<" * (LONG // 7), "nested more than 64 deep"),
    "regions": (HEAD + '"a"()({' * (LONG // 7), "nested more than 64 deep"),
    "brackets that are left out": ("#a = #foo<" + "[" * LONG, "nested more than 64 deep"),
    "brackets of a literal": (
        HEAD + f"%0 = stablehlo.constant dense<{'[' * LONG}> : tensor<4xf32>\n" + END,
        "lists of a literal",
    ),
    "digits of a count": (HEAD + f"%0:{'9' * 5000} = a.b : i1\n" + END, "cannot have 9999"),
    "no results": (HEAD + "%0:0 = a.b : i1\n" + END, "cannot have 0"),
    "digits of a size": (
        HEAD + f"%0 = stablehlo.abs %arg0 : tensor<{'9' * 5000}xf32>\n" + END,
        "of type tensor<999",
    ),
    "digits of a value": (
        HEAD + f"%0 = stablehlo.constant dense<{'9' * 5000}> : tensor<4xi32>\n" + END,
        "has an invalid value",
    ),
    "results": (HEAD + "".join(f"%i{i}:65536 = a.b : i1\n" for i in range(60)) + END, "too many values"),
    "operands": (HEAD + "%0 = a.b " + "%a," * (LONG // 3) + END, "too many values"),
    "attributes": (HEAD + "%0 = a.b {" + "a=1," * (LONG // 2) + END, "too many values"),
    "elements of an array": (HEAD + f"%0 = a.b {{a = array<i64: {'1,' * LONG}1>}}\n", "too many values"),
    "arguments": (f"func.func @main({', '.join(f'%a{i}: i1' for i in range(60000))}) {{", "too many values"),
    "ops": (HEAD + '"a"():()->()\n' * (LONG // 13), "more ops than any"),
    "unknown ops": (HEAD + "".join(f'"a.op{i}"() : () -> ()\n' for i in range(20000)) + END, "cannot be"),
    "constants": (
        HEAD + "".join(f"%{i}=stablehlo.constant dense<1.0>:tensor<4xf32>\n" for i in range(30000)) + END,
        "expand to more than",
    ),
}  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", REFUSED)
def test_what_no_program_writes_is_refused(name):
    text, reason = REFUSED[name]
    with pytest.raises((gr.DocumentError, gr.GraphError), match=reason):
        load_model(text)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("between", [" \f", "// \\\n", "#a = #foo<" + "[] " * 20 + ">\n"])
def test_what_stands_between_is_read_once(between):
    names = (f"#a{i} = " for i in range(LONG))
    text = between * (LONG // len(between))
    text = "".join(next(names) + line[5:] + "\n" for line in text.splitlines()) if "=" in between else text
    assert load_model("module {\n" + text + "\n" + HEAD + END + "}").graph.num_nodes == 2


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("%0 = stablehlo.abs %arg0 : tensor<4xf32>\n%0 = stablehlo.abs %arg0 : tensor<4xf32>\n", (3, 1)),
        ("%arg0 = stablehlo.abs %arg0 : tensor<4xf32>\n", (2, 1)),
        ("%0:2 = a.b : i1, i1\n%0 = stablehlo.abs %arg0 : tensor<4xf32>\n", (3, 1)),
        ('%0 = "a.b"() ({\n%arg0 = a.b : i1\na.return\n}) : () -> i1\n', (3, 1)),
        ('"a.b"() ({\n^bb0(%x: i1, %x: i1):\na.return\n}) : () -> ()\n', (3, 16)),
        ('%0, %0 = "a.b"() : () -> (i1, i1)\n', (2, 1)),
    ],
)
def test_a_value_is_defined_once(body, place):
    with pytest.raises(gr.DocumentError, match="is defined twice") as found:
        load_model(HEAD + body + END)
    assert found.value.fields["line"] == place[0]


def test_functions_and_regions_beside_each_other_have_names_of_their_own():
    text = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %1 = call @f(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.negate %a : tensor<2xf32>
  return %0 : tensor<2xf32>
}"""
    module = gr.create(text, compile=False)
    module.run(a=np.array([1, 2], np.float32))
    assert module.get_output(0).numpy().tolist() == [-1, -2]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("i32", ["-2147483648", "4294967295", "0x7F", "0"]),
        ("ui8", ["255", "-1", "0xFF", "7"]),
        ("ui64", ["18446744073709551615", "9223372036854775808", "1", "0"]),
        ("f32", ["1.5", "-0.0", "0x7FC00000", "1e39"]),
        ("f64", ["0.1", "nan", "-inf", "12345678901234567890"]),
        ("bf16", ["1.01", "3", "0x7F80", "-1e-40"]),
        ("i1", ["true", "false", "1", "0"]),
    ],
)
@pytest.mark.parametrize("count", [4, 20000])
def test_elements_of_a_list_are_read_as_each_alone(kind, words, count):
    many = (words * count)[:count]
    row = ", ".join(many)
    made = _value(f"[[{row}],\n [{row}]]", f"tensor<2x{count}x{kind}>")
    alone = [_value(word, f"tensor<1x{kind}>")[0] for word in words]
    wanted = np.array(alone)[np.arange(count) % len(words)]
    np.testing.assert_array_equal(
        made.view(f"u{made.itemsize}"), np.stack([wanted] * 2).view(f"u{made.itemsize}")
    )


def _value(literal: str, kind: str) -> np.ndarray:
    body = f"%0 = stablehlo.constant dense<{literal}> : {kind}\nreturn %0 : {kind}"
    model = load_model(f"func.func @main() -> {kind} {{\n{body}\n}}")
    (constant,) = model.constants.values()
    return np.asarray(constant.read())


@pytest.mark.parametrize(
    "text", ["[[1, 2], [3]]", "[1, 2, 3, 4]", "[[1, 2], [3, 4]", "[[1, 2] [3, 4]]", "[[1, 2], [3 4]]"]
)
def test_lists_that_are_not_those_of_the_type(text):
    body = f"%0 = stablehlo.constant dense<{text}> : tensor<2x2xi32>\n"
    with pytest.raises(gr.DocumentError, match="line 2"):
        load_model(HEAD + body + END)
