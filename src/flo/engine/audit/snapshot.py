"""The audit in a snapshot: how many entries there have been."""

from collections.abc import Iterable

from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import State
from flo.model.ids import Namespace


class AuditPart(SnapshotPart):
    numbers: dict[Namespace, int]


def _dump(state: State) -> Iterable[AuditPart]:
    if state.audit_numbers:
        yield AuditPart(numbers=dict(sorted(state.audit_numbers.items())))


def _restore(state: State, part: AuditPart) -> None:
    state.audit_numbers = part.numbers


SNAPSHOT = (Section(AuditPart, _dump, _restore),)
