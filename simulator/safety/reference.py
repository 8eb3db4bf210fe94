"""The reference model of secrets and of the audit: what is set, and what was said of whom."""

from collections.abc import Sequence

import msgspec

from flo.engine.audit.events import AuditNoted
from flo.engine.callers import CallerNoted
from flo.engine.secrets.events import SecretDeleted, SecretsSealedAnew, SecretStored
from flo.model.base import Event
from flo.model.declare.operation import DECLARED
from flo.model.ids import Namespace
from flo.model.safety.audit import AUDIT_KIND
from flo.model.storage.archive import Archived
from flo.server.audit.shard import AUDITED
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads

AUDITED_CODES = {DECLARED[kind].opcode if kind in DECLARED else kind.__name__ for kind in AUDITED}
_encode = msgspec.msgpack.Encoder().encode


class SafetyReference:
    def __init__(self, observer: Observer) -> None:
        self.versions: dict[tuple[Namespace, str], int] = {}
        """The secrets that there are."""
        self.entries: dict[Namespace, list[AuditNoted]] = {}
        self.values: set[bytes] = set()
        """What was ever set as a secret."""
        self.is_audited = False
        """Whether the server of this simulation audits."""
        self._observer = observer

    def forget(self, namespace: Namespace) -> None:
        """Its secrets are gone; what was said of it is not."""
        for key in [key for key in self.versions if key[0] == namespace]:
            del self.versions[key]

    def begin(self, events: Sequence[Event], archived: Sequence[Archived]) -> None:
        """Of an append: no value is in it, and of every audited command there is an entry."""
        if self.values:
            written = _encode([*events, *archived])
            seen = [value for value in self.values if value in written]
            self._observer.hold(Invariant.SECRETS_SEALED, not seen, events)
        commands = entries = 0
        for event in events:
            if isinstance(event, CallerNoted):
                pairs = zip(event.operations[::2], event.operations[1::2], strict=True)
                commands += sum(int(count) for name, count in pairs if name in AUDITED_CODES)
            entries += isinstance(event, AuditNoted)
        if self.is_audited and (commands or entries):
            self._observer.hold(Invariant.AUDITED_ONCE, commands == entries, events)
        filed = sum(row.kind == AUDIT_KIND for row in archived)
        self._observer.hold(Invariant.AUDITED_ONCE, filed == entries, events, archived)

    @reads
    def _stored(self, event: SecretStored) -> None:
        key = (event.namespace, event.name)
        expected = self.versions.get(key, 0) + 1
        self._observer.hold(Invariant.SECRETS_SEALED, event.version == expected, event)
        self.versions[key] = event.version

    @reads
    def _sealed_anew(self, event: SecretsSealedAnew) -> None:
        old, new = ({pair[at] for pair in event.seals} for at in (0, 1))
        fresh = len(new) == len(event.seals) and not old & new
        self._observer.hold(Invariant.SECRETS_SEALED, fresh, event)

    @reads
    def _deleted(self, event: SecretDeleted) -> None:
        known = self.versions.pop((event.namespace, event.name), None)
        self._observer.hold(Invariant.SECRETS_SEALED, known is not None, event)

    @reads
    def _noted(self, event: AuditNoted) -> None:
        entries = self.entries.setdefault(event.namespace, [])
        entries.append(event)
        follows = event.number == len(entries)
        self._observer.hold(Invariant.AUDITED_ONCE, follows, event, len(entries))
