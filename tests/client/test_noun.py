"""The messages of a client: in its namespace, repeated or not as their operation says."""

from typing import Any

import pytest

from client.fake import FakeServer
from client.virtual import run_virtual, turns
from flo.client.client import Flo
from flo.model.declare.operation import DECLARED, needs_key
from flo.model.groups import ClaimRecords, ReadGroup
from flo.model.runs import Complete, Invoke
from flo.model.streams import Append, TrimStream
from flo.wire.opcodes import FORM_OF, Ping


def test_every_message_goes_to_the_namespace_of_its_client() -> None:
    async def main() -> None:
        server = FakeServer()
        flo = Flo("flo:9000", namespace="prod", connect=server.connect)
        calls = [
            flo.actions._call(Invoke(action="a")),
            flo.kv._call(Append(stream="s", records=[])),
        ]
        await turns()
        assert [messages[0].namespace for _, messages in server.requests] == ["prod", "prod"]
        for call in calls:
            call.cancel()
        await flo.close()

    run_virtual(main())


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Ping(), True),
        (Invoke(action="a"), False),
        (Invoke(action="a", idempotency_key="k"), True),
        (Complete(run_id="a-1", worker_id="w"), False),
        (Complete(run_id="a-1", worker_id="w", attempt=1), True),
        (Append(stream="s", records=[]), False),
        (TrimStream(stream="s"), False),
        (TrimStream(stream="s", dry_run=True), True),
        (ReadGroup(stream="s", group="g", consumer="c"), True),
        (ClaimRecords(stream="s", group="g", consumer="c"), True),
        (ClaimRecords(stream="s", group="g", consumer="c", min_idle_ms=1), False),
    ],
)
def test_an_operation_says_whether_a_repetition_changes_nothing(
    message: Any, expected: bool
) -> None:
    assert needs_key(message) is not expected


def test_every_query_may_be_repeated() -> None:
    assert [
        one.name for one in DECLARED.values() if one.is_query and one.repeatable is not True
    ] == []


def test_a_long_poll_has_its_own_time_and_that_of_the_client() -> None:
    async def main() -> None:
        server = FakeServer()
        flo = Flo("flo:9000", timeout=5.0, connect=server.connect)
        assert FORM_OF[ReadGroup].waits
        read = flo.kv._call(ReadGroup(stream="s", group="g", consumer="c", block_ms=20_000))
        invoke = flo.kv._call(Invoke(action="a"))
        await turns()
        connection = flo._session._connection
        assert connection is not None
        deadlines = {call.form.name: call.deadline_s for call in connection.in_flight()}
        assert deadlines == {"invoke": 5.0, "read_group": 25.0}
        read.cancel()
        invoke.cancel()
        await flo.close()

    run_virtual(main())
