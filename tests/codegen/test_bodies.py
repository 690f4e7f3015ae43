"""What native/kernels announces: bodies by their own line, functions by one line for all of functions.h."""

from __future__ import annotations

import pytest
from graph_runtime.codegen.bodies import FOR_AVX2, find_bodies, generic_table
from graph_runtime.codegen.shared_library import native_folder

LIST = """/* GR_FUNCTION(told, 0, 1, of in a comment) */
#ifndef GR_FUNCTION
#endif

GR_FUNCTION(ceil, 0, 1, GR_LIB(ceil)(a))
GR_STEP_FUNCTION(elu, 29, 1, 16, a < 0 ? (GR_E)p : a) /* of two operands */
GR_NUMBER(sign, 0, a > 0)
GR_STEP_NUMBER(clip, 28, 2, GR_OF(clipped)(a, p, q))
"""


@pytest.fixture
def kernels(tmp_path):
    """A folder kernels/ of a list of functions and a header of each kind."""

    def write(functions=LIST, cpu="/* gr-functions: cpu : f32 f16 */\n", tt="/* gr-functions: tt */\n"):
        for name, text in (("functions.h", functions), ("cpu/one.h", cpu), ("tt/one.h", tt)):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


def generic(folder):
    return [body.generic for body in find_bodies(folder)]


def test_a_line_announces_each_function_for_each_suffix(kernels):
    found = find_bodies(kernels())
    names = ["cpu/ceil/f16", "cpu/elu/f16", "cpu/ceil/f32", "cpu/elu/f32", "tt/ceil", "tt/elu"]
    assert [body.generic for body in found] == names
    assert [body.function for body in found[-3:]] == ["gr_cpu_elu__f32", "gr_tt_ceil", "gr_tt_elu"]
    assert {body.header for body in found} == {"cpu/one.h", "tt/one.h"}


def test_one_line_more_is_one_function_more_on_every_kind(kernels):
    before = set(generic(kernels()))
    after = set(generic(kernels(LIST + "GR_FUNCTION(cube, 0, 1, a * a * a)\n")))
    assert after - before == {"cpu/cube/f32", "cpu/cube/f16", "tt/cube"}


def test_pairs_and_triples_have_lines_of_their_own(kernels):
    more = "GR_PAIR(hypot, 16, GR_LIB(hypot)(a, b))\nGR_TRIPLE(lerp, 0, 1, a + c * (b - a))\n"
    cpu = "/* gr-pairs: cpu : f32 f16 */\n/* gr-triples: cpu : f64 */\n"
    found = generic(kernels(LIST + more, cpu, "/* gr-functions: tt */\n/* gr-triples: tt */\n"))
    assert found == ["cpu/hypot/f16", "cpu/hypot/f32", "cpu/lerp/f64", "tt/ceil", "tt/elu", "tt/lerp"]


FOLDS = """/* GR_FOLD(told, 0, x, a, of in a comment) */
GR_FOLD(max, GR_LOWEST, x, (GR_E)a >= (GR_E)b || GR_IS_NAN(a) ? a : b, a)
GR_NUMBER_FOLD(sum, 0, x, a + b, a)
GR_FLOAT_FOLD(mean, 0, x, a + b, a / n)
"""


def test_reductions_have_a_list_of_their_own(kernels):
    cpu = "/* gr-folds: cpu : f32 bool */\n/* gr-number-folds: cpu : f32 i32 */\n"
    cpu += "/* gr-float-folds: cpu : f32 */\n"
    folder = kernels(cpu=cpu, tt="/* gr-folds: tt */\n/* gr-float-folds: tt */\n")
    (folder / "folds.h").write_text(FOLDS)
    found = ["cpu/max/bool", "cpu/max/f32", "cpu/mean/f32", "cpu/sum/f32", "cpu/sum/i32", "tt/max", "tt/mean"]
    assert sorted(generic(folder)) == found
    (folder / "folds.h").write_text(FOLDS + "GR_NUMBER_FOLD(norm1, 0, GR_ABS(x), a + b, a)\n")
    assert sorted(set(generic(folder)) - set(found)) == ["cpu/norm1/f32", "cpu/norm1/i32"]


@pytest.mark.parametrize(
    "line", ["GR_FOLD(least, 0, x, a)", "GR_FOLD(least, 0, x, a, a);", "GR_PAIR(least, 1, a)", "least"]
)
def test_a_malformed_fold_is_refused_with_its_place(kernels, line):
    folder = kernels(cpu="/* gr-folds: cpu : f32 */\n")
    (folder / "folds.h").write_text(FOLDS + line + "\n")
    with pytest.raises(ValueError, match=r"^folds.h:5: no line that its comment allows"):
        find_bodies(folder)


def test_a_fold_that_is_there_twice_is_refused(kernels):
    folder = kernels(cpu="/* gr-folds: cpu : f32 */\n")
    (folder / "folds.h").write_text(FOLDS + "GR_FOLD(sum, 0, x, a + b, a)\n")
    with pytest.raises(ValueError, match=r"^folds.h:5: sum is at folds.h:3, too$"):
        find_bodies(folder)


def test_a_folder_without_such_a_line_needs_no_list(kernels):
    folder = kernels(cpu="/* gr-kernel: cpu/add : f32 */\n", tt="/* gr-kernel: tt/add */\n")
    (folder / "functions.h").unlink()
    assert generic(folder) == ["cpu/add/f32", "tt/add"]


@pytest.mark.parametrize(
    "line",
    [
        "GR_PAIR(cube, 0, 1, a * b)",  # words
        "GR_TRIPLE(cube, 2, 1, a * b)",  # two words
        "GR_TRIPLE(cube, 1, a * b)",  # no cost
        "GR_FUNCTION(cube, 0, a * a * a)",  # no cost
        "GR_FUNCTION(cube, 3, 1, a * a * a)",  # three words
        "GR_FUNCTION(cube, 0, 2, a * a * a)",  # a cost that is none
        "GR_FUNCTION(cube, 0, 1, a * a * a);",
        "GR_FUNCTION(cube, 0, 1, a * a",  # two lines
        "GR_STEP_FUNCTION(cube, 0, 1, a * a * a)",  # no code
        "GR_STEP_NUMBER(cube, 0, a)",
        "GR_NUMBERS(cube, 0, a)",
        "cube",
    ],
)
def test_a_malformed_function_is_refused_with_its_place(kernels, line):
    with pytest.raises(ValueError, match=r"^functions.h:9: no line that its comment allows"):
        find_bodies(kernels(LIST + line + "\n"))


@pytest.mark.parametrize(
    "line",
    [
        "/* gr-functions: */",
        "/* gr-functions cpu : f32 */",
        "/* gr-functions: cpu/exp : f32 */",
        "/* gr-functions: cpu : f32, f64 */",
        "/* gr-pairs cpu : f32 */",
        "/* gr-triples: cpu/lerp : f32 */",
        "/* gr-kernel: cpu : f32 */",
        "/* gr-kernel: cpu/exp",
    ],
)
def test_a_malformed_announcing_line_is_refused_with_its_place(kernels, line):
    with pytest.raises(ValueError, match=r"^cpu/one.h:2: no announcing line"):
        find_bodies(kernels(cpu=f"\n{line}\n"))


def test_a_name_that_is_there_twice_is_refused(kernels):
    with pytest.raises(ValueError, match=r"^functions.h:9: ceil is at functions.h:5, too$"):
        find_bodies(kernels(LIST + "GR_FUNCTION(ceil, 0, 1, a)\n"))
    with pytest.raises(ValueError, match=r"^functions.h:9: ceil is at functions.h:5, too$"):
        find_bodies(kernels(LIST + "GR_PAIR(ceil, 1, a)\n"))
    both = "/* gr-functions: tt */\n/* gr-kernel: tt/ceil */\n"
    with pytest.raises(ValueError, match=r"^tt/one.h:2: tt/ceil is at functions.h:5, too$"):
        find_bodies(kernels(tt=both))


def test_the_functions_of_the_tree_are_units_of_their_headers():
    units = generic_table(native_folder() / "kernels")
    for unit, function in (
        ("cpu_unary", "gr_cpu_silu__bf16"),
        ("tt_unary", "gr_tt_silu"),
        ("cpu_reduce", "gr_cpu_max__bool"),
        ("tt_reduce", "gr_tt_mean"),
    ):
        assert f"{{ return {function}(call); }}" in units[f"generic_{unit}.c"]


def test_what_gains_by_avx2_is_in_the_table_twice():
    kernels = native_folder() / "kernels"
    plain, both = generic_table(kernels), generic_table(kernels, avx2=True)
    more = both.keys() - plain.keys()
    assert more == {f"generic_cpu_{family}_avx2.c" for family in FOR_AVX2}
    assert all(both[name] == text for name, text in plain.items() if name != "generic_table.c")
    assert "int32_t gr_generic_gr_cpu_add__f32_avx2(const gr_call *call)" in both["generic_cpu_binary_avx2.c"]
    table = both["generic_table.c"]
    assert '{"cpu/add/f32", gr_generic_gr_cpu_add__f32, gr_generic_gr_cpu_add__f32_avx2},' in table
    assert '{"cpu/add/i8", gr_generic_gr_cpu_add__i8, 0},' in table
