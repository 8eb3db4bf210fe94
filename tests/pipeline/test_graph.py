"""Graphs of pipelines, read from documents."""

import pytest

from flo.model.errors import Invalid
from flo.pipeline.graph import NODES_MAX, RetryPolicy, read_graph


def read(*nodes, **fields):
    return read_graph({"nodes": list(nodes), **fields})


def test_what_a_node_leaves_out_has_its_default():
    spec = read({"node_id": "u", "type": "indexer"}).nodes["u"]

    assert (spec.fan_in, spec.needed, spec.first_batch, spec.sources) == ("all", 0, False, ())
    assert spec.retry == RetryPolicy(2, 300_000, ("bad_input", "schema_mismatch"))


def test_the_fields_that_flowkit_fills_in_are_passed_over():
    node = {"node_id": "u", "type": "x", "status": None, "attempt_epoch": 0, "lease": {}}

    assert read(node, schema_version="1").problems == ()


@pytest.mark.parametrize(
    ("args", "sources"),
    [
        ({"from_nodes": ["a", "b", "a"]}, ("a", "b")),
        ({"from_node": "a"}, ("a",)),
        ({"from_nodes": ["a"], "from_node": "b"}, ("a",)),
        ({"from_nodes": "a"}, ()),
        ([], ()),
    ],
)
def test_the_sources_of_a_node_are_those_of_its_adapter(args, sources):
    io = {"input_inline": {"input_args": args}}
    nodes = [{"node_id": name, "type": "x"} for name in "ab"]

    assert read(*nodes, {"node_id": "c", "type": "x", "io": io}).nodes["c"].sources == sources


def test_a_node_that_starts_on_the_first_batch_reads_what_it_depends_on_unless_it_says_more():
    io = {"start_when": "FIRST_BATCH"}
    node = {"node_id": "v", "type": "x", "depends_on": ["u"], "io": io}

    found = read({"node_id": "u", "type": "x"}, node)

    assert found.nodes["v"].sources == ("u",)
    assert (found.readers, found.dependents) == ({"u": ("v",)}, {"u": ("v",)})


@pytest.mark.parametrize(
    "policy",
    [{"max": 1.5}, {"backoff_sec": "3"}, {"backoff_sec": -1}, {"permanent_on": "x"}, {"max": True}],
)
def test_a_policy_that_makes_no_sense_is_a_problem(policy):
    found = read({"node_id": "u", "type": "x", "retry_policy": policy})

    assert len(found.problems) == 1
    assert "retry_policy" in found.problems[0]


def test_half_a_second_of_backoff_is_half_a_second_and_none_is_none():
    policies = [{"backoff_sec": 0.5}, {"backoff_sec": 0}]
    nodes = [
        {"node_id": str(number), "type": "x", "retry_policy": one}
        for number, one in enumerate(policies)
    ]

    assert [one.retry.backoff_ms for one in read(*nodes).nodes.values()] == [500, 0]


@pytest.mark.parametrize(
    "document",
    [
        {"nodes": "u"},
        {"nodes": ["u"]},
        {"nodes": [{"type": "x"}]},
        {"nodes": [{"node_id": "u"}]},
        {"nodes": [{"node_id": "u", "type": ""}]},
        {"nodes": [{"node_id": "u", "type": "x"}] * (NODES_MAX + 1)},
        {"nodes": [], "edges_ex": [7]},
    ],
)
def test_what_cannot_be_read_at_all_is_refused(document):
    with pytest.raises(Invalid) as refusal:
        read_graph(document)

    assert refusal.value.code == "invalid_graph"


def test_a_circle_over_sources_and_routes_is_found():
    nodes = [
        {"node_id": "a", "type": "x", "depends_on": ["b"]},
        {"node_id": "b", "type": "x", "routing": {"on_success": ["c"]}},
        {"node_id": "c", "type": "x", "routing": {"on_failure": ["b"]}},
    ]

    assert "b → c → b" in read(*nodes).problems[0]


def test_edges_may_be_pairs_of_any_kind_and_name_nodes():
    nodes = [{"node_id": name, "type": "x"} for name in "uv"]

    assert read(*nodes, edges=[("u", "v"), ["u", "v"]]).problems == ()
    assert len(read(*nodes, edges=[["u"], ["u", "z"]]).problems) == 2


def test_what_a_node_waits_for_and_what_waits_for_it_belong_together():
    nodes = [
        {"node_id": "a", "type": "x"},
        {"node_id": "b", "type": "x", "depends_on": ["a"]},
        {"node_id": "c", "type": "x", "depends_on": ["a"]},
        {"node_id": "d", "type": "x", "depends_on": ["b"]},
    ]

    assert read(*nodes).related_to("b") == {"a", "b", "d"}
