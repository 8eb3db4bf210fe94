"""The recordings of workflow runs that are in an archive, for tests that replay them."""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from flo.engine.workflows.folds import CALLS_KIND, HISTORY_KIND, RUN_KIND
from flo.engine.workflows.records import CallParts, HistoryEntry, WorkflowRecord
from flo.engine.workflows.replay.recording import Recording, recording_of
from flo.workflow.definition import Definition
from flo.workflow.document.read import read


def definition_of(text: str) -> Definition:
    definition, _ = read(text)
    assert definition is not None
    return definition


def recordings_in(
    rows: Iterable[tuple[str, str, int, bytes]], definition: Definition
) -> Iterator[Recording]:
    """Those of one workflow; a row has a kind, a name, a number and a body."""
    ordered = sorted(rows, key=lambda row: row[2])
    for kind, _, _, body in ordered:
        if kind != RUN_KIND:
            continue
        record = msgspec.msgpack.decode(body, type=WorkflowRecord)
        if record.run.workflow != definition.name:
            continue
        of_run = [row for row in ordered if row[1] == record.run.run_id]
        calls = [
            msgspec.msgpack.decode(body, type=CallParts)
            for kind, _, _, body in of_run
            if kind == CALLS_KIND
        ]
        history = [
            msgspec.msgpack.decode(body, type=tuple[HistoryEntry, ...])
            for kind, _, _, body in of_run
            if kind == HISTORY_KIND
        ]
        yield recording_of(definition, record, calls, history)


def rows_of_file(path: Path) -> list[tuple[str, str, int, bytes]]:
    """The rows of the archive in the file of a server that has stopped."""
    with sqlite3.connect(path) as connection:
        return list(connection.execute("SELECT kind, name, number, body FROM archive"))
