"""What everybody in one simulation shares: the time, the weather, the network, the witnesses."""

import asyncio
import random

from flo.client.session import Session
from flo.model.ids import ActionName
from flo.testing.facts import Facts
from flo.testing.group_ledger import GroupLedger
from flo.testing.invariants import Checks
from flo.testing.kv_ledger import KvLedger
from flo.testing.ledger import Ledger
from flo.testing.network import Network
from flo.testing.reports import Reports
from flo.testing.requests import Requests
from flo.testing.server_time import ServerTime
from flo.testing.story import Story
from flo.testing.stream_ledger import StreamLedger
from flo.testing.weather import FAIR, Weather
from flo.testing.witness import Witness
from flo.testing.workflow_ledger import WorkflowLedger

CALL_TIMEOUT_S = 20.0
NAMESPACES = ("default", "other")
ACTIONS = ("bake", "carry", "dig", "eat")
STRICT = "eat"
"""This action has schemas, most of the time."""
SHARED = "carry"
"""Of this action only so many runs are under way at a time, for each of WHO, most of the time."""
PACED = "dig"
"""Of this one only so many begin in a while."""
WHO = ("ant", "bee", "cat")
SCHEMA = {"type": "string"}
MISFIT_CHANCE = 0.05


class World:
    def __init__(self, dice: random.Random, weather: Weather) -> None:
        self.weather = weather
        self.time = ServerTime()
        self.network = Network(dice_from(dice), weather.lines)
        self.checks = Checks()
        self.reports = Reports()
        self.story = Story(self.checks)
        self.requests = Requests()
        self.witness = Witness(self.checks, self.requests, self.time)
        self.facts = Facts(self.checks, self.reports, self.witness)
        self.ledger = Ledger(self.checks, self.facts, self.reports, self.time)
        self.stream_ledger = StreamLedger(self.checks, self.facts, self.witness)
        self.group_ledger = GroupLedger(self.checks, self.facts, self.witness)
        self.kv_ledger = KvLedger(self.checks, self.facts, self.witness)
        self.workflow_ledger = WorkflowLedger(self.checks, self.facts, self.witness)
        self.is_closing = False
        self.awake = asyncio.Event()
        self.awake.set()

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


def payload_for(action: ActionName, text: str, dice: random.Random | None = None) -> bytes:
    """What fits the schema that the action may have; with dice, now and then something else."""
    if action != STRICT or (dice is not None and dice.random() < MISFIT_CHANCE):
        return text.encode()
    return f'"{text}"'.encode()


def dice_from(dice: random.Random) -> random.Random:
    """Dice of one's own: how often one throws them changes nothing for the others."""
    return random.Random(dice.getrandbits(64))
