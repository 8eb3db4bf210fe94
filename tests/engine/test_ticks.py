import pytest

from flo.engine import due
from flo.engine.machine import DUE
from flo.engine.ticks import Tick, Ticked
from flo.model.actions import RegisterAction
from flo.model.groups import CreateGroup, GroupSettings, JoinGroup, Nack, ReadGroup
from flo.model.kv import PutKey
from flo.model.runs import Claim, Invoke
from flo.model.streams import Append, NewRecord
from given import ANNA, Later, given

GROUP = {"stream": "orders", "group": "billing"}


@pytest.fixture
def engine():
    """A lease, a delayed run, a record handed out, a delayed one and a key: each a second apart."""
    return given(
        RegisterAction(name="send", timeout_ms=1_000, max_retries=0),
        Invoke(action="send"),
        Claim(worker_id=ANNA, actions=["send"]),
        Invoke(action="send", delay_ms=2_000),
        Append(stream="orders", records=[NewRecord(payload=b"")] * 2),
        CreateGroup(**GROUP, settings=GroupSettings(ack_timeout_ms=3_000)),
        JoinGroup(**GROUP, consumer=ANNA),
        ReadGroup(**GROUP, consumer=ANNA, limit=2),
        Nack(**GROUP, ids=["0-2"], delay_ms=4_000),
        PutKey(key="a", value=b"", ttl_ms=5_000),
    )


def names(decision):
    return [type(event).__name__ for event in decision.events]


def test_everything_falls_due_at_its_own_time(engine):
    assert [names(engine.execute(Later(1_000), Tick())) for _ in range(6)] == [
        ["RunTimedOut"],
        ["RunReleased"],
        ["RecordsReturned"],
        ["RecordsReleased"],
        ["KeyExpired"],
        [],
    ]
    assert len(engine.state.due) == 0


def test_what_fell_due_since_the_last_tick_falls_due_now(engine):
    decision = engine.execute(Later(60_000), Tick())

    assert sorted(names(decision)) == [
        "KeyExpired",
        "RecordsReleased",
        "RecordsReturned",
        "RunReleased",
        "RunTimedOut",
    ]
    assert decision.reply == Ticked(more=False)
    assert engine.execute(Tick()).events == ()


def test_a_tick_takes_a_bounded_number_and_says_that_there_is_more(monkeypatch):
    monkeypatch.setattr("flo.engine.ticks.DUE_PER_TICK_MAX", 3)
    engine = given(*(PutKey(key=f"k{one}", value=b"", ttl_ms=5) for one in range(7)), Later(5))

    ticks = [engine.execute(Tick()) for _ in range(4)]

    assert [len(one.events) for one in ticks] == [3, 3, 1, 0]
    assert [one.reply.more for one in ticks] == [True, True, False, False]


def test_whatever_can_fall_due_has_a_rule():
    assert set(DUE) == {
        due.RUN,
        due.GROUP,
        due.KEY,
        due.WORKFLOW,
        due.SCHEDULE,
        due.REQUESTS,
        due.PIPELINE,
        due.PIPELINE_NODE,
    }
