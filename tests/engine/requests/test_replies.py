"""Replies are kept so that the same comes out."""

import pytest

from flo.engine.requests.replies import REPLY_LENGTH_MAX, digest_of, packed, unpacked
from flo.model.base import Message, Nothing
from flo.model.errors import Conflict, FloError
from flo.model.kv import Committed, PutKey, Transact, Versioned
from flo.model.runs import Cancel, Invoke, Invoked
from flo.model.streams import Append, Appended, NewRecord
from flo.model.workflows import (
    SignalSent,
    SignalWorkflow,
    StartWorkflow,
    WorkflowBegun,
    WorkflowStatus,
)


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        (Invoke(action="a"), Invoked(run_id="a-1", inline=True)),
        (PutKey(key="k", value=b"v"), Versioned(version=None)),
        (Append(stream="s", records=[]), Appended(stream_id="1-1", last_id="1-2", count=2)),
        (SignalWorkflow(run_id="wfrun-1", type="t"), SignalSent()),
        (
            StartWorkflow(name="w"),
            WorkflowBegun(run_id="wfrun-1", status=WorkflowStatus.FAILED, hint="h"),
        ),
    ],
)
def test_a_reply_comes_out_as_it_was(message: Message, reply: Message) -> None:
    assert unpacked(packed(reply), message) == reply


def test_a_reply_that_was_kept_when_it_had_fewer_fields_has_their_defaults() -> None:
    again = unpacked(packed(Nothing()), SignalWorkflow(run_id="wfrun-1", type="t"))

    assert again == SignalSent()


def test_a_refusal_comes_out_as_it_was() -> None:
    refusal = Conflict("no", code="run_ended", details={"run_id": "a-1"})
    again = unpacked(packed(refusal), Cancel(run_id="a-1"))

    assert isinstance(again, Conflict)
    assert (again.message, again.code, again.details) == ("no", "run_ended", {"run_id": "a-1"})


def test_of_a_long_reply_it_is_only_said_that_there_was_one() -> None:
    again = unpacked(packed(Invoked(run_id="x" * REPLY_LENGTH_MAX)), Invoke(action="a"))

    assert isinstance(again, FloError)
    assert again.code == "reply_not_kept"


def test_messages_are_told_apart() -> None:
    messages = [
        Invoke(action="a"),
        Invoke(action="b"),
        Append(stream="a", records=[]),
        Append(stream="a", records=[NewRecord(payload=b"1")]),
    ]

    assert len({digest_of(one) for one in messages}) == len(messages)
    assert digest_of(Invoke(action="a")) == digest_of(Invoke(action="a"))


def test_every_kind_of_value_is_kept() -> None:
    reply = Committed(version=3, changes=1, values={"n": 4})

    assert unpacked(packed(reply), Transact(changes=[])) == reply
