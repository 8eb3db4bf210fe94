"""Records to be appended: made of what a program gives, and cut into appends."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from flo.client.payloads.payload import encode_payload
from flo.model.errors import Invalid
from flo.model.streams import RECORDS_PER_APPEND_MAX, NewRecord

APPEND_LENGTH_MAX = 1024 * 1024
RECORD_OVERHEAD = 64
"""About how many bytes a record takes on the wire beside its content."""


def record_of(given: Any) -> NewRecord:
    """A record as it is, or one with this payload; what could not be sent is refused."""
    if not isinstance(given, NewRecord):
        return NewRecord(payload=encode_payload(given))
    record = given
    if not isinstance(record.payload, bytes):
        record = replace(record, payload=encode_payload(record.payload))
    _check(record.key, str, "a partition key")
    _check(record.partition, int, "a partition")
    _check(record.headers, dict, "headers")
    for name, value in (record.headers or {}).items():
        _check(name, str, "the name of a header")
        _check(value, str, f"header {name!r}")
    return record


def in_appends(records: Iterable[Any]) -> Iterator[list[NewRecord]]:
    """Records in their order, as many at a time as one append may hold."""
    some: list[NewRecord] = []
    length = 0
    for record in map(record_of, records):
        length += length_of(record)
        if some and (length > APPEND_LENGTH_MAX or len(some) >= RECORDS_PER_APPEND_MAX):
            yield some
            some, length = [], length_of(record)
        some.append(record)
    if some:
        yield some


def length_of(record: NewRecord) -> int:
    """How many bytes a record takes on its way, about."""
    length = len(record.payload) + len(record.key or "") + RECORD_OVERHEAD
    for name, value in (record.headers or {}).items():
        length += len(name) + len(value)
    return length


def _check(value: Any, kind: type, what: str) -> None:
    """Checked here, since one invalid record would make the server refuse the whole frame."""
    if value is not None and not isinstance(value, kind):
        raise Invalid(
            f"expected {kind.__name__} for {what}, got {type(value).__name__}",
            code="invalid_record",
        )
