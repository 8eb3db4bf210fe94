"""The life of records in a group, whatever is done to it: compared with a ledger kept by hand."""

from collections import Counter

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from flo.engine.ticks import Tick
from flo.model.groups import (
    Ack,
    ClaimRecords,
    CreateGroup,
    GetGroup,
    GroupMode,
    GroupSettings,
    JoinGroup,
    LeaveGroup,
    ListDeadRecords,
    Nack,
    PurgeDeadRecords,
    ReadGroup,
    RequeueDeadRecords,
    TouchRecords,
)
from flo.model.streams import Append, NewRecord, TrimStream
from flo.shard.snapshot import dump, fingerprint, load
from given import ANNA, BORIS, CLARA, Later, given, replayed

GROUP = {"stream": "orders", "group": "billing"}
CONSUMERS = st.sampled_from([ANNA, BORIS, CLARA])
KEYS = st.sampled_from(["a", "a", "b", "c"])
SEQUENCES = st.lists(st.integers(1, 25), min_size=1, max_size=4)

NEW, WAITING, DELAYED, SETTLED, DEAD = "new", "waiting", "delayed", "settled", "dead"
ALIVE = settings(max_examples=80, stateful_step_count=40)
UNTIL_FOUND = settings(ALIVE, max_examples=400, phases=[Phase.generate])


class Life(RuleBasedStateMachine):
    @initialize(
        mode=st.sampled_from(GroupMode),
        max_deliveries=st.integers(1, 3),
        slots=st.sampled_from([2, 256]),
        no_ack=st.sampled_from([False, False, False, True]),
        keys=st.lists(KEYS, min_size=5, max_size=12),
    )
    def begin(self, mode, max_deliveries, slots, no_ack, keys):
        self.settings = GroupSettings(
            mode=mode,
            ack_timeout_ms=1_000,
            max_deliveries=max_deliveries,
            slots=slots,
            no_ack=no_ack,
        )
        self.engine = given(CreateGroup(**GROUP, settings=self.settings))
        self.keys = {}
        self.status = {}
        """By sequence: one of the words above, or who has it."""
        self.deliveries = Counter()
        self.first_seen = []
        """In which order records were handed out for the first time."""
        self.append(keys)

    @rule(keys=st.lists(KEYS, min_size=1, max_size=3))
    def append(self, keys):
        records = [NewRecord(payload=b"paid", key=key) for key in keys]
        self.engine.execute(Append(stream="orders", records=records))
        for key in keys:
            sequence = len(self.keys) + 1
            self.keys[sequence], self.status[sequence] = key, NEW

    @rule(change=st.sampled_from(["requeue", "requeue", "purge", "trim"]), limit=st.integers(1, 3))
    def do_something_seldom(self, change, limit):
        getattr(self, change)(limit)

    @rule(
        consumer=CONSUMERS,
        limit=st.integers(1, 4),
        sequences=SEQUENCES,
        delay_ms=st.sampled_from([0, 0, 500]),
    )
    def read_and_give_back(self, consumer, limit, sequences, delay_ms):
        self.read(consumer, limit)
        self.nack(sequences, delay_ms)

    @rule(consumer=CONSUMERS, limit=st.integers(1, 4))
    def read(self, consumer, limit):
        self.engine.execute(JoinGroup(**GROUP, consumer=consumer))
        message = ReadGroup(**GROUP, consumer=consumer, limit=limit)
        while True:  # as the shard does
            decision = self.engine.execute(message)
            self.take_note(decision, consumer)
            if decision.reply.items or not decision.events:
                return

    def take_note(self, decision, consumer):
        for event in decision.events:
            match type(event).__name__:
                case "RecordDied":
                    sequence = event.dead_record.record.sequence
                    assert self.status[sequence] == WAITING
                    assert self.deliveries[sequence] == self.settings.max_deliveries
                    self.status[sequence] = DEAD
                case "RecordsReturned":  # another consumer has taken over
                    self.give_back(lambda status: status not in (NEW, WAITING, DELAYED))
                case "RecordsDelivered":
                    for first, last in event.skipped:
                        for sequence in range(first, last + 1):
                            assert self.status[sequence] == NEW
                            self.status[sequence] = WAITING
        for record in decision.reply.items:
            assert self.status[record.sequence] in (NEW, WAITING)
            if record.sequence not in self.first_seen:
                self.first_seen.append(record.sequence)
            self.status[record.sequence] = SETTLED if self.settings.no_ack else consumer
            self.deliveries[record.sequence] += 1
        assert decision.reply.deliveries == [
            self.deliveries[record.sequence] for record in decision.reply.items
        ]

    @rule(consumer=CONSUMERS)
    def leave(self, consumer):
        self.engine.execute(LeaveGroup(**GROUP, consumer=consumer))
        self.give_back(lambda status: status == consumer)

    @rule(sequences=SEQUENCES)
    def ack(self, sequences):
        count = self.engine.execute(Ack(**GROUP, ids=ids(sequences))).reply.count
        acked = [one for one in set(sequences) if self.is_under_way(one)]
        assert count == len(acked)
        self.status |= dict.fromkeys(acked, SETTLED)

    @rule(sequences=SEQUENCES, delay_ms=st.sampled_from([0, 500]))
    def nack(self, sequences, delay_ms):
        message = Nack(**GROUP, ids=ids(sequences), delay_ms=delay_ms)
        count = self.engine.execute(message).reply.count
        nacked = [one for one in set(sequences) if self.is_held(one)]
        assert count == len(nacked)
        self.status |= dict.fromkeys(nacked, DELAYED if delay_ms else WAITING)

    @rule(sequences=SEQUENCES, consumer=CONSUMERS)
    def touch(self, sequences, consumer):
        message = TouchRecords(**GROUP, ids=ids(sequences), consumer=consumer)
        count = self.engine.execute(message).reply.count
        assert count == len({one for one in sequences if self.status.get(one) == consumer})

    @rule(consumer=CONSUMERS)
    def claim_ones_own(self, consumer):
        self.engine.execute(JoinGroup(**GROUP, consumer=consumer))
        reply = self.engine.execute(ClaimRecords(**GROUP, consumer=consumer)).reply
        own = [one for one, status in sorted(self.status.items()) if status == consumer]
        most = self.settings.max_deliveries
        assert [record.sequence for record in reply.items] == [
            one for one in own if self.deliveries[one] < most
        ]
        self.deliveries.update(record.sequence for record in reply.items)

    @rule(by_ms=st.sampled_from([1, 500, 1_000]))
    def wait(self, by_ms):
        decision = self.engine.execute(Later(by_ms), Tick())
        for event in decision.events:
            released = type(event).__name__ == "RecordsReleased"
            for first, last in event.sequences:
                for sequence in range(first, last + 1):
                    assert self.status[sequence] == DELAYED if released else self.is_held(sequence)
                    self.status[sequence] = WAITING

    def requeue(self, limit):
        reply = self.engine.execute(RequeueDeadRecords(**GROUP, limit=limit)).reply
        for sequence in map(sequence_of, reply.ids):
            assert self.status[sequence] == DEAD
            self.status[sequence] = WAITING
            self.deliveries[sequence] = 0

    def purge(self, limit):
        reply = self.engine.execute(PurgeDeadRecords(**GROUP, limit=limit)).reply
        self.status |= dict.fromkeys(map(sequence_of, reply.ids), SETTLED)

    def trim(self, limit):
        self.engine.execute(TrimStream(stream="orders", max_length=5 * limit))
        first = self.stream.first
        for sequence, status in self.status.items():
            if sequence < first and status != DEAD:
                self.status[sequence] = SETTLED

    @invariant()
    def every_record_is_in_one_place_and_it_is_the_right_one(self):
        group = self.stream.groups["billing"]
        dead = self.engine.query(ListDeadRecords(**GROUP, limit=1_000)).items
        found = {one: NEW for one in range(group.next, self.stream.next)}
        for one in group.backlog.deliveries.values():
            assert one.sequence not in found
            idle = WAITING if one.until_ms is None else DELAYED
            found[one.sequence] = one.consumer or idle
        for one in dead:
            assert one.record.sequence not in found
            found[one.record.sequence] = DEAD
        assert found == {one: status for one, status in self.status.items() if status != SETTLED}
        view = self.engine.query(GetGroup(**GROUP))
        assert view.lag + view.pending + view.waiting + view.dead == len(found)

    @invariant()
    def a_key_is_with_one_consumer_at_a_time_and_in_order(self):
        if self.settings.mode is not GroupMode.KEY_SHARED:
            return
        for key in set(self.keys.values()):
            mine = [one for one, its in self.keys.items() if its == key]
            assert len({self.status[one] for one in mine if self.is_held(one)}) <= 1
            seen = [one for one in self.first_seen if one in mine]
            assert seen == sorted(seen)

    @invariant()
    def one_consumer_has_everything_in_mode_exclusive(self):
        if self.settings.mode is GroupMode.EXCLUSIVE:
            assert len({self.status[one] for one in self.status if self.is_held(one)}) <= 1

    def teardown(self):
        """A state that was lived, replayed or loaded is the same."""
        lived = fingerprint(self.engine.state)
        assert fingerprint(replayed(self.engine.log)) == lived
        assert fingerprint(load(dump(self.engine.state))) == lived

    @property
    def stream(self):
        return self.engine.state.spaces["default"].streams["orders"]

    def is_held(self, sequence):
        return self.status.get(sequence) in (ANNA, BORIS, CLARA)

    def is_under_way(self, sequence):
        return self.status.get(sequence) in (ANNA, BORIS, CLARA, WAITING, DELAYED)

    def give_back(self, is_meant):
        for sequence in self.status:
            if self.is_held(sequence) and is_meant(self.status[sequence]):
                self.status[sequence] = WAITING


def ids(sequences):
    return [f"0-{sequence}" for sequence in sequences]


def sequence_of(stream_id):
    return int(stream_id.rpartition("-")[2])


TestLife = Life.TestCase
TestLife.settings = ALIVE


@pytest.mark.parametrize(
    ("rule_name", "broken"),
    [
        ("flo.engine.groups.reads._is_next_of_its_slot", lambda *_: True),
        ("flo.engine.groups.reads._waiting", lambda group, *_: group.backlog.waiting()),
        ("flo.engine.groups.reads._deliveries", lambda *_: 0),
    ],
)
def test_a_rule_that_is_broken_is_found_out(monkeypatch, rule_name, broken):
    monkeypatch.setattr(rule_name, broken)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Life, settings=UNTIL_FOUND)
