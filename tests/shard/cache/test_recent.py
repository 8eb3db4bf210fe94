from flo.model.storage.archive import ArchiveAddress, Archived, address_of
from flo.shard.cache import recent as recent_module
from flo.shard.cache.recent import Recent


def row(number, body=b"", name="send", namespace="default"):
    return Archived(
        kind="run",
        namespace=namespace,
        name=name,
        number=number,
        status="completed",
        finished_at_ms=0,
        key=None,
        body=body,
    )


def address(number, name="send", namespace="default"):
    return ArchiveAddress("run", namespace, name, number)


def add(recent, row):
    recent[address_of(row)] = row


def kept(recent, numbers=range(20)):
    return [number for number in numbers if address(number) in recent]


def test_a_row_is_found_by_its_address():
    recent = Recent()
    add(recent, row(1))

    assert recent[address(1)] == row(1)
    assert address(2) not in recent
    assert address(1, name="print") not in recent
    assert address(1, namespace="prod") not in recent


def test_when_there_are_too_many_the_oldest_goes(monkeypatch):
    monkeypatch.setattr(recent_module, "ROWS_MAX", 3)
    recent = Recent()

    for number in range(1, 6):
        add(recent, row(number))

    assert kept(recent) == [3, 4, 5]


def test_when_they_are_too_long_the_oldest_go(monkeypatch):
    monkeypatch.setattr(recent_module, "LENGTH_MAX", 100)
    recent = Recent()

    add(recent, row(1, bytes(40)))
    add(recent, row(2, bytes(60)))
    assert kept(recent) == [1, 2]

    add(recent, row(3, bytes(41)))
    assert kept(recent) == [3]


def test_a_row_too_long_for_memory_is_not_kept_and_harms_nothing(monkeypatch):
    monkeypatch.setattr(recent_module, "LENGTH_MAX", 100)
    recent = Recent()

    add(recent, row(1, bytes(101)))
    add(recent, row(2, bytes(100)))

    assert kept(recent) == [2]


def test_a_row_that_comes_again_takes_the_place_and_the_length_of_the_old_one(monkeypatch):
    monkeypatch.setattr(recent_module, "LENGTH_MAX", 100)
    recent = Recent()

    for _ in range(5):
        add(recent, row(1, bytes(50)))
    add(recent, row(2, bytes(50)))

    assert kept(recent) == [1, 2]


def test_a_row_that_was_removed_is_known_to_be_gone():
    recent = Recent()
    add(recent, row(1))

    recent[address(1)] = None
    recent[address(2)] = None

    assert [recent[address(number)] for number in (1, 2)] == [None, None]
    assert address(3) not in recent


def test_a_row_that_comes_back_is_found_again():
    recent = Recent()
    recent[address(1)] = None

    add(recent, row(1))

    assert recent[address(1)] == row(1)


def test_the_length_of_a_row_that_was_removed_counts_no_more(monkeypatch):
    monkeypatch.setattr(recent_module, "LENGTH_MAX", 100)
    recent = Recent()
    add(recent, row(1, bytes(60)))
    add(recent, row(2, bytes(40)))

    recent[address(1)] = None
    add(recent, row(3, bytes(60)))

    assert kept(recent) == [1, 2, 3]


def test_rows_that_were_removed_are_not_remembered_for_ever(monkeypatch):
    monkeypatch.setattr(recent_module, "ROWS_MAX", 3)
    recent = Recent()

    for number in range(1, 6):
        recent[address(number)] = None

    assert kept(recent) == [3, 4, 5]
