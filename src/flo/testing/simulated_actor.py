"""What clients of streams, groups and keys have in common: a session, dice, and who they are."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from flo.client.session import Session
from flo.model.errors import FloError, Unavailable
from flo.model.ids import Namespace
from flo.testing.invariants import Invariant
from flo.testing.network import Line
from flo.testing.world import World

Operation: TypeAlias = Callable[[], Awaitable[None]]


class SimulatedActor:
    """Does one thing after the other, at random, until the simulation closes."""

    def __init__(self, world: World, dice: random.Random, name: str, namespace: Namespace) -> None:
        self._world = world
        self._dice = dice
        self.name = name
        self._namespace = namespace
        self._session: Session = world.session(name, dice)
        self._operations: list[Operation] = []

    async def run(self) -> None:
        while not self._world.is_closing:
            await asyncio.sleep(self._dice.expovariate(1.0 / self._world.weather.rest_s))
            await self._world.awake.wait()
            await self._dice.choice(self._operations)()
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    def _line(self) -> Line | None:
        """The line from here, if it has had no trouble yet."""
        return self._world.network.good_line(self.name)

    def _was_good(self, line: Line | None) -> bool:
        return line is not None and not line.has_had_trouble

    def _did(self, what: str, answer: object, words: int = 1) -> None:
        self._world.story.did(self.name, what, answer, words)

    def _refused(self, what: str, error: FloError, *codes: str) -> None:
        """Nobody knows what became of it, or it is refused for a reason that is known."""
        self._did(what, error)
        known = isinstance(error, Unavailable) or error.code in codes
        self._world.checks.hold(Invariant.REFUSALS_EXPLAINED, known, self.name, what, repr(error))
