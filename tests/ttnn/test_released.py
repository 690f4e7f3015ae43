"""Names, enums and argument forms of ttnn 0.81.1, by its wheel. released/signatures.txt has the forms
of each function, one a line below the names; "..." stands for a default that is no literal."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from pathlib import Path

import pytest

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.operations.argument_names import ARGUMENT_NAMES
from graph_runtime.ttnn.operations.neutral import NEUTRAL
from graph_runtime.ttnn.operations.operation import Operation
from graph_runtime.ttnn.released.absent import Absent
from graph_runtime.ttnn.released.names import released_names

pytestmark = pytest.mark.core

RELEASED = Path(__file__).parent / "released"


def parts(form):
    """The parameters of a form in text, split at the commas that are outside of brackets."""
    made, depth = [""], 0
    for letter in form[1:-1]:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            made.append("")
        else:
            made[-1] += letter
    return [one.strip() for one in made if one.strip()]


def forms():
    """(function, its forms)."""
    names, found = [], {}
    for line in (RELEASED / "signatures.txt").read_text().splitlines():
        if line.startswith("    "):
            for name in names:
                found.setdefault(name, []).append(line.strip())
            fresh = True
        else:
            names, fresh = ([] if not names or fresh else names) + line.split(), False
    return found


FORMS = forms()


def function(name):
    """The function, or None if it is not served."""
    found = ttnn
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None or type(found) is Absent:
            return None
    return None if not callable(found) or getattr(found, "reason", "") else found


# what some forms have and the functions here do not take, in the words of ``faults``
OTHERS: dict[str, str] = {
    "as_tensor": "cache_dump_mode by name",
    "bitcast": "output_tensor by name",
    "create_group_norm_input_mask": (
        "rows_in_last_tile by name; rows_in_last_tile by place; tile_height by name; tile_height by "
        "place; tile_width by name; tile_width by place"
    ),
    "create_group_norm_input_negative_mask": (
        "tile_height by name; tile_height by place; tile_width by name; tile_width by place"
    ),
    "create_mesh_mapper": "mesh_shape at place 0, where mesh_device is; mesh_shape by name",
    "embedding_bw": "output_tensor by name",
    "experimental.bluestein_fft": "N at place 1, where input_imag is; precision at place 2, where N is",
    "experimental.deepseek_prefill.update_padded_kv_cache": (
        "kv_actual_global at place 3, where layer_idx is; layer_idx at place 4, where num_layers is; "
        "num_layers at place 5, where kv_actual_global is"
    ),
    "experimental.deepseek_prefill.zero_padded_kv_cache": (
        "layer_idx at place 3, where num_layers is; num_layers at place 4, where valid_global is; "
        "valid_global at place 2, where layer_idx is"
    ),
    "experimental.dit_rms_norm_unary_fused": (
        "bias by place; epsilon by place; residual_input_tensor by place; weight by place"
    ),
    "experimental.fft": "precision at place 1, where input_imag is",
    "experimental.fft_radix_pass": (
        "P at place 1, where input_imag is; output_scale at place 4, where stride is; stride at place 3, "
        "where twiddle_N2 is; twiddle_N2 at place 2, where P is"
    ),
    "experimental.fft_three_pass": (
        "full_N at place 1, where input_imag is; precision at place 2, where full_N is"
    ),
    "experimental.nlp_create_qkv_heads": "kv_tied by name",
    "experimental.paged_fill_cache": (
        "block_size by name; cache_position_modulo by name; valid_seq_len_tensor by name"
    ),
    "experimental.paged_update_cache": (
        "block_size by name; cache_position_modulo by name; num_kv_heads by name"
    ),
    "experimental.typecast": (
        "memory_config at place 2, where output_dtype is; optional_output_tensor by name; "
        "optional_output_tensor by place"
    ),
    "experimental.view": "C by name; H by name; N by name; W by name",
    "fill_cache": "update_idx by name",
    "fold": (
        "collapse_output at place 8, where grid_size is; collapse_output by name; grid_size at place 6, "
        "where pad_h is; override_memory_config at place 7, where pad_w is; padding at place 5, where "
        "pad_c is"
    ),
    "geglu": "variant by name",
    "grid_to_cores": (
        "end at place 1, where grid_size_x is; end by name; row_wise at place 2, where grid_size_y is; "
        "start at place 0, where num_cores is; start by name"
    ),
    "interleaved_to_sharded": (
        "grid by name; shard_orientation by name; shard_scheme by name; shard_shape by name"
    ),
    "kv_cache.fill_cache_for_user_": "update_idx by name",
    "mac": (
        "value at place 1, where input_tensor_b is; value1 at place 1, where input_tensor_b is; value2 at "
        "place 2, where input_tensor_c is"
    ),
    "mean": "output_layout by name",
    "moreh_logsoftmax": "op by name",
    "moreh_logsoftmax_backward": "op by name",
    "moreh_softmax": "op by name",
    "moreh_softmax_backward": "op by name",
    "moreh_softmin": "op by name",
    "moreh_softmin_backward": "op by name",
    "prod": "output_tensor at place 1, where dim is",
    "slice": (
        "slice_end at place 2, where ends is; slice_start at place 1, where starts is; slice_step at "
        "place 3, where steps is"
    ),
    "split_work_to_cores": "core_grid at place 0, where grid_size is; core_grid by name",
    "sum": "output_layout by name",
    "tilize": "tile by name",
    "topk": "stable by name",
    "transformer.chunked_scaled_dot_product_attention": (
        "attention_sink by name; paged_cache_geometry by name; sliding_window_size by name"
    ),
    "transformer.flash_mla_prefill": (
        "input_tensor_v at place 2, where head_dim_v is; input_tensor_v by name"
    ),
    "transformer.scaled_dot_product_attention": (
        "attn_mask_block_map by name; cu_window_seqlens by name; output_concat_heads by name; "
        "windowed_q_token_offset by name; windowed_q_token_offset_tensor by name"
    ),
    "typecast": "input_dtype at place 1, where dtype is; input_dtype by name",
    "uniform": "from at place 1, where from_ is",
    "wait_for_event": "mesh_event at place 1, where event is",
}
# the flag has no effect
OTHER_DEFAULTS = [
    "add fast_and_approximate_mode: False, released True",
    "add_ fast_and_approximate_mode: False, released True",
    "rsub fast_and_approximate_mode: False, released True",
    "rsub_ fast_and_approximate_mode: False, released True",
    "sub fast_and_approximate_mode: False, released True",
    "sub_ fast_and_approximate_mode: False, released True",
    "subtract fast_and_approximate_mode: False, released True",
    "subtract_ fast_and_approximate_mode: False, released True",
]

SERVED = sorted(name for name in FORMS if function(name) is not None)


def faults(name, form):
    """What a form of the release has that the function here does not take."""
    served = function(name)
    ours = list(inspect.signature(served).parameters.values())
    places = [p.name for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    kinds = {p.kind for p in ours}
    takes_more, takes_any = inspect.Parameter.VAR_POSITIONAL in kinds, inspect.Parameter.VAR_KEYWORD in kinds
    base = getattr(served, "name", name)
    names = {p.name for p in ours} | set(ARGUMENT_NAMES.get(base, ()))
    names |= {*NEUTRAL, "queue_id", "cq_id"} if isinstance(served, Operation) else set()
    wanted, found = parts(form), []
    by_name = wanted.index("*") if "*" in wanted else len(wanted)
    unnamed = wanted.index("/") if "/" in wanted else -1
    for at, one in enumerate(w for w in wanted if w not in ("*", "/")):
        said = one.partition("=")[0]
        if at < by_name and at >= len(places) and not takes_more:
            found.append(f"{said} by place")
        elif at < by_name and unnamed < 0 and at < len(places):
            also = ARGUMENT_NAMES.get(base, {}).get(said, said)
            if places[at] != also and not takes_more:
                found.append(f"{said} at place {at}, where {places[at]} is")
        if unnamed < 0 and said not in names and not takes_any:
            found.append(f"{said} by name")
    return found


def test_the_file_has_all_forms():
    assert len(FORMS) > 880
    assert len(SERVED) > 600
    assert "fast_and_approximate_mode=True" in FORMS["add"][0]


@pytest.mark.parametrize("name", SERVED)
def test_forms_of_the_release_are_taken(name):
    found = {fault for form in FORMS[name] for fault in faults(name, form)}
    assert sorted(found - set(OTHERS.get(name, "").split("; "))) == []


def defaults(name):
    """(parameter, default of the release, default here) of literals; None here leaves a choice open."""
    ours = inspect.signature(function(name)).parameters
    for one in parts(FORMS[name][0]):
        said, is_given, default = one.partition("=")
        own = ours[said].default if said in ours else None
        literal = (
            is_given and default not in ("...", "None") and "." not in default.lstrip("-0123456789.")[:1]
        )
        if (
            literal
            and isinstance(own, (bool, int, float, str))
            and re.fullmatch(r"[-\d.e]+|True|False|'.*'", default)
        ):
            yield said, ast.literal_eval(default), own


def test_defaults_are_the_releases():
    differ = [
        f"{name} {said}: {own!r}, released {wanted!r}"
        for name in SERVED
        for said, wanted, own in defaults(name)
        if own != wanted and not (isinstance(own, float) and own == pytest.approx(wanted, rel=1e-5))
    ]
    assert differ == OTHER_DEFAULTS


# ---------------------------------------------------------------- names and enums


def at(path):
    return functools.reduce(getattr, path.split("."), ttnn)


NAMES = [
    (f"{module}.{name}".removeprefix("."), kind)
    for module, names in released_names().items()
    for name, kind in names.items()
]


def test_every_name_of_the_release_is_there():
    assert len(NAMES) > 1900
    absent = []
    for path, _ in NAMES:
        try:
            at(path)
        except AttributeError:
            absent.append(path)
    assert absent == []


def test_a_name_that_is_lacking_says_why():
    lacking = [at(path) for path, _ in NAMES if type(at(path)) is Absent]
    assert lacking
    for one in lacking[::20]:
        with pytest.raises(ttnn.Unsupported, match=r"is not supported: it|is not supported: its"):
            one()
    for name, operation in ttnn.OPERATIONS.items():
        assert not operation.reason or operation.reason.startswith("it "), name


def enums():
    path = ""
    for line in (RELEASED / "enums.txt").read_text().splitlines():
        if line.startswith("    "):
            yield path, dict(pair.split("=") for pair in line.split())
        elif not line.startswith("#"):
            path = line


@pytest.mark.parametrize(("path", "members"), list(enums()), ids=str)
def test_members_of_enums_are_the_releases(path, members):
    ours = at(path)
    if type(ours) is not Absent:
        assert {name: ours[name].value for name in members} == {
            name: int(value) for name, value in members.items()
        }


def test_records_keep_their_fields():
    made = ttnn.SemaphoreDescriptor(id=1, core_ranges=ttnn.CoreRangeSet([]), initial_value=0)
    assert made.core_type is ttnn.CoreType.WORKER
    assert made == ttnn.SemaphoreDescriptor(1, ttnn.CoreType.WORKER, ttnn.CoreRangeSet([]), 0)
    kernel = ttnn.KernelDescriptor()
    kernel.kernel_source, kernel.source_type = "x", ttnn.KernelDescriptor.SourceType.SOURCE_CODE
    kernel.defines.append(("A", "1"))
    assert ttnn.KernelDescriptor().defines == []
    with pytest.raises(TypeError, match="did you mean 'initial_value'"):
        ttnn.SemaphoreDescriptor(id=1, core_ranges=0, inital_value=0)
    with pytest.raises(TypeError, match="misses format_descriptors"):
        ttnn.CBDescriptor(total_size=1, core_ranges=2)
    with pytest.raises(TypeError, match="takes 0 arguments by place"):
        ttnn.ChunkGdnPhasedProgramConfig(True)
    assert ttnn.QueueId(1) == 1
    ranges = ttnn.MeshCoordinateRangeSet()
    ranges.merge(ttnn.MeshCoordinateRange(ttnn.MeshCoordinate(0, 0), ttnn.MeshCoordinate(0, 0)))
    assert len(ranges) == 1


def test_answers_about_one_process_and_one_chip(device):
    torch = pytest.importorskip("torch")
    assert ttnn.get_pcie_device_ids() == list(range(ttnn.get_num_pcie_devices())) == [0]
    assert (ttnn.distributed_context_get_rank(), ttnn.distributed_context_get_size()) == (0, 1)
    assert ttnn.get_fabric_config() is ttnn.FabricConfig.DISABLED
    assert repr(ttnn.get_current_command_queue_id_for_thread()) == "QueueId(0)"
    assert not ttnn.is_trace_capture_active(device)
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    assert ttnn.is_trace_capture_active(device)
    ttnn.end_trace_capture(device, trace, cq_id=0)
    kinds = [ttnn.bfloat16, ttnn.bfloat8_b, ttnn.uint16, ttnn.uint32, ttnn.int32, ttnn.uint8]
    wanted = [torch.bfloat16, torch.float32, torch.uint16, torch.uint32, torch.int32, torch.uint8]
    assert [ttnn.ttnn_dtype_to_torch_dtype(kind) for kind in kinds] == wanted


def test_sizes_that_norms_ask_for():
    """As the release answers."""
    norms = ttnn.operations.normalization
    assert ttnn.core.roundup(7, 4) == 8
    assert [norms.find_max_tile_span(*a, 32) for a in ((96, 40), (100, 30), (64, 32), (0, 3))] == [2, 2, 1, 0]
    assert [norms.find_closest_largest_divisor(*a) for a in ((30, 8), (7, 7), (12, 5))] == [6, 7, 4]
    config = ttnn.layernorm_default_compute_config(ttnn.device.Arch.WORMHOLE_B0)
    assert (config.math_fidelity, config.fp32_dest_acc_en) == (ttnn.MathFidelity.HiFi4, True)
    assert ttnn.rmsnorm_default_compute_config(ttnn.device.Arch.BLACKHOLE).math_approx_mode


def test_values_as_json():
    """In the release's form."""
    grid = ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (1, 2))])
    spec = ttnn.ShardSpec(grid, [32, 64], ttnn.ShardOrientation.COL_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
    nd = ttnn.MemoryConfig(ttnn.BufferType.DRAM, ttnn.NdShardSpec([1, 32, 32], grid))
    assert ttnn.CoreCoord(1, 2).to_json() == '{"x":1,"y":2}'
    assert grid.to_json() == '[{"end":{"x":1,"y":2},"start":{"x":0,"y":0}}]'
    cut = f'{{"grid":{grid.to_json()},"orientation":1,"shape":[32,64]}}'
    assert spec.to_json() == cut
    assert config.to_json() == (
        '{"buffer_type":1,"created_with_nd_shard_spec":false,"memory_layout":2,"per_core_allocation":false,'
        f'"shard_spec":{cut}}}'
    )
    for value in (ttnn.CoreCoord(1, 2), grid.ranges()[0], grid, spec, config, nd, ttnn.DRAM_MEMORY_CONFIG):
        assert type(value).from_json(value.to_json()) == value
    with pytest.raises(ValueError, match="Expecting value"):
        ttnn.MemoryConfig.from_json("x")


def test_flags_of_tiles():
    flags = [
        (ttnn.Tile(s).narrow_tile, ttnn.Tile(s).partial_face) for s in ([32, 32], [16, 16], [32, 16], [8, 32])
    ]
    assert flags == [(0, 0), (1, 1), (1, 0), (0, 1)]
    assert ttnn.Tile([32, 16], True).transpose_within_face


def test_a_shard_is_read(device):
    torch = pytest.importorskip("torch")
    x = torch.arange(64 * 64).reshape(64, 64).float()
    config = ttnn.create_sharded_memory_config((64, 64), ttnn.CoreGrid(x=2, y=1), ttnn.ShardStrategy.WIDTH)
    on = ttnn.from_torch(x, layout=ttnn.TILE_LAYOUT, device=device, memory_config=config)
    for made in (on.extract_shard(1), on.extract_shard(ttnn.CoreCoord(1, 0))):
        assert torch.equal(ttnn.to_torch(made), x[None, None, :, 32:])
    with pytest.raises(RuntimeError, match="Buffer not sharded"):
        ttnn.to_memory_config(on, ttnn.DRAM_MEMORY_CONFIG).extract_shard(0)


def test_the_operations_are_listed():
    plain = ttnn.query_registered_operations()
    assert ttnn.add in plain
    assert not any(".experimental." in one.python_fully_qualified_name for one in plain)
    more = ttnn.query_registered_operations(include_experimental=True)
    assert ttnn.experimental.isin in more
    assert set(more) == set(ttnn.decorators.REGISTERED_OPERATIONS)
