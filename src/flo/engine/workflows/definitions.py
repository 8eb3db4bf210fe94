"""Definitions by the digest of their text, kept as long as a record names them.

    deployed, or runs of it are live ──▸ in memory
    deleted, and no run of it is live ──▸ in the archive, newer than every run of it

So retention forgets the runs of a version before it forgets its text, and nothing is counted.
Which versions were deleted is remembered in lists/deleted.py.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec

from flo.engine.context import Context
from flo.engine.lookup import Lookup, RowLookup
from flo.engine.state import Deployed, Space, State
from flo.engine.workflows.events import WorkflowDeleted, WorkflowFinished
from flo.model.base import Record
from flo.model.executions.definitions import DIGEST_PREFIX_LENGTH_MIN, GetDefinition
from flo.model.storage.archive import ArchiveAddress, Archived
from flo.model.storage.store import Store
from flo.model.workflows import (
    GetWorkflow,
    WorkflowName,
)
from flo.workflow.document.read import Reading, read

DEFINITION_KIND = "definition"
TEXTS_REMEMBERED_MAX = 16
ALIKE_MAX = 100
"""So many definitions whose digests begin alike are looked at."""

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
        return _address(self.archive_name, self.digest)

    def decode(self, body: bytes) -> DefinitionRecord:
        return _decode_definition(body)


class DefinitionsLookup(Lookup[tuple[DefinitionRecord, ...]], frozen=True):
    """The deleted definitions whose digests begin so, in hex."""

    archive_name: str
    prefix: str

    async def fetch(self, store: Store) -> tuple[DefinitionRecord, ...]:
        name = self.prefix[:DIGEST_PREFIX_LENGTH_MIN]
        rows = await store.archive.page(
            DEFINITION_KIND, self.archive_name, name, below=None, limit=ALIKE_MAX
        )
        records = (_decode_definition(row.body) for row in rows)
        return tuple(one for one in records if text_digest(one.text).hex().startswith(self.prefix))


@lru_cache(maxsize=TEXTS_REMEMBERED_MAX)
def reading_of(text: str) -> Reading:
    """The definition in a text. It may take a while, so a server reads it before the rule does."""
    return read(text)


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


def lookups_for_workflow(
    state: State, query: GetWorkflow, context: Context
) -> Sequence[Lookup[Any]]:
    """Where the text of a version is that is not in memory any more."""
    space = state.space(query.namespace)
    digest = space.deleted_versions.digest(query.name, query.version)
    if digest is None or in_memory(space, query) is not None:
        return ()
    return (DefinitionLookup(space.archive_name, digest),)


def lookups_for_digest(
    state: State, query: GetDefinition, context: Context
) -> Sequence[Lookup[Any]]:
    return (DefinitionsLookup(state.space(query.namespace).archive_name, query.definition.lower()),)


def in_memory(space: Space, query: GetWorkflow) -> Deployed | None:
    """The version that is asked for, if it is deployed, or runs of it are live."""
    workflow = space.workflows.get(query.name)
    if workflow is None:
        return None
    return workflow.version(query.version) or workflow.gone.get(query.version or "")


def in_archive(space: Space, query: GetWorkflow, context: Context) -> DefinitionRecord | None:
    digest = space.deleted_versions.digest(query.name, query.version)
    if digest is None:
        return None
    return context.found.get(DefinitionLookup(space.archive_name, digest))


def with_digest(space: Space, query: GetDefinition, context: Context) -> Iterator[DefinitionRecord]:
    """The definitions whose digests begin so: deployed, needed by live runs, or deleted."""
    prefix, seen = query.definition.lower(), set[bytes]()
    for workflow in space.workflows.values():
        for deployed in (*workflow.versions.values(), *workflow.gone.values()):
            if deployed.digest.hex().startswith(prefix):
                seen.add(deployed.digest)
                yield _record(deployed)
    for record in context.found.get(DefinitionsLookup(space.archive_name, prefix)) or ():
        if text_digest(record.text) not in seen:
            yield record


def _address(archive_name: str, digest: bytes) -> ArchiveAddress:
    """Those whose digests begin alike have one name, and as numbers what follows of them."""
    text = digest.hex()
    name, rest = text[:DIGEST_PREFIX_LENGTH_MIN], text[DIGEST_PREFIX_LENGTH_MIN:]
    return ArchiveAddress(DEFINITION_KIND, archive_name, name, int(rest[:15], 16))


def _record(deployed: Deployed) -> DefinitionRecord:
    definition = deployed.definition
    return DefinitionRecord(
        name=definition.name,
        version=definition.version,
        text=deployed.text,
        created_at_ms=deployed.created_at_ms,
    )


def _row(space: Space, deployed: Deployed, at_ms: int) -> Archived:
    kind, namespace, name, number = _address(space.archive_name, deployed.digest)
    return Archived(
        kind=kind,
        namespace=namespace,
        name=name,
        number=number,
        status="",
        finished_at_ms=at_ms,
        key=None,
        body=_encode(_record(deployed)),
    )
