"""Callers that are known by numbers."""

from flo.model.storage.caller import KNOWN_MAX, Caller, KnownCallers, Source


def caller(number):
    return Caller(source=Source.RPC, address=f"host-{number}")


def test_who_is_new_is_written_out_and_has_a_number_then():
    known = KnownCallers()

    assert known.numbered(caller(1)) == caller(1)
    assert known.learn(caller(1)) == 0
    assert known.numbered(caller(1)) == 0
    assert (known.callers, known.words) == ([caller(1)], ["rpc host-1"])


def test_whoever_was_written_is_read():
    writer, reader = KnownCallers(), KnownCallers()
    for number in [*range(3 * KNOWN_MAX), 5, *range(2 * KNOWN_MAX, 0, -7), 5]:
        written = writer.numbered(caller(number))
        if isinstance(written, Caller):
            writer.learn(written)
            reader.learn(written)
        else:
            assert reader.callers[written] == caller(number)


def test_only_so_many_are_known():
    known = KnownCallers()
    for number in range(KNOWN_MAX + 3):
        known.learn(caller(number))

    assert len(known.callers) == KNOWN_MAX
    assert known.numbered(caller(2)) == caller(2)
    assert known.numbered(caller(3)) == 3
    assert known.numbered(caller(KNOWN_MAX)) == 0


def test_who_is_known_is_learned_once():
    known = KnownCallers()
    for _ in range(2):
        known.learn(caller(1))

    assert known.callers == [caller(1)]
