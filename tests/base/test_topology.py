"""Topologies: ways over meshes, rings and by the host; files that are none say where."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.errors import DeviceError, InputError
from graph_runtime.base.files.mapped import data_folder
from graph_runtime.base.machine.devices import parse
from graph_runtime.base.machine.topology import Topology, find_topology, topologies

FOLDER = data_folder("graph_runtime.schemas") / "topologies"
WORD = {"name": "mine", "arch": "wormhole_b0", "chips": 4, "host": [[0]], "lane_gb_per_s": 10, "hop_ns": 500}


def made(tmp_path, **more):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**WORD, **more}))
    return find_topology(str(path))


def test_the_files_of_the_package_are_what_they_say():
    assert {name: one.chips for name, one in topologies().items()} == {"n300": 2, "t3000": 8, "galaxy": 32}
    for name, one in topologies().items():
        assert one.name == name
        raw = json.loads((FOLDER / f"{name}.json").read_text())
        facts = set(raw) - {"$schema", "name", "doc", "arch", "sources"}
        assert facts == set(raw["sources"]), "each number has a source"
    n300 = find_topology("n300")
    assert n300.way(-1, 1).links == ("host>0", "0>1")
    assert n300.way(1, -1).links == ("1>0", "0>host")
    assert n300.way(1, 0).links == ("1>0",)
    galaxy = find_topology("galaxy")
    assert galaxy.way(0, 31).hops == 7 + 3
    assert galaxy.way(-1, 31).hops == 0
    assert galaxy.way(5, 6).gb_per_s == pytest.approx(4 * 11.78)


def test_a_ring_is_gone_round_the_short_way(tmp_path):
    ring = made(tmp_path, chips=6, mesh={"shape": [6], "wrap": [True], "lanes": 2})
    assert [ring.way(0, chip).hops for chip in range(6)] == [0, 1, 2, 3, 2, 1]
    assert ring.way(0, 5).links == ("0>5",)
    assert ring.way(0, 2).gb_per_s == 20


def test_of_equally_short_ways_the_widest_is_taken(tmp_path):
    links = [{"chips": c, "lanes": n} for c, n in (([0, 1], 4), ([1, 3], 1), ([0, 2], 2), ([2, 3], 2))]
    one = made(tmp_path, links=links)
    assert one.way(0, 3).links == ("0>2", "2>3")
    assert one.way(0, 3).gb_per_s == 20


def test_chips_without_a_cable_between_them_send_by_the_host(tmp_path):
    one = made(tmp_path, host=[[0, 1], [2]], links=[{"chips": [2, 3], "lanes": 1}])
    assert one.way(0, 3) == one.way(0, 3)
    assert one.way(0, 3).by_host
    assert one.way(0, 3).links == ("host link 0, out", "host>2", "2>3")
    assert one.way(0, 1).links == ("host link 0, out", "host link 0, in"), "they share one"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 9))
def test_a_way_has_the_fewest_hops_and_goes_over_links_that_there_are(seed, chips):
    rng = np.random.default_rng(seed)
    order, lanes = rng.permutation(chips), {}
    pairs = [(int(a), int(b)) for a, b in itertools.pairwise(order)]
    pairs += [(int(a), int(b)) for a, b in rng.integers(0, chips, (chips, 2)) if a != b]
    for a, b in pairs:
        lanes[a, b] = lanes[b, a] = int(rng.integers(1, 5))
    one = Topology("drawn", "wormhole_b0", chips, lanes, ((0,),), 10.0, 600.0)
    far = np.full((chips, chips), chips)
    for a, b in lanes:
        far[a, b] = 1
    np.fill_diagonal(far, 0)
    for k in range(chips):
        far = np.minimum(far, far[:, k, None] + far[None, k])
    for a, b in itertools.product(range(chips), repeat=2):
        way = one.way(a, b)
        steps = [tuple(map(int, link.split(">"))) for link in way.links]
        assert way.hops == len(steps) == far[a, b]
        assert all(step in lanes for step in steps)
        assert [step[0] for step in steps[1:]] == [step[1] for step in steps[:-1]]
        assert not steps or (steps[0][0], steps[-1][1]) == (a, b)
        assert not steps or way.gb_per_s == 10 * min(lanes[step] for step in steps)
        assert one.way(-1, b).hops == far[0, b]
        assert one.way(-1, b).links[0] == "host>0"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"chips": 0}, "$.chips"),
        ({"chips": True}, "$.chips"),
        ({"hop_ns": -1}, "$.hop_ns"),
        ({"lane_gb_per_s": 0}, "$.lane_gb_per_s"),
        ({"lane_gb_per_s": "fast"}, "$.lane_gb_per_s"),
        ({"mesh": {"shape": [3], "lanes": 1}}, "$.mesh.shape"),
        ({"mesh": {"shape": [2, 2], "wrap": [1, 0], "lanes": 1}}, "$.mesh.wrap"),
        ({"mesh": {"shape": [2, 2], "lanes": 0}}, "$.mesh.lanes"),
        ({"mesh": [2, 2]}, "$.mesh"),
        ({"links": [{"chips": [0, 4], "lanes": 1}]}, "$.links[0].chips[1]"),
        ({"links": [{"chips": [1, 1], "lanes": 1}]}, "$.links[0].chips"),
        ({"links": [7]}, "$.links[0]"),
        ({"links": {}}, "$.links"),
        ({"host": []}, "$.host"),
        ({"host": [[0], [0]]}, "$.host"),
        ({"host": [0]}, "$.host[0]"),
        ({"name": ""}, "$.name"),
        ({"lane": 3}, "$.lane"),
        ({}, "$.host"),  # chips 1 to 3 reach no host
    ],
)
def test_what_is_no_topology_says_where(tmp_path, change, path):
    with pytest.raises(DeviceError) as caught:
        made(tmp_path, **change)
    assert caught.value.fields["path"] == path


def test_names_and_files_that_there_are_not():
    with pytest.raises(DeviceError, match="did you mean 'galaxy'"):
        find_topology("galxy")
    with pytest.raises(DeviceError, match="cannot read"):
        find_topology("/nowhere.json")
    with pytest.raises(InputError, match="a name, a path or a Topology"):
        find_topology(3)


def test_a_device_that_is_no_chip_of_it():
    one = find_topology("n300")
    assert one.chip(parse("cpu:0")) == -1
    assert one.chip(parse("tt:1")) == 1
    with pytest.raises(InputError, match="tt:0 to tt:1"):
        one.chip(parse("tt:2"))
    with pytest.raises(InputError, match="wormhole_b0"):
        one.chip(parse("tt:0=p150"))
