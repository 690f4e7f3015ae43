"""What comes along for scripts: a logger where loguru is not installed, utils of EmitPy's scripts."""

from __future__ import annotations

import re

import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.runner.helpers import emitted_utils as utils
from graph_runtime.ttnn.runner.helpers.plain_logger import Logger


def test_a_logger_has_lines_levels_and_sinks(capsys):
    logger = Logger()
    logger.info("a {} and {b}", 1, b=2)
    logger.trace("below the sink's level")
    line = capsys.readouterr().err
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \| INFO     \| \S*test_helpers:test_\w+:\d+ - a 1 and 2\n",
        line,
    )
    lines = []
    logger.remove()
    number = logger.add(lines.append, level="WARNING")
    logger.info("no")
    logger.warning("yes, {no braces")
    logger.success("no")
    logger.log("ERROR", "{}", "yes")
    assert [line.split(" - ")[1] for line in lines] == ["yes, {no braces\n", "yes\n"]
    logger.disable(__name__)
    logger.error("no")
    logger.enable(__name__)
    logger.opt(depth=1).bind(a=1).critical("yes")
    assert len(lines) == 3
    logger.remove(number)
    with pytest.raises(ValueError, match="pip install loguru"):
        logger.add("file.log")
    with pytest.raises(AttributeError):
        logger.shout("x")


def test_caught_exceptions_are_logged(capsys):
    logger = Logger()

    @logger.catch
    def fails():
        raise KeyError("x")

    assert fails() is None
    assert "KeyError" in capsys.readouterr().err


@pytest.mark.core
def test_const_eval_is_done_once_in_both_generations():
    calls = []

    def made(*given):
        calls.append(given)
        return ["made"]

    kept = utils.constEvalFuncWrapper(made, ["x"], None)
    assert utils.constEvalFuncWrapper(made, ["x"], kept) is kept
    cache = {}
    for _ in range(2):
        assert utils.constEvalFuncWrapper(made, ["x"], cache, "a") == ["made"]
        assert utils.constEvalFuncWrapperZeroArg(made, cache, "b") == ["made"]
        assert utils.constEvalFuncWrapper(made, ["x"], cache, "c", "device") == ["made"]
    assert calls == [(["x"],), (["x"],), (), (["x"], "device")]


@pytest.mark.core
def test_the_device_of_a_script_is_opened_once():
    device = utils.DeviceGetter.get_device((1, 1))
    assert utils.DeviceGetter.get_device([1, 1]) is device
    with pytest.raises(ValueError, match="already initialized"):
        utils.DeviceGetter.get_device((1, 2))
    ttnn.close_device(device)
    again = utils.DeviceGetter.get_device((1, 1))
    assert again is not device
    assert utils.get_scalar_from_tensor(ttnn.full([1], 7, dtype=ttnn.uint32, device=again)) == 7
    ttnn.close_device(again)
    with pytest.raises(ttnn.Unsupported):
        utils.create_global_semaphore(None)
    with pytest.raises(RuntimeError, match="Singleton"):
        utils.DeviceGetter()
