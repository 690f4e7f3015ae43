"""Tests by torch's instantiate_device_type_tests, as torch writes its own, which are not in its wheel:
from OpInfo, for views, numpy's references, methods and what must be refused; and from dtypes and devices.

A run takes one operation of EVERY; with EVERY=1 in the environment all of them. Of the sample, what
expected_device_types.json explains fails. With SAMPLE in the environment one of SAMPLE of these is drawn
by SEED.
"""

from __future__ import annotations

import json
import operator
import os
import random
import warnings
from itertools import islice
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch's own tests import it
pytest.importorskip("graph_runtime.torch")
from torch.testing._internal import common_utils  # noqa: E402
from torch.testing._internal.common_device_type import (  # noqa: E402
    OpDTypes,
    deviceCountAtLeast,
    dtypes,
    instantiate_device_type_tests,
    onlyPRIVATEUSE1,
    ops,
)
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo  # noqa: E402

# torch's samples make torch warn: of what is deprecated, of variances of one element
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

EXPECTED = json.loads((Path(__file__).parent / "expected_device_types.json").read_text())
SAMPLES = 6  # of an operation
EVERY = int(os.environ.get("EVERY", "8"))
SOME = op_db[::EVERY]
if (_PART := int(os.environ.get("SAMPLE", "1"))) > 1:
    SOME = random.Random(int(os.environ.get("SEED", "0"))).sample(SOME, -(-len(SOME) // _PART))
# which numbers it draws, or finds in its memory, is its own affair
UNDEFINED = (
    *("rand", "normal", "bernoulli", "multinomial", "empty", "dropout", "uniform", "exponential", "cauchy"),
    *("geometric", "rrelu"),
)


def computed(op) -> bool:
    return not any(word in op.name for word in UNDEFINED)


class TestOperations(common_utils.TestCase):
    def check(self, test: str, op, errors: list[str], tried: int) -> None:
        name = " ".join((test, op.name, op.variant_test_name)).strip()
        reason = EXPECTED.get(name)
        if reason is None:
            assert not errors, "\n".join(errors[:3])
            if not tried:
                self.skipTest("nothing to try")
        else:
            assert errors, f"{name} passes now: take it off the list ({reason})"

    def compared(self, errors: list[str], made, wanted) -> None:
        try:
            torch.testing.assert_close(made, wanted, atol=2e-5, rtol=2e-5, equal_nan=True, check_stride=False)
        except AssertionError as error:
            errors.append(str(error))

    @ops([op for op in SOME if computed(op)], dtypes=OpDTypes.any_one)
    def test_views_give_what_copies_give(self, device, dtype, op):
        errors: list[str] = []
        samples = list(islice(op.sample_inputs(device, dtype), SAMPLES))
        for sample in samples:
            try:
                wanted = op(sample.input, *sample.args, **sample.kwargs)
                view = sample.noncontiguous()
                self.compared(errors, op(view.input, *view.args, **view.kwargs), wanted)
            except (RuntimeError, NotImplementedError, TypeError) as error:
                errors.append(repr(error))
        self.check("views", op, errors, len(samples))

    @ops(
        [op for op in SOME if isinstance(op, (BinaryUfuncInfo, UnaryUfuncInfo)) and op.ref is not None],
        allowed_dtypes=(torch.float32,),
    )
    def test_results_are_those_of_numpy(self, device, dtype, op):
        errors: list[str] = []
        samples = list(islice(op.reference_inputs(device, dtype), SAMPLES))
        for sample in samples:
            given = sample.numpy()
            try:
                made = op(sample.input, *sample.args, **sample.kwargs)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # numpy's, of infinities
                    wanted = op.ref(given.input, *given.args, **given.kwargs)
            except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
                errors.append(repr(error))
                continue
            if isinstance(made, torch.Tensor):
                self.compared(errors, made.cpu(), torch.as_tensor(wanted).reshape(made.shape).to(made.dtype))
        self.check("numpy", op, errors, len(samples))

    @ops([op for op in SOME if computed(op) and op.get_method() is not None], dtypes=OpDTypes.any_one)
    def test_methods_are_the_functions(self, device, dtype, op):
        errors: list[str] = []
        method = op.get_method()
        samples = [
            s for s in islice(op.sample_inputs(device, dtype), SAMPLES) if isinstance(s.input, torch.Tensor)
        ]
        for sample in samples:
            try:
                wanted = op(sample.input, *sample.args, **sample.kwargs)
                self.compared(errors, method(sample.input, *sample.args, **sample.kwargs), wanted)
            except (RuntimeError, NotImplementedError, TypeError) as error:
                errors.append(repr(error))
        self.check("methods", op, errors, len(samples))

    @ops([op for op in SOME if op.error_inputs_func is not None], dtypes=OpDTypes.none)
    def test_what_torch_refuses_is_refused(self, device, op):
        errors: list[str] = []
        tried = list(op.error_inputs(device))
        for one in tried:
            sample = one.sample_input
            try:
                op(sample.input, *sample.args, **sample.kwargs)
            except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError):
                continue
            errors.append(f"not refused, as {one.error_regex!r}: {sample}"[:300])
        self.check("refused", op, errors, len(tried))


def same(made, wanted) -> None:
    torch.testing.assert_close(made.cpu(), wanted)


class TestDevices(common_utils.TestCase):
    @dtypes(torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float32, torch.float64)
    def test_dtypes_of_results_are_the_cpus(self, device, dtype):
        for other in (torch.bool, torch.int32, torch.int64, torch.bfloat16, torch.float32):
            for function in (torch.add, torch.mul, torch.true_divide, torch.eq, torch.maximum):
                cpu = torch.tensor([0, 1, 1]).to(dtype), torch.tensor([1, 0, 1]).to(other)
                same(function(*(x.to(device) for x in cpu)), function(*cpu))
                zero_d = cpu[0], torch.tensor(1).to(other)
                same(function(*(x.to(device) for x in zero_d)), function(*zero_d))

    @dtypes(torch.int32, torch.float32)
    def test_views_share_their_storage(self, device, dtype):
        cpu = torch.arange(24).to(dtype).reshape(2, 3, 4)
        there = cpu.to(device)
        for x in (cpu, there):
            x.transpose(0, 2)[1].fill_(7)
            x[:, 1].mul_(2)
            x.view(-1)[::5] = 3
        same(there, cpu)

    @deviceCountAtLeast(2)
    @onlyPRIVATEUSE1
    def test_devices_keep_apart(self, devices):
        first, second = (torch.ones(3, device=device) for device in devices[:2])
        assert (second + 1).device == torch.device(devices[1])
        assert first.to(devices[1]).device == second.device
        for function in (operator.add, torch.maximum, torch.eq):
            with pytest.raises(RuntimeError, match=r"same device|two devices|all tensors"):
                function(first, second)

    @onlyPRIVATEUSE1
    def test_a_result_is_on_the_device_that_its_factory_names(self, device):
        for made in (
            torch.zeros(2, device=device),
            torch.arange(3, device=device),
            torch.empty(2, 2, device=device).fill_(1),
            torch.full((2,), 1.5, device=device),
            torch.rand(2, device=device),
            torch.ones(2, device=device).new_zeros(3),
            torch.zeros_like(torch.ones(2, device=device)),
        ):
            assert made.device == torch.device(device)


instantiate_device_type_tests(TestOperations, globals(), only_for=("privateuse1",))
instantiate_device_type_tests(TestDevices, globals(), only_for=("privateuse1",))
