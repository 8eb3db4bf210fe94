"""Streams: what the machine knows of them."""

from flo.engine.feature import Feature
from flo.engine.streams import long_polls, lookups, queries, rules
from flo.engine.streams.events import (
    RecordsAppended,
    StreamAltered,
    StreamCreated,
    StreamDeleted,
    StreamTrimmed,
)
from flo.engine.streams.snapshot import SNAPSHOT
from flo.model.streams import (
    AlterStream,
    Append,
    CreateStream,
    DeleteStream,
    GetStream,
    ListStreams,
    ReadStream,
    TrimStream,
)

FEATURE = Feature(
    rules={
        CreateStream: rules.decide_create,
        AlterStream: rules.decide_alter,
        DeleteStream: rules.decide_delete,
        Append: rules.decide_append,
        TrimStream: rules.decide_trim,
    },
    folds={
        StreamCreated: rules.apply_created,
        StreamAltered: rules.apply_altered,
        StreamDeleted: rules.apply_deleted,
        RecordsAppended: rules.apply_appended,
        StreamTrimmed: rules.apply_trimmed,
    },
    queries={
        ReadStream: queries.read_stream,
        GetStream: queries.get_stream,
        ListStreams: queries.list_streams,
    },
    lookups=lookups.LOOKUPS,
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    payload_lengths={
        Append: lambda command: sum(len(record.payload) for record in command.records),
    },
    snapshot=SNAPSHOT,
)
