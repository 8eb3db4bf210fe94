"""The reference model of namespaces: when each was deleted, and where its rows are archived."""

from collections import Counter
from collections.abc import Callable, Sequence

from flo.engine.losses.events import LossAccepted
from flo.engine.namespaces.events import NamespaceCreated, NamespaceDeleted
from flo.model.ids import Namespace
from simulator.checks.invariants import Invariant
from simulator.checks.observer import Observer
from simulator.reference.handlers import reads


class NamespaceReference:
    """`forget` holds what every other model does when a namespace is deleted."""

    def __init__(self, observer: Observer) -> None:
        self.forget: Sequence[Callable[[Namespace], None]] = ()
        self.deleted_at: Counter[Namespace] = Counter()
        """The append that deleted a namespace last."""
        self._observer = observer
        self._archive_names: dict[tuple[Namespace, int], str] = {}

    def filed_under(self, archive_name: str) -> Namespace:
        """Whose rows these are; each life of a namespace has its own place in the archive."""
        namespace = archive_name.partition("~")[0]
        own = self._archive_names.setdefault((namespace, self.deleted_at[namespace]), archive_name)
        others = [name for name in self._archive_names.values() if name == archive_name]
        alone = own == archive_name and len(others) == 1
        self._observer.hold(Invariant.FORGOTTEN, alone, archive_name, own)
        return namespace

    @reads
    def _created(self, event: NamespaceCreated) -> None:
        """It is as empty as if it had never been."""

    @reads
    def _loss_accepted(self, event: LossAccepted) -> None:
        """Nothing follows from it."""

    @reads
    def _deleted(self, event: NamespaceDeleted) -> None:
        self.deleted_at[event.name] = self._observer.position
        for forget in self.forget:
            forget(event.name)
