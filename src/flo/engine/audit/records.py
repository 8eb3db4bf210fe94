"""What the archive holds of the audit."""

import msgspec

from flo.engine.audit.events import AuditNoted
from flo.engine.state import State
from flo.model.safety.audit import ALLOWED, AUDIT_KIND, AuditEntry
from flo.model.storage.archive import Archived
from flo.model.storage.caller import SERVER

ROW_NAME = "entry"
REFUSED = "refused"

_encode = msgspec.msgpack.Encoder().encode
decode_entry = msgspec.msgpack.Decoder(AuditEntry).decode


def archive_entry(state: State, event: AuditNoted) -> tuple[Archived, ...]:
    caller = state.caller or SERVER
    entry = AuditEntry(
        number=event.number,
        at_ms=event.at_ms,
        namespace=event.namespace,
        operation=event.operation,
        target=event.target,
        outcome=event.outcome,
        source=caller.source.value,
        address=caller.address,
        actor=caller.actor,
        reason=caller.reason,
        position=state.position,
    )
    row = Archived(
        kind=AUDIT_KIND,
        namespace=event.namespace,
        name=ROW_NAME,
        number=event.number,
        status=ALLOWED if event.outcome == ALLOWED else REFUSED,
        finished_at_ms=event.at_ms,
        key=None,
        body=_encode(entry),
        sequence=event.number,
        tags=tags_of(entry.actor, entry.target, entry.operation),
    )
    return (row,)


def tags_of(actor: str | None, target: str | None, operation: str | None) -> tuple[str, ...]:
    """What an entry is found by, in the order in which one tag is chosen to find it by."""
    return tuple(
        f"{name}:{value}"
        for name, value in (("target", target), ("actor", actor), ("operation", operation))
        if value
    )
