"""Where a node gets its batches from: who chooses, which arguments are right, what is cut how.

Every row of FlowKit's table of arguments is here, with the outcome that we have decided on.
"""

import logging

import pytest

from flo import Batch, BatchResult, RoleHandler
from flo.core.stable_hash import stable_hash
from flo.testing.handlers import run_handler

PULL = "pull.from_artifacts"
RECHUNK = "pull.from_artifacts.rechunk:size"
LOGGER = "flo.worker.pipelines"


class Probe(RoleHandler):
    """Keeps what it gets, and proposes an adapter if told to."""

    role = "probe"

    def __init__(self, proposal=None):
        self.payloads = []
        self.own_batches = 0
        self._proposal = proposal

    async def load_input(self, input_ref, input_inline):
        return self._proposal or await super().load_input(input_ref, input_inline)

    async def iter_batches(self, loaded):
        self.own_batches += 1
        yield Batch(batch_uid="own", payload={"items": []})

    async def process_batch(self, batch, ctx):
        self.payloads.append(batch.payload)
        return BatchResult(success=True)


def inline(adapter, args):
    return {"input_adapter": adapter, "input_args": args}


def rechunk(**args):
    return inline(RECHUNK, {"from_nodes": ["u"], "size": 2, **args})


# ── arguments ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "route",
    [
        inline(RECHUNK, {"from_nodes": ["u"]}),
        rechunk(size="2"),
        rechunk(size=2.5),
        rechunk(size=0),
        rechunk(size=-1),
        rechunk(size=None),
        rechunk(size=True),
        rechunk(meta_list_key=7),
        rechunk(meta_list_key=["v"]),
        inline(PULL, {}),
        inline(PULL, None),
        inline(RECHUNK, {"size": 2}),
        inline(PULL, {"from_nodes": []}),
        inline(PULL, {"from_nodes": ["nobody"]}),
        inline(PULL, {"from_nodes": ["u", "nobody"]}),
        inline(PULL, {"from_nodes": ["u"], "colour": "red"}),
        inline(PULL, {"from_nodes": ["u"], "meta_list_key": "v"}),
        inline(PULL, ["u"]),
        inline(PULL, "u"),
        inline(PULL, {"from_nodes": "u"}),
        inline(PULL, {"from_nodes": [7]}),
        inline(PULL, {"from_nodes": [""]}),
        inline(PULL, {"from_node": 7}),
        inline(PULL, {"from_nodes": ["u"], "poll_ms": "50"}),
        inline(PULL, {"from_nodes": ["u"], "poll_ms": -1}),
        inline(PULL, {"from_nodes": ["u"], "backoff_max_ms": True}),
        inline(PULL, {"from_nodes": ["u"], "eof_on_task_done": "yes"}),
    ],
    ids=str,
)
async def test_wrong_arguments_fail_the_node_for_good_before_its_first_batch(route):
    probe = Probe()

    run = await run_handler(probe, sources={"u": [{"v": [1]}]}, input_inline=route)

    assert (run.status, run.reason_code, run.permanent) == ("failed", "bad_input_args", True)
    assert run.error
    assert (probe.payloads, probe.own_batches) == ([], 0)


@pytest.mark.parametrize(
    "route",
    [
        inline(PULL, {"from_nodes": ["u"]}),
        inline(PULL, {"from_nodes": ("u",)}),
        inline(PULL, {"from_node": "u"}),
        inline(PULL, {"from_node": "nobody", "from_nodes": ["u"]}),
        inline(PULL, {"from_nodes": ["u"], "poll_ms": 50, "backoff_max_ms": 100.5}),
        inline(PULL, {"from_nodes": ["u"], "eof_on_task_done": True}),
        rechunk(),
        rechunk(meta_list_key=None),
        rechunk(meta_list_key="v", poll_ms=0),
    ],
    ids=str,
)
async def test_right_arguments_are_taken(route):
    probe = Probe()

    run = await run_handler(probe, sources={"u": [{"v": [1]}]}, input_inline=route)

    assert run.status == "finished"
    assert len(probe.payloads) == 1


@pytest.mark.parametrize("key", [{}, {"meta_list_key": None}])
async def test_a_strict_worker_wants_a_meta_list_key(key):
    run = await run_handler(Probe(), sources={"u": [{}]}, input_inline=rechunk(**key), strict=True)

    assert (run.status, run.reason_code, run.permanent) == ("failed", "bad_input_args", True)


async def test_a_strict_worker_is_content_with_one():
    run = await run_handler(
        Probe(), sources={"u": [{}]}, input_inline=rechunk(meta_list_key="v"), strict=True
    )

    assert run.status == "finished"


async def test_an_empty_source_is_no_mistake():
    run = await run_handler(Probe(), sources={"u": []}, input_inline=rechunk())

    assert (run.status, run.results, run.finalized) == ("finished", [], {})


# ── who chooses ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("adapter", ["pull.from_nowhere", 7, ["pull.from_artifacts"]])
async def test_an_unknown_adapter_of_the_graph_fails_the_node_for_good(adapter, caplog):
    probe = Probe()
    caplog.set_level(logging.DEBUG, LOGGER)

    run = await run_handler(probe, input_inline=inline(adapter, {}))

    assert (run.status, run.reason_code, run.permanent) == ("failed", "bad_input_adapter", True)
    assert probe.own_batches == 0
    (record,) = events(caplog, "worker.adapter.unknown_from_cmd")
    assert (record.levelname, record.adapter, record.node_id) == ("ERROR", adapter, "probe")


async def test_the_graph_wins_over_the_handler(caplog):
    probe = Probe({"input_inline": inline(PULL, {"from_nodes": ["other"]})})
    caplog.set_level(logging.DEBUG, LOGGER)

    run = await run_handler(
        probe, sources={"u": [{"v": [1, 2, 3]}]}, input_inline=rechunk(meta_list_key="v")
    )

    assert run.status == "finished"
    assert [payload["items"] for payload in probe.payloads] == [[1, 2], [3]]
    (ignored,) = events(caplog, "worker.adapter.handler_conflict_ignored")
    assert (ignored.handler_adapter, ignored.cmd_adapter) == (PULL, RECHUNK)
    (selected,) = events(caplog, "worker.adapter.selected")
    assert (selected.adapter, selected.io_source) == (RECHUNK, "cmd")
    assert selected.from_nodes == ["u"]
    assert selected.adapter_kwargs["size"] == 2


async def test_without_a_route_in_the_graph_the_handler_proposes_one(caplog):
    probe = Probe({"input_inline": inline(PULL, {"from_node": "u"})})
    caplog.set_level(logging.DEBUG, LOGGER)

    run = await run_handler(probe, sources={"u": [{"a": 1}]}, input_inline={"colour": "red"})

    assert run.status == "finished"
    assert [payload["meta"] for payload in probe.payloads] == [{"a": 1}]
    (selected,) = events(caplog, "worker.adapter.selected")
    assert selected.io_source == "handler"


@pytest.mark.parametrize(
    "proposal",
    [
        {"input_inline": inline("pull.from_nowhere", {})},
        {"input_inline": inline(7, {})},
        {"input_inline": None},
        {"input_inline": "x"},
        "nothing of the kind",
        None,
    ],
)
async def test_an_unknown_proposal_is_passed_over(proposal):
    probe = Probe(proposal)

    run = await run_handler(probe)

    assert run.status == "finished"
    assert probe.own_batches == 1


async def test_a_proposal_with_wrong_arguments_fails_the_node_for_good():
    probe = Probe({"input_inline": inline(RECHUNK, {"from_nodes": ["u"]})})

    run = await run_handler(probe, sources={"u": []})

    assert (run.status, run.reason_code, run.permanent) == ("failed", "bad_input_args", True)


async def test_an_adapter_of_ones_own():
    async def numbers(*, task_id, consumer_node, cancel_flag, up_to):
        for number in range(up_to):
            yield Batch(batch_uid=f"{consumer_node}-{number}", payload={"number": number})

    probe = Probe()
    adapters = {"numbers": numbers}

    run = await run_handler(
        probe, input_inline=inline("numbers", {"up_to": 3}), input_adapters=adapters
    )
    wrong = await run_handler(
        probe, input_inline=inline("numbers", {"down_to": 3}), input_adapters=adapters
    )

    assert [result.batch_uid for result in run.results] == ["probe-0", "probe-1", "probe-2"]
    assert (wrong.reason_code, wrong.permanent) == ("bad_input_args", True)


# ── what is cut how ───────────────────────────────────────────────────────────────────────────────


async def test_pulled_batches_keep_their_uids_and_say_where_they_are_from():
    probe = Probe()

    run = await run_handler(
        probe,
        sources={"b": [{"n": 2}], "a": [{"n": 0}, {"n": 1}]},
        input_inline=inline(PULL, {"from_nodes": ["a", "b"]}),
    )

    assert [payload["meta"]["n"] for payload in probe.payloads] == [0, 1, 2]
    assert probe.payloads[0] == {
        "from_node": "a",
        "ref": {"task_id": "test", "node_id": "a", "batch_uid": "b0"},
        "meta": {"n": 0},
    }
    assert [result.batch_uid for result in run.results] == ["b0", "b1", "b0"]
    assert sorted(run.done_inputs) == [("a", 0), ("a", 1), ("b", 0)]


async def test_each_parent_is_cut_by_itself():
    probe = Probe()
    metas = [{"v": [1, 2, 3, 4, 5]}, {"v": []}, {"v": "notalist"}, {}]

    run = await run_handler(probe, sources={"u": metas}, input_inline=rechunk(meta_list_key="v"))

    assert [payload["items"] for payload in probe.payloads] == [
        [1, 2],
        [3, 4],
        [5],
        [{"v": "notalist"}],
        [{}],
    ]
    assert [payload["parent"] for payload in probe.payloads[2:4]] == [
        {"ref": {"batch_uid": "b0"}, "meta_list_key": "v"},
        {"ref": {"batch_uid": "b2"}, "meta_list_key": None},
    ]
    assert [result.batch_uid for result in run.results] == [
        stable_hash({"src": "u", "parent": parent, "idx": index})
        for parent, index in [("b0", 0), ("b0", 1), ("b0", 2), ("b2", 0), ("b3", 0)]
    ]
    assert sorted(run.done_inputs) == [("u", number) for number in range(4)]


async def test_without_a_key_each_meta_is_one_item_however_large_the_size():
    probe = Probe()

    await run_handler(
        probe, sources={"u": [{"v": [1, 2]}, {"v": [3]}]}, input_inline=rechunk(size=10)
    )

    assert [payload["items"] for payload in probe.payloads] == [[{"v": [1, 2]}], [{"v": [3]}]]


async def test_parts_that_an_earlier_attempt_has_recorded_are_left_out():
    probe = Probe()
    first, second, third = (
        stable_hash({"src": "u", "parent": "b0", "idx": index}) for index in range(3)
    )

    run = await run_handler(
        probe,
        sources={"u": [{"v": [1, 2, 3]}, {"v": [4]}]},
        input_inline=rechunk(size=1, meta_list_key="v"),
        recorded={"b0": [first, third]},
    )

    assert [payload["items"] for payload in probe.payloads] == [[2], [4]]
    assert run.results[0].batch_uid == second
    assert sorted(run.done_inputs) == [("u", 0), ("u", 1)]


async def test_a_batch_all_of_whose_parts_are_recorded_is_done_without_the_handler():
    probe = Probe()
    uid = stable_hash({"src": "u", "parent": "b0", "idx": 0})

    run = await run_handler(
        probe,
        sources={"u": [{"v": [1]}]},
        input_inline=rechunk(meta_list_key="v"),
        recorded={"b0": [uid]},
    )

    assert (run.status, probe.payloads, run.done_inputs) == ("finished", [], [("u", 0)])


async def test_many_batches_all_arrive_once_and_in_order():
    probe = Probe()

    run = await run_handler(
        probe,
        sources={"u": [{"v": [number, number]} for number in range(500)]},
        input_inline=rechunk(size=1, meta_list_key="v"),
    )

    assert [payload["items"][0] for payload in probe.payloads] == [n // 2 for n in range(1_000)]
    assert len({result.batch_uid for result in run.results}) == 1_000
    assert sorted(run.done_inputs) == [("u", number) for number in range(500)]


def events(caplog, name):
    return [record for record in caplog.records if getattr(record, "event", None) == name]
