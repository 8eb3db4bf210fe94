"""Definitions by the digest of their text, kept as long as a record names them.

    deployed, or runs of it are live ──▸ in memory
    deleted, and no run of it is live ──▸ in the archive, newer than every run of it

So retention forgets the runs of a version before it forgets its text, and nothing is counted.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from flo.engine.context import Context
from flo.engine.lookup import Lookup, RowLookup
from flo.engine.state import Deployed, Space, State
from flo.engine.workflows.events import WorkflowDeleted, WorkflowFinished
from flo.model.base import Record
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.workflows import GetWorkflow, WorkflowName

DEFINITION_KIND = "definition"

_encode = msgspec.msgpack.Encoder().encode


class DefinitionRecord(Record):
    """The text of a version that was deleted, as the archive keeps it."""

    name: WorkflowName
    version: str
    text: str
    created_at_ms: int


_decode_definition = msgspec.msgpack.Decoder(DefinitionRecord).decode


class DefinitionLookup(RowLookup[DefinitionRecord], frozen=True):
    """The definition whose text has this digest."""

    archive_name: str
    digest: bytes

    def address(self) -> ArchiveAddress:
        return ArchiveAddress(DEFINITION_KIND, self.archive_name, self.digest.hex(), 1)

    def decode(self, body: bytes) -> DefinitionRecord:
        return _decode_definition(body)


def text_digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def archive_deleted(state: State, event: WorkflowDeleted) -> Iterable[Archived]:
    """The texts of what is deleted, but for versions that live runs still need."""
    space = state.spaces[event.namespace]
    workflow = space.workflows[event.name]
    for version, deployed in workflow.versions.items():
        if event.version in (None, version) and not workflow.live[version]:
            yield _row(space, deployed, event.at_ms)


def archive_unneeded(state: State, event: WorkflowFinished) -> Iterable[Archived]:
    """The text of a deleted version, with the last of its runs."""
    space = state.spaces[event.namespace]
    run = space.executions[event.run_id].run
    workflow = space.workflows[run.workflow]
    if run.version in workflow.gone and workflow.live[run.version] == 1:
        yield _row(space, workflow.gone[run.version], event.at_ms)


def lookups_for(state: State, query: GetWorkflow, context: Context) -> Sequence[Lookup[Any]]:
    """Where the text of a version is that is not in memory any more."""
    space = state.space(query.namespace)
    digest = space.deleted_versions.get(query.name, {}).get(query.version or "")
    if digest is None or in_memory(space, query) is not None:
        return ()
    return (DefinitionLookup(space.archive_name, digest),)


def in_memory(space: Space, query: GetWorkflow) -> Deployed | None:
    """The version that is asked for, if it is deployed, or runs of it are live."""
    workflow = space.workflows.get(query.name)
    if workflow is None:
        return None
    return workflow.version(query.version) or workflow.gone.get(query.version or "")


def in_archive(space: Space, query: GetWorkflow, context: Context) -> DefinitionRecord | None:
    digest = space.deleted_versions.get(query.name, {}).get(query.version or "")
    if digest is None:
        return None
    return context.found.get(DefinitionLookup(space.archive_name, digest))


def _row(space: Space, deployed: Deployed, at_ms: int) -> Archived:
    definition = deployed.definition
    record = DefinitionRecord(
        name=definition.name,
        version=definition.version,
        text=deployed.text,
        created_at_ms=deployed.created_at_ms,
    )
    return Archived(
        kind=DEFINITION_KIND,
        namespace=space.archive_name,
        name=deployed.digest.hex(),
        number=1,
        status="",
        finished_at_ms=at_ms,
        key=None,
        body=_encode(record),
    )
