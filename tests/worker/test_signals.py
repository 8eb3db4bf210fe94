import asyncio
import os
import signal

import pytest

from flo.worker.signals import on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_asks_politely_and_further_ones_do_not(number: int) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    with on_signals(lambda: heard.put_nowait("drain"), lambda: heard.put_nowait("stop")):
        answers = []
        for _ in range(3):
            os.kill(os.getpid(), number)
            answers.append(await heard.get())

    assert answers == ["drain", "stop", "stop"]


async def test_afterwards_signals_do_what_they_did_before() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with on_signals(lambda: None, lambda: None):
        pass

    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


async def test_outside_the_main_thread_signals_are_left_alone() -> None:
    def serve() -> None:
        async def main() -> None:
            with on_signals(lambda: None, lambda: None):
                pass

        asyncio.run(main())

    await asyncio.to_thread(serve)
