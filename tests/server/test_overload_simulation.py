"""Budget and inbox together, under random floods: never over the budget, and fair."""

import random

import pytest

from flo.model.runs import Complete, Invoke
from flo.model.storage.caller import Caller, Source
from flo.server.budget import MemoryBudget, Part, SentLately, length_of
from flo.shard.inbox import TURN_WEIGHT, Inbox
from flo.shard.submission import Submission
from flo.testing.clock import ManualClock

TOTAL = 64 << 20
OWN = 8 << 20
ROUNDS = 1_500
DECIDED_WEIGHT = 300
"""In a round, about: so much is decided in a millisecond or so."""
FLOODERS = 3
LENGTHS = (100, 2_000, 60_000)
NEVER_OVER = "what is used is never more than the total"
LIGHT_SERVED = "who sends little waits for two turns of others, in the flood for two of each"
LIGHT_LET_IN = "who sends little is let in, also in the namespace that is flooded"
REPORTS_LET_IN = "what frees memory is let in"


class Broken(BaseException):
    """An invariant does not hold; no `except Exception` of the code that is tried catches it."""


class User:
    """A caller in a namespace, and what it sends."""

    def __init__(self, namespace, batch, length):
        self.caller = Caller(source=Source.RPC, address="10.0.0.1")
        self.sent = SentLately()
        self.messages = [Invoke(action="send", namespace=namespace, input=bytes(length))] * batch
        self.length = length_of(self.messages, batch * (length + 50))
        self.waiting = 0


class Simulation:
    """`has_budget`, `takes_turns` and `knows_callers` can be switched off, for controls."""

    def __init__(self, seed, *, has_budget=True, takes_turns=True, knows_callers=True):
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.state = {"flood": 0, "calm": 0}
        self.inbox = Inbox() if takes_turns else Inbox(few_weight=1 << 60)
        self.budget = MemoryBudget(
            TOTAL,
            own_length=OWN,
            state_length=self.state_length if has_budget else lambda: 0,
            space_length=self.state.__getitem__,
            now_ms=self.clock.now_ms,
        )
        self.knows_callers = knows_callers
        self.flooders = [self.flooder() for _ in range(FLOODERS)]
        self.light = [User(namespace, 1, 100) for namespace in ("flood", "calm")]
        self.weight = 0
        """What has been decided."""
        self.refused = 0
        self.largest = 1

    def flooder(self):
        length = self.random.choice(LENGTHS)
        return User("flood", min(self.random.choice((1, 20, 50)), 6_000_000 // length), length)

    def state_length(self):
        return sum(self.state.values())

    def run(self):
        for _ in range(ROUNDS):
            self.clock.advance(self.random.choice((0, 1, 5)))
            for user in self.flooders:
                for _ in range(self.random.randrange(4)):
                    self.send(user)
            for user in self.light:
                if not user.waiting and self.random.random() < 0.2 and not self.send(user):
                    raise Broken(LIGHT_LET_IN)
            self.decide()
            if self.random.random() < 0.05:
                self.report()
            if self.random.random() < 0.01:
                self.flooders[self.random.randrange(FLOODERS)] = self.flooder()
        while self.inbox:
            self.decide()

    def send(self, user):
        sent = user.sent if self.knows_callers else None
        if self.budget.refusal(user.messages, user.length, sent) is not None:
            self.refused += 1
            return False
        self.take(Part.REQUESTS, user.length)
        begun = self.weight
        user.waiting += 1
        submission = Submission(
            user.messages, lambda answers: self.decided(user, begun), user.caller
        )
        self.largest = max(self.largest, submission.weight)
        self.inbox.put(submission)
        return True

    def decide(self):
        end = self.weight + DECIDED_WEIGHT
        while self.inbox and self.weight < end:
            submission = self.inbox.pop()
            submission.answer([])
            self.weight += submission.weight

    def decided(self, user, begun):
        user.waiting -= 1
        invoke = user.messages[0]
        self.state[invoke.namespace] += len(user.messages) * (768 + len(invoke.input))
        self.take(Part.REQUESTS, -user.length)
        others = FLOODERS + 1 if invoke.namespace == "flood" else 1
        bound = 2 * (TURN_WEIGHT + self.largest) * others
        if user in self.light and self.weight - begun > bound:
            raise Broken(LIGHT_SERVED)

    def report(self):
        """A worker completes some runs, now and then a great many."""
        report = Complete(run_id="send-1", worker_id="anna")
        if self.budget.refusal([report], length_of([report], 100)) is not None:
            raise Broken(REPORTS_LET_IN)
        part = self.random.choice((0.01, 0.1, 0.5))
        for namespace, length in self.state.items():
            self.state[namespace] = int(length * (1 - part))

    def take(self, part, length):
        self.budget.change(part, length)
        if OWN + self.state_length() + self.budget.passing > TOTAL:
            raise Broken(NEVER_OVER)


@pytest.mark.parametrize("seed", range(10))
def test_under_random_floods_memory_is_bounded_and_those_who_send_little_are_served(seed):
    simulation = Simulation(seed)

    simulation.run()

    assert simulation.weight > 0
    assert set(simulation.budget.parts.values()) == {0}


def test_the_floods_are_floods():
    simulations = [Simulation(seed) for seed in range(10)]
    for simulation in simulations:
        simulation.run()

    assert sum(simulation.refused > 0 for simulation in simulations) >= 5


def first_broken(**switched_off):
    """The invariant that breaks first, over some seeds."""
    for seed in range(20):
        try:
            Simulation(seed, **switched_off).run()
        except Broken as broken:
            return str(broken)
    return None


@pytest.mark.parametrize(
    ("switched_off", "invariant"),
    [
        ({"has_budget": False}, NEVER_OVER),
        ({"takes_turns": False}, LIGHT_SERVED),
        ({"knows_callers": False}, LIGHT_LET_IN),
    ],
    ids=["budget", "turns", "callers"],
)
def test_the_control_without_one_of_them_breaks_its_invariant(switched_off, invariant):
    assert first_broken(**switched_off) == invariant
