"""A real process holds payloads against schemas, and is ended when it takes too long."""

import asyncio
import io
from contextlib import asynccontextmanager

import msgspec
import pytest

from flo.engine.actions.schemas import FITS, SchemaCheck
from flo.model.errors import Overloaded
from flo.server.inside.schema_checker import WAITING_MAX, SchemaChecker
from flo.server.inside.schema_process import HEAD_LENGTH, READY, cpu_seconds_max, framed, serve

NUMBERS = '{"items":{"type":"integer"}}'
SLOW = '{"pattern":"(a{100}){50}b"}'
FOR_EVER = SchemaCheck(SLOW, b'"' + b"a" * 1_000_000 + b'"')
PATIENCE_S = 60.0


@asynccontextmanager
async def open_checker(seconds_max=PATIENCE_S):
    checker = SchemaChecker(seconds_max)
    await checker.start()
    try:
        yield checker
    finally:
        await checker.stop()


async def test_all_checks_of_a_request_are_made():
    async with open_checker() as checker:
        fits, does_not = await checker.work_out(
            [SchemaCheck(NUMBERS, b"[1, 2]"), SchemaCheck(NUMBERS, b'[1, "2"]')]
        )
        (again,) = await checker.work_out([SchemaCheck(NUMBERS, b"[3]")])

    assert (fits, again) == (FITS, FITS)
    assert does_not.details["problems"][0]["path"] == "/1"


async def test_what_takes_too_long_is_given_up_and_others_are_served():
    async with open_checker(seconds_max=0.05) as checker:
        (given_up,) = await checker.work_out([FOR_EVER])
        checker._seconds_max = PATIENCE_S
        (fits,) = await checker.work_out([SchemaCheck(NUMBERS, b"[1]")])

    assert given_up.is_given_up
    assert "more than 0.05 s" in given_up.problem
    assert fits == FITS


async def test_a_short_payload_may_take_little_cpu_and_a_long_one_more():
    async with open_checker() as checker:
        (given_up,) = await checker.work_out([FOR_EVER])

    assert "more than 0.66 s of CPU" in given_up.problem
    assert cpu_seconds_max(100) < cpu_seconds_max(16_000_000) < 2


async def test_a_checker_is_stopped_while_its_process_starts_again():
    async with open_checker() as checker:
        await checker.work_out([FOR_EVER])

    assert checker._process is None
    assert checker._restart.done()


async def test_a_process_that_dies_costs_one_check():
    async with open_checker() as checker:
        await checker.work_out([SchemaCheck(NUMBERS, b"[1]")])
        checker._process.kill()
        await checker._process.wait()

        (given_up,) = await checker.work_out([SchemaCheck(NUMBERS, b"[1]")])
        (fits,) = await checker.work_out([SchemaCheck(NUMBERS, b"[1]")])

    assert given_up.is_given_up
    assert fits == FITS


async def test_nobody_waits_behind_very_many():
    async with open_checker() as checker:
        checks = [
            asyncio.ensure_future(checker.work_out([SchemaCheck(NUMBERS, b"[1]")]))
            for _ in range(WAITING_MAX)
        ]
        await asyncio.sleep(0)

        with pytest.raises(Overloaded) as refusal:
            await checker.work_out([SchemaCheck(NUMBERS, b"[1]")])

        assert refusal.value.retry_after_ms > 0
        assert await asyncio.gather(*checks) == [[FITS]] * WAITING_MAX


def test_the_process_answers_frame_by_frame_until_its_end():
    requests = [(NUMBERS, b"[1]"), (NUMBERS, b"{")]
    answers = io.BytesIO()

    serve(io.BytesIO(b"".join(framed(msgspec.msgpack.encode(one)) for one in requests)), answers)

    said = answers.getvalue().removeprefix(READY)
    length = int.from_bytes(said[:HEAD_LENGTH])
    assert msgspec.msgpack.decode(said[HEAD_LENGTH : HEAD_LENGTH + length])["problem"] == ""
    assert b"is not in JSON" in said[HEAD_LENGTH + length :]
