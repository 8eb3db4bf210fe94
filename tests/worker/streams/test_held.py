from flo.model.storage.records import StreamRecord
from flo.worker.streams.held import HeldRecord, HeldRecords


def held(name: str, deliveries: int = 1) -> HeldRecord:
    """The record "k3" has the key "k" and the sequence 3."""
    key, sequence = name[0], int(name[1:])
    record = StreamRecord(sequence=sequence, at_ms=1_000, payload=name.encode(), key=key)
    return HeldRecord(record, deliveries, until_s=60.0)


def hand_of(*names: str, keyed: bool = True) -> tuple[HeldRecords, list[HeldRecord]]:
    hand = HeldRecords()
    hand.is_keyed = keyed
    records = [held(name) for name in names]
    assert all(hand.add(record) for record in records)
    return hand, records


def begun(hand: HeldRecords) -> list[HeldRecord]:
    """Begin all that may."""
    found = []
    while (one := hand.begin()) is not None:
        found.append(one)
    return found


def test_without_keys_everything_may_begin_in_the_order_in_which_it_came() -> None:
    hand, records = hand_of("k1", "k2", "j3", keyed=False)

    assert begun(hand) == records
    assert (len(hand), hand.waiting_count) == (3, 0)


def test_of_one_key_only_the_first_may_begin() -> None:
    hand, (k1, _, j3, _) = hand_of("k1", "k2", "j3", "k4")

    assert begun(hand) == [k1, j3]
    assert hand.waiting_count == 2


def test_a_record_without_a_key_stands_in_no_line() -> None:
    hand = HeldRecords()
    hand.is_keyed = True
    for sequence in (1, 2):
        hand.add(HeldRecord(StreamRecord(sequence=sequence, at_ms=0, payload=b""), 1, 60.0))

    assert len(begun(hand)) == 2


def test_when_one_is_done_the_next_of_its_key_may_begin() -> None:
    hand, (k1, k2, k3) = hand_of("k1", "k2", "k3")

    assert begun(hand) == [k1]
    hand.done(k1)
    assert begun(hand) == [k2]
    hand.done(k2)
    assert begun(hand) == [k3]
    hand.done(k3)
    assert len(hand) == hand.waiting_count == 0


def test_what_is_withdrawn_takes_the_later_ones_of_its_key_with_it() -> None:
    hand, (k1, k2, j3, k4) = hand_of("k1", "k2", "j3", "k4")
    begun(hand)

    assert hand.withdraw(k1) == [k1, k2, k4]
    assert list(hand) == [j3]
    assert hand.waiting_count == 0


def test_what_is_behind_can_be_withdrawn_and_those_before_it_stay() -> None:
    hand, (k1, k2, k3, k4) = hand_of("k1", "k2", "k3", "k4")
    begun(hand)

    assert hand.withdraw(k3) == [k3, k4]
    hand.done(k1)
    assert begun(hand) == [k2]
    hand.done(k2)
    assert len(hand) == 0


def test_what_is_withdrawn_before_it_began_does_not_begin() -> None:
    hand, (k1, j2) = hand_of("k1", "j2")

    hand.withdraw(k1)

    assert begun(hand) == [j2]
    assert hand.waiting_count == 0


def test_a_closed_key_turns_away_what_was_on_its_way() -> None:
    hand, (k1, _) = hand_of("k1", "k2")
    begun(hand)
    hand.withdraw(k1)

    assert hand.has_closed
    assert not hand.add(held("k3"))
    assert hand.add(held("j4"))
    assert not hand.add(held("k5"))


def test_a_key_is_open_again_for_a_read_after_the_group_has_answered() -> None:
    hand, (k1, _) = hand_of("k1", "k2")
    begun(hand)
    hand.withdraw(k1)
    hand.reopen()

    assert not hand.has_closed
    assert hand.add(held("k3"))


def test_a_key_is_open_again_when_what_was_given_back_has_been_handed_out_anew() -> None:
    hand, (k1, _) = hand_of("k1", "k2")
    begun(hand)
    hand.withdraw(k1)

    assert not hand.add(held("k2")), "this one was on its way"
    assert not hand.add(held("k3"))
    assert hand.add(held("k1", deliveries=2))
    assert hand.add(held("k2", deliveries=2))
    assert [one.record.payload for one in hand] == [b"k1", b"k2"]


def test_a_record_that_comes_again_while_it_is_in_hand_is_not_begun_twice() -> None:
    hand, (k1, _) = hand_of("k1", "k2")
    begun(hand)
    again = held("k1", deliveries=2)
    again.until_s = 99.0

    assert hand.add(again)
    assert begun(hand) == []
    assert (k1.deliveries, k1.until_s) == (2, 99.0)


def test_without_keys_nothing_is_closed() -> None:
    hand, (k1, k2) = hand_of("k1", "k2", keyed=False)
    begun(hand)

    assert hand.withdraw(k1) == [k1]
    assert hand.add(held("k3"))
    assert next(iter(hand)) is k2
