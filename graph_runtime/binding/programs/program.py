"""A lowered program: the plan as flat arrays, equal to the structs of native/include/gr_program.h.

A Program holds no addresses but those of kernels, so it can be printed, compared and bound to any number of
sessions. run/sessions/bind.py fills in the pointers: ``gr_arg.addr`` from the plan's storage, ``shape`` and
``attrs`` by adding the addresses of the pools.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...plan.types import Plan

__all__ = ["CALL", "INSTR", "LANE", "SLOT", "STEP", "Kernel", "Program"]

# struct gr_call (40 bytes), gr_instr (48); tests/native/test_executor.py compares them with C
CALL = np.dtype(
    [("abi", "<u4"), ("nargs", "<i4"), ("args", "<u8"), ("attrs", "<u8"), ("scratch", "<u8"), ("env", "<u8")]
)
INSTR = np.dtype([("fn", "<u8"), ("call", CALL)])
# struct gr_step (80), gr_lane (16), gr_slot (24) of native/include/gr_async.h
STEP = np.dtype(
    [
        ("fn", "<u8"),
        ("attrs", "<u8"),
        ("env", "<u8"),
        ("scratch", "<u8"),
        ("first_arg", "<i8"),
        ("nargs", "<i4"),
        ("lane", "<i4"),
        ("first_wait", "<i8"),
        ("num_waits", "<i4"),
        ("num_inputs", "<i4"),
        ("node", "<u8"),
        ("op", "<u8"),
    ]
)
LANE = np.dtype([("device", "<u8"), ("role", "<i4"), ("circular", "<u4")])
SLOT = np.dtype([("device", "<u8"), ("memory", "<i4"), ("keep", "<i4"), ("extent", "<u8")])


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """What an instruction calls.

    ``name``: the func_name. ``fn``: address of a gr_kernel_fn, or with ``packed`` of a function of TVM's
    packed ABI. ``words``: the op's int64 attribute words. ``scratch``: host bytes the call needs.
    ``origin``: where it is from, for people ("built in", a file). ``owner``: kept alive as long as the
    program (the opened library).
    """

    name: str
    fn: int
    words: tuple[int, ...] = ()
    scratch: int = 0
    packed: bool = False
    origin: str = "built in"
    owner: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Instructions as columns. A run executes the first ``main``; the rest are copies that run when an
    input is set.

    ``nid`` int64 [instrs], ``kid`` int32 [instrs] (index into ``kernels``), ``arg_ptr`` int64 [instrs + 1],
    ``eid`` int64 [args] the entry of each argument, ``args`` ARG [args] with addr 0 and shape a byte offset
    into ``shapes`` (int64, all shapes one after another), ``words`` int64 all attribute words, ``word_ptr``
    int64 [kernels + 1], ``scratch`` bytes (the largest of any kernel), ``at_input`` {graph input: (first,
    last)} the instructions to run when that input is set. ``circular`` int64 [instrs]: bytes of circular
    buffers that each opens on a core (circular.measured), None: not measured.
    """

    plan: Plan
    kernels: tuple[Kernel, ...]
    main: int
    nid: np.ndarray
    kid: np.ndarray
    arg_ptr: np.ndarray
    eid: np.ndarray
    args: np.ndarray
    shapes: np.ndarray
    words: np.ndarray
    word_ptr: np.ndarray
    scratch: int
    at_input: dict[int, tuple[int, int]]
    circular: np.ndarray | None = None

    @property
    def count(self) -> int:
        """Number of instructions."""
        return len(self.nid)
