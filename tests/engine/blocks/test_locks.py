"""Two hundred runs over twenty keys: all are served, whatever they ask for, and in their order."""

import random

import pytest

from flo.engine.blocks.locks import LockTable
from flo.engine.blocks.records import LockRequest
from flo.model.blocks.names import LockMode

RUNS = 200
KEYS = [f"device:{number}" for number in range(20)]


def wanted(rng):
    """Keys in the order in which somebody happens to name them."""
    keys = rng.sample(KEYS, rng.randint(1, 5))
    return {key: rng.choice((LockMode.EXCLUSIVE, LockMode.SHARED)) for key in keys}


class OneByOne:
    """The way that is not taken: a run takes one key after the other, and keeps what it has."""

    def __init__(self, *, is_sorted):
        self.is_sorted = is_sorted
        self.holders = {key: set() for key in KEYS}
        self.ahead = {}
        self.held = {}

    def ask(self, run_id, keys):
        self.ahead[run_id] = sorted(keys) if self.is_sorted else list(keys)
        self.held[run_id] = []

    def take(self, run_id):
        """The next key, if nobody has it; whether it has all of them."""
        while self.ahead[run_id] and not self.holders[self.ahead[run_id][0]]:
            key = self.ahead[run_id].pop(0)
            self.holders[key].add(run_id)
            self.held[run_id].append(key)
            return not self.ahead[run_id]
        return not self.ahead[run_id]

    def leave(self, run_id):
        for key in self.held.pop(run_id):
            self.holders[key].remove(run_id)
        del self.ahead[run_id]


def served_one_by_one(seed, *, is_sorted):
    """How many of the runs are served before nobody can go on."""
    rng, table = random.Random(seed), OneByOne(is_sorted=is_sorted)
    for run_id in range(RUNS):
        table.ask(run_id, wanted(rng))
    served = 0
    while table.ahead:
        before = sum(map(len, table.held.values())), len(table.ahead)
        for run_id in rng.sample(list(table.ahead), len(table.ahead)):
            if table.take(run_id):
                table.leave(run_id)
                served += 1
        if before == (sum(map(len, table.held.values())), len(table.ahead)):
            break
    return served


def test_all_are_served_and_no_lock_has_two_holders():
    for seed in range(5):
        rng, table = random.Random(seed), LockTable()
        holding, served, token = [], [], 0
        for number in range(RUNS):
            request = LockRequest(run_id=f"r-{number}", family=f"r-{number}", keys=wanted(rng))
            table.request(request)
            if table.is_free(request):
                token += 1
                table.grant(request.run_id, token, number)
                holding.append(request.run_id)
            if rng.random() < 0.3 and holding:
                token = leave(table, holding, served, rng, token)
        while holding:
            token = leave(table, holding, served, rng, token)

        assert len(served) == RUNS
        assert not table.lines
        assert not table.requests


def leave(table, holding, served, rng, token):
    run_id = holding.pop(rng.randrange(len(holding)))
    keys = tuple(table.requests[run_id].keys)
    table.release(run_id)
    served.append(run_id)
    while (following := table.next_granted(keys)) is not None:
        token += 1
        table.grant(following, token, 0)
        holding.append(following)
        for line in table.lines.values():
            assert len(line.holders) <= 1 or set(line.holders.values()) == {LockMode.SHARED}
    return token


def test_taking_keys_one_by_one_in_any_order_ends_in_a_deadlock():
    """The control: what is never served shows that the test above could fail."""
    assert all(served_one_by_one(seed, is_sorted=False) < RUNS for seed in range(5))


@pytest.mark.parametrize("seed", range(5))
def test_taking_them_in_order_does_not(seed):
    assert served_one_by_one(seed, is_sorted=True) == RUNS
