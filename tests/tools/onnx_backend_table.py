"""The node tests of ONNX's backend suite that do not run here, why, and what ONNX Runtime makes of them.

python tests/tools/onnx_backend_table.py  ->  a line a reason, and what it passes that is skipped
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1] / "frontends" / "onnx"))


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _near(got: Any, wanted: Any, case: Any) -> bool:
    if isinstance(wanted, list) or np.asarray(wanted).dtype.kind in "OUS":
        return np.array_equal(np.asarray(got, object), np.asarray(wanted, object))
    wide = [np.asarray(each).astype(np.float64) for each in (got, wanted)]
    return wide[0].shape == wide[1].shape and np.allclose(
        *wide, rtol=case.rtol, atol=case.atol, equal_nan=True
    )


def passes(case: Any) -> str:
    """What ONNX Runtime makes of a test: passes, differs, or the class of its refusal."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    try:
        session = onnxruntime.InferenceSession(case.model.SerializeToString())
        names = [info.name for info in session.get_inputs()]
        for inputs, outputs in case.data_sets:
            feed = dict(zip(names, map(_array, inputs), strict=False))
            found = session.run(None, feed)
            if not all(_near(got, _array(wanted), case) for got, wanted in zip(found, outputs, strict=True)):
                return "differs"
    except Exception as error:  # whatever it raises is its answer
        return type(error).__name__
    return "passes"


def main() -> None:
    from onnx.backend.test.loader import load_model_tests
    from test_backend import SKIPPED

    cases = {case.name: case for case in load_model_tests(kind="node")}
    groups: dict[str, list[str]] = defaultdict(list)
    answers = {}
    for name, reason in SKIPPED.items():
        groups[reason].append(name)
        answers[name] = passes(cases[name])
    print(f"{len(cases)} tests, {len(cases) - len(SKIPPED)} run, {len(SKIPPED)} are skipped")
    for reason, names in sorted(groups.items(), key=lambda item: -len(item[1])):
        there = sum(answers[name] == "passes" for name in names)
        print(f"{len(names):4}  {reason}  (ONNX Runtime passes {there})")
    print("\nONNX Runtime passes, and this package skips:")
    for name, answer in answers.items():
        if answer == "passes":
            print(f"      {name}")


if __name__ == "__main__":
    main()
