"""Coordinator functions on variables: paths, limits, secrets, logs."""

import datetime

import pytest

from flowkit.coordinator.adapters import AdapterError, CoordinatorAdapters, default_adapters
from flowkit.core.time import ManualClock

SECRET = "eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl"


class Leaks:
    def is_sensitive(self, key_path, value):
        return value == "LEAK"


def leaks(key_path, value):
    return value == "LEAK"


@pytest.fixture
async def task(db):
    return (await db.tasks.insert_one({"id": "t"})).inserted_id


@pytest.fixture
def adapters(db):
    return CoordinatorAdapters(db=db, clock=ManualClock())


@pytest.fixture
def variables(db):
    async def read(task_id):
        document = await db.tasks.find_one({"id": task_id}, {"coordinator": 1})
        return document["coordinator"].get("vars")

    return read


async def test_paths_and_nested_values(adapters, task, variables, caplog):
    caplog.set_level("INFO")

    done = await adapters.vars_set(
        task,
        kv={
            "plain": 7,
            "sla.max_delay": 500,
            "flags": {"ab": True},
            "whole.tree": {"a": 1},
        },
    )
    await adapters.vars_set(task, kv={"whole.tree": {"b": 2}, "flags": {"beta": False}})

    assert done == {"ok": True, "touched": 4}
    assert await variables(task) == {
        "plain": 7,
        "sla": {"max_delay": 500},
        "flags": {"ab": True, "beta": False},
        "whole": {"tree": {"b": 2}},
    }
    first = events(caplog, "coord.vars.set")[0]
    assert first.keys == [
        "coordinator.vars.flags.ab",
        "coordinator.vars.plain",
        "coordinator.vars.sla.max_delay",
        "coordinator.vars.whole.tree",
    ]
    assert (first.n, first.sensitive_hits, first.task_id) == (4, 0, task)


async def test_values_as_arguments_and_none_at_all(adapters, task, variables):
    assert await adapters.vars_set(task, a=1, b=2) == {"ok": True, "touched": 2}
    assert await adapters.vars_set(task, kv={}) == {"ok": True, "touched": 0}
    assert await adapters.vars_merge(task, kv={"c": 3}) == {"ok": True, "touched": 1}
    assert await variables(task) == {"a": 1, "b": 2, "c": 3}


async def test_an_empty_operation_makes_no_variables(adapters, task, variables):
    await adapters.vars_set(task, kv={})

    assert await variables(task) is None


async def test_a_merge_overwrites_leaves_and_keeps_the_rest(adapters, task, variables, caplog):
    caplog.set_level("INFO")

    await adapters.vars_merge(task, data={"a": {"x": 1, "y": {"z": 2}}})
    await adapters.vars_merge(task, data={"a": {"y": 3}, "b": [1]})

    assert await variables(task) == {"a": {"x": 1, "y": 3}, "b": [1]}
    assert len(events(caplog, "coord.vars.set")) == 1  # the first merge into empty variables
    assert len(events(caplog, "coord.vars.merge")) == 1


async def test_increments(adapters, task, variables, caplog):
    caplog.set_level("INFO")
    await adapters.vars_set(task, kv={"text": "x"})

    assert await adapters.vars_incr(task, key="n.m") == {"ok": True, "key": "n.m", "by": 1}
    await adapters.vars_incr(task, key="n.m", by=2.5)

    assert (await variables(task))["n"] == {"m": 3.5}
    assert events(caplog, "coord.vars.incr")[0].by == 1
    for wrong in ({"key": "text"}, {"key": "$x"}, {"key": "n.m", "by": float("nan")}):
        with pytest.raises(AdapterError):
            await adapters.vars_incr(task, **wrong)
    for by in ("1", True, None, float("inf")):
        with pytest.raises(AdapterError):
            await adapters.vars_incr(task, key="n.m", by=by)


async def test_unset_and_what_is_left_empty(adapters, task, variables, caplog):
    caplog.set_level("INFO")
    await adapters.vars_set(task, kv={"a": {"b": {"c": 1}}, "d": 2, "e": {"f": 3}})

    done = await adapters.vars_unset(task, "a.b.c", "never.there", keys=["d"])

    assert done == {"ok": True, "touched": 3}
    assert await variables(task) == {"e": {"f": 3}}
    (pruned,) = events(caplog, "coord.vars.unset.prune")
    assert pruned.keys == ["coordinator.vars.a", "coordinator.vars.a.b"]
    for keys in ("d", b"d"):
        with pytest.raises(AdapterError):
            await adapters.vars_unset(task, keys=keys)


@pytest.mark.parametrize(
    "kv",
    [
        {"$bad": 1},
        {"x": {"bad.seg": 1}},
        {"bad\0seg.ok": 1},
        {"x": {"a" * 129: 1}},
        {"": 1},
        {"a..b": 1},
        {"bulk": {f"k{number}": number for number in range(257)}},
        {".".join(["seg"] * 15): 1},
        {".".join(["s" * 100] * 5): 1},
        {"payload": "a" * 65_537},
        {"payload": b"a" * 65_537},
    ],
    ids=lambda kv: str(kv)[:30],
)
async def test_what_may_not_be_set(kv, adapters, task, variables):
    with pytest.raises(AdapterError):
        await adapters.vars_set(task, kv=kv)

    assert await variables(task) is None


async def test_what_just_may(adapters, task):
    await adapters.vars_set(task, kv={".".join(["seg"] * 14): 1, "p": "a" * 65_536})

    assert adapters._limits["max_paths_per_op"] == 256


async def test_bytes_and_times_come_back(adapters, task, variables):
    at = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)

    await adapters.vars_set(task, kv={"raw": b"abc", "at": at, "many": (1, 2)})

    assert await variables(task) == {"raw": b"abc", "at": at, "many": [1, 2]}


@pytest.mark.parametrize("detector", [Leaks(), Leaks, leaks, lambda: Leaks(), f"{__name__}:Leaks"])
async def test_secrets_are_counted_or_refused(detector, db, task, variables, caplog):
    caplog.set_level("INFO")
    adapters = CoordinatorAdapters(db=db, detector=detector)

    with pytest.raises(AdapterError):
        await adapters.vars_set(task, kv={"token": "LEAK"}, block_sensitive=True)
    with pytest.raises(AdapterError):
        await adapters.vars_merge(task, data={"token": "LEAK", "block_sensitive": True})
    await adapters.vars_set(task, kv={"token": "LEAK", "other": "x"})

    assert events(caplog, "coord.vars.set")[-1].sensitive_hits == 1
    assert "LEAK" not in caplog.text
    assert (await variables(task))["token"] == "LEAK"


@pytest.mark.parametrize(
    ("value", "is_secret"),
    [
        (SECRET, True),
        ("AKIAABCDEFGHIJKLMNOP", True),
        ("Bearer abcdefghijklmnop", True),
        (b"x" * 20, True),
        (b"x" * 19, False),
        ("short", False),
        ("a" * 23, False),
        (12345678901234567890, False),
    ],
)
async def test_what_looks_like_a_secret(value, is_secret, adapters):
    assert adapters.detector.is_sensitive("k", value) is is_secret


async def test_each_change_is_later_than_the_one_before(adapters, task, db):
    times = []
    for number in range(5):
        await adapters.vars_set(task, kv={"n": number})
        times.append((await db.tasks.find_one({"id": task}))["updated_at"])

    assert times == sorted(set(times))


def test_the_functions_by_name(db):
    assert set(default_adapters(db=db)) == {
        "vars.set",
        "vars.merge",
        "vars.incr",
        "vars.unset",
        "merge.generic",
        "metrics.aggregate",
        "noop",
    }


def events(caplog, name):
    return [record for record in caplog.records if getattr(record, "event", None) == name]
