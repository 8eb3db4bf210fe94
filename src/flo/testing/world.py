"""What everybody in one simulation shares: the time, the network, the disk, and the witnesses."""

import asyncio
import random

from flo.client.session import Session
from flo.log.memory import MemoryLog
from flo.testing.facts import Facts
from flo.testing.invariants import Checks
from flo.testing.ledger import Ledger
from flo.testing.loop import LoopClock
from flo.testing.network import Network
from flo.testing.reports import Reports
from flo.testing.story import Story
from flo.testing.weather import FAIR, Weather

CALL_TIMEOUT_S = 20.0
NAMESPACES = ("default", "other")
ACTIONS = ("bake", "carry", "dig", "eat")


class World:
    def __init__(self, dice: random.Random, weather: Weather) -> None:
        self.weather = weather
        self.clock = LoopClock()
        self.network = Network(self.dice_for(dice), weather.lines)
        self.disk_dice = self.dice_for(dice)
        self.kept = MemoryLog()
        self.checks = Checks()
        self.reports = Reports()
        self.story = Story(self.checks)
        self.facts = Facts(self.checks, self.reports, self.clock.now_ms, self.excuses_s)
        self.ledger = Ledger(self.checks, self.facts, self.reports, self.clock)
        self.is_closing = False
        self.awake = asyncio.Event()
        self.awake.set()
        self._loop = asyncio.get_running_loop()
        self._down_s = 0.0
        self._down_since_s: float | None = 0.0

    @staticmethod
    def dice_for(dice: random.Random) -> random.Random:
        """Dice of one's own: what one does never changes what another one throws."""
        return random.Random(dice.getrandbits(64))

    def session(self, place: str, dice: random.Random) -> Session:
        return Session(
            self.network.connect_from(place),
            "simulated:9000",
            client=place,
            timeout_s=CALL_TIMEOUT_S,
            dice=dice.random,
        )

    def clear_up(self) -> None:
        """No more faults."""
        self.weather = FAIR
        self.network.quality = FAIR.lines
        self.network.heal_all()
        self.is_closing = True
        self.awake.set()

    def server_up(self) -> None:
        self._down_s = self._down_so_far_s()
        self._down_since_s = None

    def server_down(self) -> None:
        if self._down_since_s is None:
            self._down_since_s = self._loop.time()

    def excuses_s(self) -> float:
        """For how long, all in all, timers could not go off, or had been put off by the clock."""
        return self._down_so_far_s() + self.clock.put_ms / 1_000

    def _down_so_far_s(self) -> float:
        since_s = self._down_since_s
        return self._down_s + (self._loop.time() - since_s if since_s is not None else 0.0)
