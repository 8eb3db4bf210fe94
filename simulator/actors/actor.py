"""What clients of streams, groups and keys have in common: a session, an rng, a name."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from flo.client.session.session import Session
from flo.model.errors import FloError, Unavailable
from flo.model.ids import Namespace
from simulator.checks.invariants import Invariant
from simulator.faults.network import Link
from simulator.world import World

Operation: TypeAlias = Callable[[], Awaitable[None]]
SUBJECTS = 5


def subject_of(number: int) -> str | None:
    """Whom what an actor sends is about; half of it is about nobody."""
    return f"person-{number % SUBJECTS}" if number % 2 else None


class SimulatedActor:
    """Does one thing after the other, at random, until the simulation closes."""

    def __init__(self, world: World, rng: random.Random, name: str, namespace: Namespace) -> None:
        self._world = world
        self._rng = rng
        self.name = name
        self._namespace = namespace
        self._session: Session = world.session(name, rng)
        self._operations: list[Operation] = []

    async def run(self) -> None:
        while not self._world.is_closing:
            await asyncio.sleep(self._rng.expovariate(1.0 / self._world.profile.rest_s))
            await self._world.awake.wait()
            await self._rng.choice(self._operations)()
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    def _link(self) -> Link | None:
        """The link from here, if it has had no trouble yet."""
        return self._world.network.good_link(self.name)

    def _was_good(self, link: Link | None) -> bool:
        return link is not None and not link.has_had_trouble

    def _did(self, what: str, answer: object, messages: int = 1) -> None:
        self._world.trace.did(self.name, what, answer, messages)

    def _refused(self, what: str, error: FloError, *codes: str) -> None:
        """Nobody knows what became of it, or it is refused for a reason that is known."""
        self._did(what, error)
        known = isinstance(error, Unavailable) or error.code in codes
        self._world.checks.hold(Invariant.REFUSALS_EXPLAINED, known, self.name, what, repr(error))
