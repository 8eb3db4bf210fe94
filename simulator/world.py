"""What everybody in one simulation shares: time, faults, network, reference model, ledgers."""

import asyncio
import random
from collections.abc import Sequence

from flo.client.session.keepalive import NO_PINGS, PingPolicy
from flo.client.session.session import Session
from flo.model.ids import ActionName
from flo.model.storage.request_keys import SESSION_BITS
from simulator.audits.replays import Replays
from simulator.checks.invariants import Checks
from simulator.checks.observer import Observer
from simulator.faults.network import Network
from simulator.faults.profile import NO_FAULTS, FaultProfile
from simulator.faults.server_time import ServerTime
from simulator.ledgers.departures import Departures
from simulator.ledgers.groups import GroupLedger
from simulator.ledgers.kv import KvLedger
from simulator.ledgers.reports import Reports
from simulator.ledgers.requests import Requests
from simulator.ledgers.runs import Ledger
from simulator.ledgers.streams import StreamLedger
from simulator.ledgers.workflows import WorkflowLedger
from simulator.reference.log import ReferenceModel
from simulator.trace import Trace

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
    def __init__(
        self, rng: random.Random, profile: FaultProfile, documents: Sequence[str] = ()
    ) -> None:
        self.profile = profile
        self.documents = documents
        """Workflows that are there besides the usual ones."""
        self.time = ServerTime()
        self.network = Network(rng_from(rng), profile.links)
        self.awake = asyncio.Event()
        self.awake.set()
        self.checks = Checks(self.awake.set)  # nobody is idle once something is broken
        self.reports = Reports()
        self.trace = Trace(self.checks)
        self.requests = Requests()
        self.observer = Observer(self.checks, self.requests, self.time)
        self.reference = ReferenceModel(self.checks, self.reports, self.observer)
        self.ledger = Ledger(self.checks, self.reference, self.reports, self.time)
        self.stream_ledger = StreamLedger(self.checks, self.reference, self.observer)
        self.group_ledger = GroupLedger(self.checks, self.reference, self.observer)
        self.kv_ledger = KvLedger(self.checks, self.reference, self.observer)
        self.workflow_ledger = WorkflowLedger(self.checks, self.reference, self.observer)
        self.replays = Replays(self.checks, self.reference)
        self.departures = Departures(self.checks, self.reference, self.time)
        self.is_closing = False
        self.asks_who = False
        """Whether the server lets only those in who have a token."""

    def session(
        self, place: str, rng: random.Random, pings: PingPolicy = NO_PINGS, token: str = ""
    ) -> Session:
        return Session(
            self.network.connect_from(place),
            "simulated:9000",
            client=place,
            timeout_s=CALL_TIMEOUT_S,
            rng=rng.random,
            pings=pings,
            draw_session=lambda: rng.getrandbits(SESSION_BITS),
            token=token,
        )

    def end_faults(self) -> None:
        """No more faults."""
        self.profile = NO_FAULTS
        self.network.quality = NO_FAULTS.links
        self.network.heal_all()
        self.is_closing = True
        self.awake.set()


def payload_for(action: ActionName, text: str, rng: random.Random | None = None) -> bytes:
    """What fits the schema that the action may have; with an rng, now and then something else."""
    if action != STRICT or (rng is not None and rng.random() < MISFIT_CHANCE):
        return text.encode()
    return f'"{text}"'.encode()


def rng_from(rng: random.Random) -> random.Random:
    """An rng of one's own: how often it is used changes nothing for the others."""
    return random.Random(rng.getrandbits(64))
