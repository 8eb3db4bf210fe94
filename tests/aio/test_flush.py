import asyncio

from client.virtual import run_virtual, turns
from flo.aio.flush import Flush


class Counter:
    def __init__(self) -> None:
        self.flushes = 0

    def flush(self) -> None:
        self.flushes += 1


def test_all_who_ask_in_one_turn_share_a_flush() -> None:
    async def scenario() -> None:
        counter = Counter()
        flush = Flush(counter.flush)
        flush.soon()
        flush.soon()
        assert counter.flushes == 0
        await turns(1)
        assert counter.flushes == 1
        await turns(3)
        flush.soon()
        await turns(1)
        assert counter.flushes == 2

    run_virtual(scenario())


def test_with_a_delay_all_who_ask_within_it_share_a_flush() -> None:
    async def scenario() -> None:
        counter = Counter()
        flush = Flush(counter.flush, 0.002)
        flush.soon()
        await asyncio.sleep(0.001)
        flush.soon()
        assert counter.flushes == 0
        await asyncio.sleep(0.001)
        await turns(1)
        assert counter.flushes == 1

    run_virtual(scenario())


def test_a_flush_at_once_takes_the_place_of_the_one_that_was_to_come() -> None:
    async def scenario() -> None:
        counter = Counter()
        flush = Flush(counter.flush)
        flush.soon()
        flush.now()
        await turns()
        assert counter.flushes == 1

        flush.now()
        assert counter.flushes == 2

    run_virtual(scenario())


def test_who_asks_while_it_flushes_is_flushed_in_the_next_turn() -> None:
    async def scenario() -> None:
        counter = Counter()

        def again() -> None:
            counter.flush()
            if counter.flushes < 3:
                flush.soon()

        flush = Flush(again)
        flush.soon()
        await turns()
        assert counter.flushes == 3

    run_virtual(scenario())
