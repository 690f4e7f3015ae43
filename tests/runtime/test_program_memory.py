"""What programs hold of a device's memory, to the byte: each constant once, intermediates while they run, and
nothing when they are gone; and every tensor of a device is known to it."""

from __future__ import annotations

import gc
import json
import shutil
import threading
import time

import numpy as np
import pytest

import graph_runtime as gr
import graph_runtime.eager as ge
import graph_runtime.runtime as rt
from graph_runtime import DeviceError, DeviceMemoryError, GraphBuilder, HandleError, InputError
from graph_runtime.base.machine.layout import Layout
from graph_runtime.run.queues.blocks import let_go
from graph_runtime.run.sessions.constants import constants

TILE, L1 = Layout("dram", "tile", "f32"), Layout("l1", "tile", "f32")
SIDE, WEIGHTS = 128, 4


@pytest.fixture(autouse=True)
def nothing_left(settle):
    """Device memory that earlier tests dropped goes back first."""
    gc.collect()
    for name in ("tt:0", "tt:1"):
        rt.open_device(name).close()
    settle("tt:0", "tt:1")


@pytest.fixture
def device():
    """tt:0, open for the test."""
    with rt.open_device("tt:0") as opened:
        yield opened


def weights(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((SIDE, SIDE)).astype(np.float32) for _ in range(WEIGHTS)]


def decoder(rows, values=None, extra=0.0):
    """x -> ((x @ w0) @ w1) ... + extra of ``rows`` rows; all decoders have the same weights."""
    builder = GraphBuilder()
    x = builder.input("x", (rows, SIDE))
    for i, value in enumerate(values or weights()):
        x = builder.op("matmul", x, builder.param(f"w{i}", value))
    builder.output(builder.op("add", x, builder.param("extra", np.full((rows, SIDE), extra, np.float32))))
    return builder


def used(device, memory="dram"):
    """Bytes that are allocated in each bank; what holds them adds up to that."""
    gc.collect()
    view = rt.memory_view(device)[memory]
    assert sum(h.bytes_per_bank for h in view.holders) == view.total_bytes_allocated_per_bank
    assert view.total_bytes_free_per_bank == view.total_bytes_per_bank - view.total_bytes_allocated_per_bank
    return view.total_bytes_allocated_per_bank


def by_kind(device, memory="dram"):
    """{kind: bytes in each bank}."""
    used(device, memory)
    found = {}
    for holder in rt.memory_view(device)[memory].holders:
        found[holder.kind] = found.get(holder.kind, 0) + holder.bytes_per_bank
    return found


def block(device, *shape, layout=TILE):
    """What one tensor takes in each bank."""
    let_go(device.handle)  # what work that has just ended leaves for the next
    before = used(device, layout.memory)
    tensor = rt.create_empty_tensor(shape, "float32", device, layout)
    after = used(device, layout.memory)
    del tensor
    let_go(device.handle)
    assert used(device, layout.memory) == before
    return after - before


def put(device, array, layout=TILE):
    return rt.to_device(rt.create_owned_host_tensor(array), device, layout)


def truth(x, values=None, extra=0.0):
    for value in values or weights():
        x = x @ value
    return x + extra


def settled(device, wanted, memory="dram"):
    """Memory in use when what is queued is over; work ends a little before its memory is back."""
    deadline = time.monotonic() + 30
    while used(device, memory) != wanted and time.monotonic() < deadline:
        time.sleep(0.002)
    return used(device, memory)


# **************** constants ****************


def test_programs_hold_each_constant_once_and_nothing_else(new_bundle, device):
    bundle = new_bundle({"prefill": decoder(64), "step": decoder(32, extra=2.0)})
    one, wide, low = block(device, SIDE, SIDE), block(device, 64, SIDE), block(device, 32, SIDE)
    rt.load_program(device, bundle, "prefill")
    assert by_kind(device) == {"constant": WEIGHTS * one + wide}
    rt.load_program(device, bundle, "step")
    assert by_kind(device) == {"constant": WEIGHTS * one + wide + low}
    again = rt.load_bundle(bundle.path)
    rt.load_program(device, again, "prefill")
    other = new_bundle({"main": decoder(32, extra=2.0)})  # another file, the same values
    rt.load_program(device, other, "main")
    module = gr.load(bundle.path, program="step")
    created = gr.create(decoder(64), None, "tt:0")
    kinds = by_kind(device)
    assert kinds["constant"] == WEIGHTS * one + wide + low
    assert kinds.keys() == {"constant", "session"}
    x = np.random.default_rng(1).standard_normal((64, SIDE)).astype(np.float32)
    created.run(x=x)
    module.run(x=x[:32])
    for target, program, value in (
        (bundle, "prefill", x),
        (bundle, "step", x[:32]),
        (again, "prefill", x),
        (other, "main", x[:32]),
    ):
        (out,) = rt.submit(device, target, program, [put(device, value)])
        same = (created if len(value) == 64 else module).get_output(0).numpy()
        np.testing.assert_array_equal(out.numpy(), same)
        np.testing.assert_allclose(
            same, truth(value, extra=0.0 if len(value) == 64 else 2.0), rtol=2e-2, atol=2.0
        )


def test_a_program_that_ran_holds_what_it_took_as_idle_blocks_until_it_is_unloaded(new_bundle, device):
    start = used(device)
    bundle = new_bundle({"main": decoder(64), "other": decoder(32)})
    rt.load_program(device, bundle, "main")
    rt.load_program(device, bundle, "other")
    loaded, wide = used(device), block(device, 64, SIDE)
    x = put(device, np.ones((64, SIDE), np.float32))
    (out,) = rt.submit(device, bundle, "main", [x])
    out.wait()
    kinds = by_kind(device)
    assert kinds.keys() == {"constant", "tensor", "idle"} or kinds.keys() == {"constant", "tensor", "queued"}
    assert kinds["tensor"] == 2 * wide
    assert 0 < kinds.get("idle", 0) + kinds.get("queued", 0) <= WEIGHTS * wide
    assert rt.unload_program(device, bundle, "main") == 1
    assert settled(device, loaded + wide) == loaded - wide + 2 * wide  # without `extra`, and two tensors
    del x, out
    assert rt.unload_program(device, bundle) == 1
    assert settled(device, start) == start
    assert rt.unload_program(device, bundle) == 0
    rt.submit(device, bundle, "other", [put(device, np.ones((32, SIDE), np.float32))])
    assert by_kind(device)["constant"] == loaded - wide


def test_the_last_reference_to_a_bundle_frees_its_programs_and_what_is_queued_ends(new_bundle, device):
    start, made = used(device), {"main": decoder(64)}
    bundle = rt.load_bundle(new_bundle(made).path)
    module = gr.load(bundle.path)
    x = put(device, np.ones((64, SIDE), np.float32))
    outs = [rt.submit(device, bundle, "main", [x])[0] for _ in range(5)]
    del bundle
    module.run(x=np.ones((64, SIDE), np.float32))
    wanted = module.get_output(0).numpy()
    for out in outs:
        np.testing.assert_array_equal(out.numpy(), wanted)
    assert by_kind(device)["constant"] == WEIGHTS * block(device, SIDE, SIDE) + block(device, 64, SIDE)
    del module
    assert settled(device, start + 6 * block(device, 64, SIDE)) == start + 6 * block(device, 64, SIDE)


def test_a_large_input_costs_nothing_before_it_is_pushed(new_bundle, device):
    builder = GraphBuilder()
    builder.output(builder.op("relu", builder.input("cache", (2048, 2048))))
    bundle, start = new_bundle({"main": builder}), used(device)
    rt.load_program(device, bundle, "main")
    assert used(device) == start
    x = put(device, np.ones((2048, 2048), np.float32))
    one = used(device) - start
    (out,) = rt.submit(device, bundle, "main", [x])
    out.wait()
    assert used(device) == start + 2 * one


def test_an_input_in_l1_may_take_most_of_it(new_bundle, device):
    shape = (28800, 512)  # 921,600 bytes of the 1,395,424 in each bank
    builder = GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", shape)))

    def input_in_l1(_, text):
        document = json.loads(text)
        ours = document["metadata"]["graph_runtime"]
        sid = document["attrs"]["storage_id"][1][0]
        ours["layouts"].append({**ours["layouts"][0], "memory": "l1"})
        ours["layout"][0] = len(ours["layouts"]) - 1
        ours["storage"][sid] |= {"memory": "l1", "offset": 0}
        return json.dumps(document)

    bundle = new_bundle({"main": builder}, edit=input_in_l1)
    assert rt.get_layout(bundle, "main", 0) == L1
    rt.load_program(device, bundle, "main")
    assert used(device, "l1") == 0
    x = put(device, np.full(shape, -1, np.float32), L1)
    (out,) = rt.submit(device, bundle, "main", [x])
    assert not out.numpy().any()
    assert by_kind(device, "l1") == {"tensor": 921_600}


def test_devices_have_constants_of_their_own(new_bundle, device):
    bundle = new_bundle({"main": decoder(64)})
    with rt.open_device("tt:1") as second:
        for where in (device, second):
            rt.load_program(where, bundle)
        assert (
            by_kind(device)
            == by_kind(second)
            == {"constant": WEIGHTS * block(device, SIDE, SIDE) + block(device, 64, SIDE)}
        )
        x = np.ones((64, SIDE), np.float32)
        (a,), (b,) = (rt.submit(where, bundle, None, [put(where, x)]) for where in (device, second))
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert used(device) > 0


def test_constants_of_a_graph_over_two_devices_are_held_once_on_each(new_bundle, device):
    """A parameter that the host and the device read: the device has a copy, made when it is set."""

    def both():
        builder = GraphBuilder()
        x, w = builder.input("x", (64, 64)), builder.param("w", np.full((64, 64), 3, np.float32))
        on_host = builder.op("add", x, w, name="on_host")
        builder.output(builder.op("multiply", on_host, w, name="on_device"))
        return builder

    pins = {"on_host": "cpu:0", "on_device": "tt:0"}
    first, second = (gr.create(both(), None, ["cpu:0", "tt:0"], place=pins) for _ in range(2))
    one = block(device, 64, 64)
    assert by_kind(device)["constant"] == one
    x = np.ones((64, 64), np.float32)
    first.run(x=x)
    first.set_input("w", np.full((64, 64), 5, np.float32))
    first.run(x=x)
    second.run(x=x)
    assert (first.get_output(0).numpy() == 30).all()
    assert (second.get_output(0).numpy() == 12).all()
    array = gr.aligned_empty((64, 64))
    array[:] = 7
    second.set_input_zero_copy("w", array)  # the copy of it runs with each run: not for all
    third = gr.create(both(), None, ["cpu:0", "tt:0"], place=pins)
    second.run(x=x)
    third.run(x=x)
    assert (second.get_output(0).numpy() == 56).all()
    assert (third.get_output(0).numpy() == 12).all()


def test_threads_that_load_the_same_weights_make_them_once(new_bundle, device):
    bundles = [new_bundle({"main": decoder(64)}) for _ in range(4)]
    threads = [threading.Thread(target=rt.load_program, args=(device, bundle)) for bundle in bundles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert by_kind(device) == {"constant": WEIGHTS * block(device, SIDE, SIDE) + block(device, 64, SIDE)}


# **************** writing to what is shared ****************


@pytest.mark.parametrize("how", ["set_input", "view", "alias of a view", "old view", "load_params"])
def test_who_writes_a_constant_writes_a_copy(new_bundle, device, how):
    bundle = new_bundle({"main": decoder(32)})
    rt.load_program(device, bundle)
    mine, other = gr.load(bundle.path), gr.load(bundle.path)
    before, one = by_kind(device)["constant"], block(device, SIDE, SIDE)
    x, zeros = np.ones((32, SIDE), np.float32), np.zeros((SIDE, SIDE), np.float32)
    for module in (mine, other):
        module.run(x=x)
    right, view = other.get_output(0).numpy(), mine.get_input("w0")
    if how == "set_input":
        mine.set_input("w0", zeros)
    elif how == "load_params":
        mine.load_params({"w0": zeros})
    elif how == "alias of a view":
        view.alias().copy_from(zeros)
    else:
        view.copy_from(zeros)
    assert not view.numpy().any()
    for module in (mine, other):
        module.run()
    assert not mine.get_output(0).numpy().any()
    np.testing.assert_array_equal(other.get_output(0).numpy(), right)
    (out,) = rt.submit(device, bundle, None, [put(device, x)])
    np.testing.assert_array_equal(out.numpy(), right)
    assert by_kind(device)["constant"] == before
    assert by_kind(device)["program"] == one
    np.testing.assert_array_equal(mine.run_async(x=x).wait().outputs[0].numpy(), np.zeros_like(right))
    mine.set_input("w0", zeros + 1)  # the second time it is its own already
    assert by_kind(device)["program"] == one


def test_a_view_outlives_its_module_and_writes_to_nobody_s_constant(new_bundle, device):
    bundle = new_bundle({"main": decoder(32)})
    rt.load_program(device, bundle)
    view = gr.load(bundle.path).get_input("w1")
    view.copy_from(np.zeros((SIDE, SIDE), np.float32))
    assert not view.numpy().any()
    (out,) = rt.submit(device, bundle, None, [put(device, np.ones((32, SIDE), np.float32))])
    assert out.numpy().any()


def test_shared_parameters_are_written_by_both_sides_and_by_no_other(new_bundle, device):
    bundle = new_bundle({"main": decoder(32)})
    rt.load_program(device, bundle)
    first, second, third = (gr.load(bundle.path) for _ in range(3))
    second.share_params(first, {"w0": np.zeros((SIDE, SIDE), np.float32)})
    second.set_input("w0", np.zeros((SIDE, SIDE), np.float32))
    for module in (first, second, third):
        module.run(x=np.ones((32, SIDE), np.float32))
    assert [bool(m.get_output(0).numpy().any()) for m in (first, second, third)] == [False, False, True]


def test_a_parameter_that_the_program_writes_is_the_program_s_own(new_bundle, device):
    def counter():
        builder = GraphBuilder()
        s, d = builder.param("s", np.zeros((32, 32), np.float32)), builder.input("d", (32, 32))
        new = builder.op("add", s, d)
        builder.output(new)
        builder.alias(new, s)
        return builder

    first, second = (new_bundle({"main": counter()}) for _ in range(2))
    d = put(device, np.ones((32, 32), np.float32))
    for wanted in (1, 2, 3):
        (out,) = rt.submit(device, first, None, [d])
        assert (out.numpy() == wanted).all()
    (out,) = rt.submit(device, second, None, [d])
    assert (out.numpy() == 1).all()
    assert not constants(device.handle, 0)


def test_op_hooks_change_a_constant_for_their_own_program_only(new_bundle, device):
    bundle, other = (new_bundle({"main": decoder(32)}) for _ in range(2))
    x = put(device, np.ones((32, SIDE), np.float32))
    right = rt.submit(device, other, None, [x])[0].numpy()

    def zero(_, __, op):
        for ref in rt.get_op_input_refs(op):
            if ref.shape == (SIDE, SIDE):
                rt.update_tensor_in_pool(op, ref, np.zeros((SIDE, SIDE), np.float32))

    rt.debug_hooks(pre_op=zero)
    try:
        assert not rt.submit(device, bundle, None, [x])[0].numpy().any()
    finally:
        rt.unregister_hooks()
    np.testing.assert_array_equal(rt.submit(device, other, None, [x])[0].numpy(), right)


# **************** what files say ****************


def test_a_wrong_hash_in_a_file_makes_no_two_constants_one(new_bundle, device, tmp_path):
    """params.bin of the second bundle differs in one weight, its index claims the first one's hash; both mark
    their program const."""
    paths = []
    for name, scale in (("a", 1.0), ("b", 2.0)):
        made = new_bundle(
            {"main": decoder(32, values=[w * scale for w in weights()])},
            const=("main",),
            folder=tmp_path / name,
        )
        paths.append(made.path)
    index = [json.loads((path / "bundle.json").read_text()) for path in paths]
    index[1]["files"]["params.bin"]["sha256"] = index[0]["files"]["params.bin"]["sha256"]
    (paths[1] / "bundle.json").write_text(json.dumps(index[1]))
    first, second = (rt.load_bundle(path) for path in paths)
    x = put(device, np.ones((32, SIDE), np.float32))
    a, b = (rt.submit(device, bundle, None, [x])[0].numpy() for bundle in (first, second))
    np.testing.assert_allclose(b, a * 16, rtol=1e-5)


def test_a_bundle_that_was_replaced_is_hashed_anew(new_bundle, device, tmp_path):
    bundle = new_bundle({"main": decoder(32), "again": decoder(32)}, folder=tmp_path / "m")
    x = put(device, np.ones((32, SIDE), np.float32))
    before = rt.submit(device, bundle, "main", [x])[0].numpy()
    other = new_bundle(
        {
            "main": decoder(32, values=[2 * w for w in weights()]),
            "again": decoder(32, values=[2 * w for w in weights()]),
        },
        folder=tmp_path / "n",
    )
    shutil.copy(other.path / "params.bin", tmp_path / "p")
    (tmp_path / "p").rename(bundle.path / "params.bin")
    after = rt.submit(device, bundle, "again", [x])[0].numpy()
    np.testing.assert_allclose(after, before * 16, rtol=1e-5)


# **************** tensors of a device ****************


def _eager(x):
    return gr.array(x, "tt:0") + gr.array(x, "tt:0")


def _torch(x):
    torch = pytest.importorskip("torch")
    import graph_runtime.torch  # noqa: F401

    return torch.from_numpy(x).to("tt:0")


WAYS = {
    "to": lambda x: gr.borrow(x).to("tt:0"),
    "scatter": lambda x: gr.scatter([x], "tt:0")[0],
    "array": lambda x: gr.array(x, "tt:0"),
    "eager": _eager,
    "run_async": lambda x: gr.create(_relu(), None, "tt:0").run_async(x=x).wait().outputs[0],
    "alias": lambda x: gr.array(x, "tt:0").alias(),
    "copy": lambda x: gr.array(x, "tt:0").to("tt:0"),
}


def _relu():
    builder = GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", (64, 64))))
    return builder


@pytest.mark.parametrize("way", WAYS)
def test_a_device_knows_every_tensor_however_it_was_made(device, way):
    tensor = WAYS[way](np.ones((64, 64), np.float32))
    found = [h for h in rt.memory_view(device)["dram"].holders if tensor.id in h.tensors]
    assert [h.addr for h in found] == [tensor.buffer.addr]
    assert found[0].kind == "tensor"
    assert found[0].type == "float32[64, 64]"
    assert tensor in [t for t in device.tensors("dram") if t is tensor]
    used(device)
    rt.close_device(device)
    with pytest.raises(HandleError, match="was on device tt:0, which was closed"):
        tensor.numpy()
    with rt.open_device("tt:0") as again:
        assert settled(again, 0) == 0
        assert (ge.add(gr.array(np.ones((4, 4), np.float32), "tt:0"), 1.0).numpy() == 2).all()


def test_tensors_of_torch_are_known(device):
    made = _torch(np.ones((64, 64), np.float32)) + 1
    assert made.shape == (64, 64)
    kinds = by_kind(device)
    assert kinds.keys() <= {"tensor", "idle", "queued"}
    assert kinds["tensor"] >= block(device, 64, 64)
    assert (made.cpu().numpy() == 2).all()


def test_programs_of_torch_share_their_constants_with_all_others(new_bundle, device):
    pytest.importorskip("torch")
    from graph_runtime.torch.submitter import HandleSubmitter

    bundle = new_bundle({"main": decoder(32)})
    rt.load_program(device, bundle)
    before = by_kind(device)
    planned = gr.create(decoder(32), None, "tt:0").session.plan
    values = [*weights(), np.zeros((32, SIDE), np.float32)]
    assert planned.graph.input_names == ("x", "w0", "w1", "w2", "w3", "extra")
    constant = dict(enumerate(values, 1))
    made = [HandleSubmitter(planned, "torch", constant, [0]) for _ in range(2)]
    assert by_kind(device) == before
    x = put(device, np.ones((32, SIDE), np.float32))
    outs = [submitter.submit([x])[0].numpy() for submitter in made]
    np.testing.assert_array_equal(outs[0], rt.submit(device, bundle, None, [x])[0].numpy())
    np.testing.assert_array_equal(outs[1], outs[0])


def test_tensors_that_nobody_adopted_are_evicted(new_bundle, device, output_in_l1):
    """Four tensors that eager operations and scatter made fill L1."""
    shape = (9600, 512)
    builder = GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", shape)))

    bundle = new_bundle({"main": builder}, edit=output_in_l1)
    x = put(device, np.ones(shape, np.float32))
    filling = [
        *gr.scatter([np.full(shape, i, np.float32) for i in range(2)], "tt:0", L1),
        x.to(layout=L1),
        gr.empty(shape, "float32", "tt:0", L1),
    ]
    with pytest.raises(DeviceMemoryError):
        rt.submit(device, bundle, "main", [x], evict="never")
    (out,) = rt.submit(device, bundle, "main", [x])
    assert (out.numpy() == 1).all()
    assert [t.layout.memory for t in filling] == ["dram", "l1", "l1", "l1"]
    assert not filling[0].numpy().any()
    assert (filling[1].numpy() == 1).all()


def test_tensors_are_listed_in_the_order_in_which_they_were_made(device):
    x = np.ones((32, 32), np.float32)
    made = [gr.array(x, "tt:0"), put(device, x), *gr.scatter([x, x], "tt:0"), put(device, x)]
    assert made[4].id < made[0].id  # numbers are given when they are asked for
    found = [t for t in device.tensors() if any(t is m for m in made)]
    assert all(a is b for a, b in zip(found, made, strict=True))


def test_a_number_of_a_tensor_is_one_for_all_threads(device):
    tensors, seen = [gr.array(np.ones((4, 4), np.float32), "tt:0") for _ in range(200)], []
    gate = threading.Barrier(4)

    def ask():
        gate.wait()
        seen.append([t.id for t in tensors])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == seen[0] for ids in seen)


def test_a_device_that_is_open_twice_is_closed_with_the_last(device):
    with rt.open_device("tt:0") as other:
        mine, theirs = (put(d, np.ones((32, 32), np.float32)) for d in (device, other))
        free = gr.array(np.ones((32, 32), np.float32), "tt:0")
    assert [t.is_allocated for t in (mine, theirs, free)] == [True, False, True]
    rt.close_device(device)
    assert [t.is_allocated for t in (mine, theirs, free)] == [False, False, False]
    with pytest.raises(DeviceError):
        rt.memory_view(device)


def test_tensors_in_memory_of_the_host_outlive_a_close():
    tensor = gr.array(np.ones((4, 4), np.float32))
    rt.open_device("cpu:0").close()
    assert (tensor.numpy() == 1).all()


def test_modules_go_on_after_a_close(device):
    module = gr.create(decoder(32), None, "tt:0")
    rt.close_device(device)
    module.run(x=np.ones((32, SIDE), np.float32))
    assert module.get_output(0).numpy().any()


def test_what_holds_a_memory_adds_up_while_threads_submit(new_bundle, device):
    bundle, stop, wrong = new_bundle({"main": decoder(64)}), threading.Event(), []

    def work():
        x = put(device, np.ones((64, SIDE), np.float32))
        while not stop.is_set():
            (out,) = rt.submit(device, bundle, "main", [x])
            ge.add(out, x)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        view = rt.memory_view(device)["dram"]
        if sum(h.bytes_per_bank for h in view.holders) != view.total_bytes_allocated_per_bank:
            wrong.append(view)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


# **************** sessions that are only submitted to ****************


def test_a_session_without_memory_says_what_it_lacks():
    planned = gr.create(decoder(32), None, "tt:0").session.plan
    session = gr.Session(planned, reserve=False, unset_inputs="allow")
    with pytest.raises(InputError, match="has no values of 'w0', 'w1'"):
        session.submit({"x": np.ones((32, SIDE), np.float32)})
    assert not session.bound.reserved
    session.run()  # what inputs hold is undefined
    assert session.bound.reserved


def test_loading_parameters_into_a_module_that_did_nothing_shares_them(device):
    text = gr.create(decoder(32), None, "tt:0")
    values = {f"w{i}": w for i, w in enumerate(weights())} | {"extra": np.zeros((32, SIDE), np.float32)}
    before = by_kind(device)
    module = gr.create(text.session.plan)  # no values yet
    reserved = by_kind(device)["session"] - before["session"]
    module.load_params(values)
    after = by_kind(device)
    assert after["constant"] == before["constant"]
    assert after["session"] == 2 * before["session"]
    assert reserved > before["session"]
    x = np.ones((32, SIDE), np.float32)
    text.run(x=x)
    module.run(x=x)
    np.testing.assert_array_equal(module.get_output(0).numpy(), text.get_output(0).numpy())


def test_parameters_that_come_after_an_input_leave_it_alone(device):
    module = gr.create(gr.create(decoder(32), None, "tt:0").session.plan)
    x = np.random.default_rng(3).standard_normal((32, SIDE)).astype(np.float32)
    module.set_input("x", x)
    module.load_params(
        {f"w{i}": w for i, w in enumerate(weights())} | {"extra": np.zeros((32, SIDE), np.float32)}
    )
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), truth(x), rtol=2e-2, atol=2.0)
