import pytest

from flo.engine.idempotency import IdempotencyIndex

A, B, C = ("send", "a"), ("send", "b"), ("send", "c")


@pytest.fixture
def index(monkeypatch):
    monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 2)
    index = IdempotencyIndex()
    index.run_ids |= {A: "send-1", B: "send-2", C: "send-3"}
    return index


def test_of_too_many_finished_keys_the_oldest_is_forgotten(index):
    for key in (B, A, C):
        index.finish(key)

    assert index.run_ids == {A: "send-1", C: "send-3"}
    assert list(index.finished) == [A, C]


def test_a_revived_key_is_forgotten_only_after_its_last_end(index):
    index.finish(A)
    index.revive(A, "send-1")
    index.finish(B)
    index.finish(C)
    assert index.run_ids == {A: "send-1", B: "send-2", C: "send-3"}

    index.finish(A)
    assert list(index.finished) == [C, A]


def test_a_key_that_was_forgotten_is_known_again_when_its_run_is_revived(index):
    for key in (A, B, C):
        index.finish(key)
    index.revive(A, "send-1")

    assert index.run_ids[A] == "send-1"
    assert list(index.finished) == [B, C]


def test_the_key_of_a_purged_run_is_free_unless_another_run_has_it(index):
    index.finish(A)
    index.purge(A, "send-9")
    assert index.run_ids[A] == "send-1"

    index.purge(A, "send-1")
    assert A not in index.run_ids
    assert not index.finished


def test_finished_keys_come_back_in_their_order(index):
    index.finish(C)
    index.finish(A)
    dumped = index.dump_finished()
    assert dumped == [("send", "c", "send-3"), ("send", "a", "send-1")]

    again = IdempotencyIndex()
    again.restore_finished(dumped)
    assert list(again.finished) == [C, A]
    assert again.run_ids == {A: "send-1", C: "send-3"}
