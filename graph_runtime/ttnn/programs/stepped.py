"""Calls that run several card programs, in steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...costs.factories import CardOperand, CardStage
from ...costs.factories.movement import Steps
from .call import Call


def stages_by(body: Callable[[Call, Steps, CardOperand], Any]) -> Callable[[Call], list[CardStage]]:
    """The card programs that ``body`` adds to steps from a call's first tensor to its result."""

    def stages(call: Call) -> list[CardStage]:
        steps = Steps(call.board, call.made)
        body(call, steps, call.first)
        return steps.stages

    return stages
