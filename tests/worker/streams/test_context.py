import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from flo import Invalid, StreamContext
from flo.model.storage.records import StreamRecord
from flo.worker.streams.context import RecordPosition

PLACE = RecordPosition("prod", "orders", "billing", "anna")


class Order(msgspec.Struct):
    id: int


def context(payload: bytes = b'{"id":7}', headers: dict[str, str] | None = None) -> StreamContext:
    record = StreamRecord(
        sequence=3,
        at_ms=1_790_000_000_000,
        payload=payload,
        headers=headers,
        key="alice",
        partition=2,
    )
    return StreamContext(record, 4, PLACE)


def test_it_knows_its_record() -> None:
    ctx = context(headers={"trace": "abc"})

    assert ctx.stream_id == "1790000000000-3"
    assert (ctx.key, ctx.partition, ctx.deliveries) == ("alice", 2, 4)
    assert ctx.payload == b'{"id":7}'
    assert ctx.headers == {"trace": "abc"}
    assert ctx.appended_at == datetime.fromtimestamp(1_790_000_000, UTC)
    assert ctx.cancelled is False
    assert repr(ctx) == "StreamContext(stream_id='1790000000000-3', deliveries=4)"


def test_it_knows_where_it_was_read_and_by_whom() -> None:
    ctx = context()

    assert (ctx.namespace, ctx.stream, ctx.group, ctx.consumer) == PLACE


def test_a_record_without_headers_has_none() -> None:
    assert context().headers == {}


def test_it_reads_the_payload() -> None:
    assert context().json() == {"id": 7}
    assert context().into(Order) == Order(7)


def test_a_payload_that_cannot_be_read_says_why() -> None:
    with pytest.raises(Invalid, match="expected Order"):
        context(b'{"id":"seven"}').into(Order)


def test_a_handler_may_end_when_its_result_no_longer_counts() -> None:
    ctx = context()
    ctx.raise_if_cancelled()
    ctx.cancelled = True

    with pytest.raises(
        asyncio.CancelledError, match=r"1790000000000-3.*the result no longer counts"
    ):
        ctx.raise_if_cancelled()
